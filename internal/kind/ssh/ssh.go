// Package ssh is the kind of tasks that run a command on another machine, with this machine's program ssh.
//
// # Nothing is left behind
//
// The command runs in a session of its own, under a small script on the other machine. The script reads the
// input of the connection. The input ends when the attempt gets SIGTERM, or when its processes or this
// machine are gone. The script then ends the whole session. See [remote].
//
// # What can be seen
//
// The script, its environment and the private key are on no command line and in no file. The command goes
// through the connection, and the key is in memory that only processes of this user can read.
package ssh

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"skein.dev/skein/internal/kind"
)

// Name is the name of the kind.
const Name = "ssh"

// Kind runs commands on other machines.
type Kind struct{}

var _ kind.Needy = Kind{}

// Name implements kind.Kind.
func (Kind) Name() string { return Name }

// Connections implements kind.Connector.
func (Kind) Connections() []string { return []string{"ssh"} }

// With is the input of the kind.
type With struct {
	Connection string            `json:"connection"`
	Run        string            `json:"run"`           // a text for sh
	Dir        string            `json:"dir,omitempty"` // folder on the other machine; "" means the home folder
	Env        map[string]string `json:"env,omitempty"`
}

// target is the connection with the values of its secrets.
type target struct {
	Host       string `json:"host"`
	Port       int    `json:"port"`
	User       string `json:"user"`
	Key        string `json:"key"`
	KnownHosts string `json:"known_hosts"`
}

// passed lists the variables of the attempt that the command gets.
var passed = []string{"SKEIN_RUN_ID", "SKEIN_TASK", "SKEIN_ATTEMPT", "SKEIN_TOKEN", "SKEIN_IDEMPOTENCY_KEY", "SKEIN_WORKFLOW", "SKEIN_NAMESPACE", "TRACEPARENT"}

// runMax bounds the bytes of a command, because the shell on the other machine reads the command line by
// line.
const runMax = 64 << 10

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// read returns the input and the target of an attempt. Its errors contain no values.
func read(in *kind.Input) (w With, to target, err error) {
	switch {
	case json.Unmarshal(in.With, &w) != nil || strings.TrimSpace(w.Run) == "":
		return w, to, errors.New("the input needs run, a text for sh")
	case len(w.Run) > runMax:
		return w, to, fmt.Errorf("run has %d bytes, the limit is %d: put the script on the machine", len(w.Run), runMax)
	case strings.ContainsRune(w.Run+w.Dir, 0):
		return w, to, errors.New("run and dir must not contain NUL")
	case len(in.Connection) == 0:
		return w, to, errors.New("the input needs connection, the name of a connection of the type ssh")
	case json.Unmarshal(in.Connection, &to) != nil || to.Host == "" || to.User == "" || to.Key == "" || to.KnownHosts == "":
		return w, to, errors.New("the connection needs host, user, key and known_hosts")
	}
	for name, value := range w.Env {
		if !envName.MatchString(name) || strings.ContainsRune(value, 0) {
			return w, to, fmt.Errorf("env: %.100q is not the name of a variable, or its value contains NUL", name)
		}
	}
	return w, to, nil
}

// script returns the text for the shell on the other machine: it sets the variables, changes the folder and
// runs the command. get returns a variable of the attempt.
func script(w *With, get func(string) string) string {
	env := maps.Clone(w.Env)
	if env == nil {
		env = map[string]string{}
	}
	for _, name := range passed {
		if value := get(name); value != "" {
			env[name] = value
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(env)) {
		b.WriteString("export " + name + "=" + quoted(env[name]) + "\n")
	}
	if w.Dir != "" {
		b.WriteString("cd -- " + quoted(w.Dir) + " || exit\n")
	}
	b.WriteString(w.Run)
	return b.String()
}

// quoted returns a text as one word for a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// remote is the script on the other machine. It reads the command from its input, up to the line end-NONCE,
// and then prints begin-NONCE. No argument contains the command: a shell reads the command from a pipe. This
// shell is the first process of a session and of a process group, so one signal reaches all processes of the
// command. When the input ends, the group gets TERM, and KILL some seconds later. When the command has ended,
// the rest of the group is killed. The script contains no single quote, because it is passed to the login
// shell as one quoted word.
const remote = `command -v setsid >/dev/null || { echo "skein: there is no program setsid on the machine" >&2; exit 78; }
exec 3<&0
s=
while IFS= read -r l <&3 && [ "$l" != "end-$1" ]; do s="$s$l
"; done
[ "$l" = "end-$1" ] || exit 143
echo "begin-$1"
setsid sh -c ". /dev/fd/4" 4<<E </dev/null 3<&- &
$s
E
p=$!
tell() { kill -s "$1" -- "-$p" || kill -s "$1" "$p"; } 2>/dev/null
( while IFS= read -r l; do :; done; tell TERM; i=0; while [ $i -lt "$2" ] && tell 0; do sleep 1; i=$((i+1)); done; tell KILL ) <&3 >/dev/null 2>&1 &
w=$!
exec 3<&-
wait $p; c=$?
kill -s KILL $w; tell KILL
exit $c`

// graceSeconds is the time between TERM and KILL on the other machine.
const graceSeconds = 5

// gate forwards the output of the other machine, except for the line begin-NONCE. Other text may come before
// that line without a line end, because the files of a login shell may print such text. The text may have any
// length, so gate holds only its end.
type gate struct {
	to    io.Writer
	line  []byte // the expected line, with its line end
	begun bool
	held  []byte // possible beginning of the line; shorter than the line
}

func (g *gate) Write(p []byte) (int, error) {
	if g.begun {
		return g.to.Write(p)
	}
	g.held = append(g.held, p...)
	pass, after, found := bytes.Cut(g.held, g.line)
	if !found {
		n := max(0, len(g.held)-len(g.line)+1)
		pass, after = g.held[:n], nil
		g.held = bytes.Clone(g.held[n:])
	} else {
		g.begun, g.held = true, nil
	}
	for _, text := range [][]byte{pass, after} {
		if _, err := g.to.Write(text); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// end forwards the held text. It is called after the last output of the other machine.
func (g *gate) end() error {
	_, err := g.to.Write(g.held)
	g.held = nil
	return err
}

// tail forwards the text that is written to it, and keeps the end of the text.
type tail struct {
	to   io.Writer
	kept []byte
}

// tailMax bounds the bytes that a tail keeps.
const tailMax = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if n := len(t.kept) - tailMax; n > 0 {
		t.kept = t.kept[n:]
	}
	return t.to.Write(p)
}

// never lists messages of ssh, and of our ProxyCommand, after which a retry cannot help.
var never = []string{"Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED", "Permission denied (", "invalid format", "error in libcrypto",
	"incorrect passphrase", dialRefused}

// dialRefused begins a message of our ProxyCommand: the egress rules refuse the address.
const dialRefused = "skein: the rules of egress refuse the address"

// unbegun returns the exit code of an attempt whose command has not begun.
func unbegun(said []byte, code int) int {
	for _, text := range never {
		if bytes.Contains(said, []byte(text)) {
			return kind.Permanent
		}
	}
	if code == kind.Permanent {
		return code
	}
	return kind.Away
}
