// Package ssh is the kind of tasks that run a command on another machine, by the program ssh of this one.
//
// # Nothing is left behind
//
// The command runs in a session of its own under a small script of the other machine. The script holds the
// input of the connection. When the input ends, because the attempt gets SIGTERM, or because its processes
// or this machine are gone, the script ends the whole session. See [remote].
//
// # What can be seen
//
// The script, its environment and the private key are on no command line and in no file. The command goes
// over the connection, and the key is in memory that only processes of this user can read.
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
	Dir        string            `json:"dir,omitempty"` // on the other machine; "": the home folder
	Env        map[string]string `json:"env,omitempty"`
}

// target is the connection as the attempt gets it.
type target struct {
	Host       string `json:"host"`
	Port       int    `json:"port"`
	User       string `json:"user"`
	Key        string `json:"key"`
	KnownHosts string `json:"known_hosts"`
}

// Variables that the command gets from the attempt.
var passed = []string{"SKEIN_RUN_ID", "SKEIN_TASK", "SKEIN_ATTEMPT", "SKEIN_TOKEN", "SKEIN_IDEMPOTENCY_KEY", "SKEIN_WORKFLOW", "SKEIN_NAMESPACE", "TRACEPARENT"}

// runMax bounds the text of a command, in bytes: the shell of the other machine reads it line by line.
const runMax = 64 << 10

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// read returns the input and the target of an attempt. Its errors hold no value.
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

// script is what the shell of the other machine reads: variables, folder, command. get returns the variables
// of the attempt.
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

// quoted is a text as one word of a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// remote is the script on the other machine. It reads the command from its input, up to the line end-NONCE,
// and says begin-NONCE. The command is in no argument: the shell reads it from a pipe. Its process is the
// first one of a session and of a process group, so that one signal reaches all of them. Once the input ends,
// the group gets TERM, and after some seconds KILL. The rest of the group is killed when the command has
// ended. The text holds no single quote, because it is one word of the login shell.
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

// graceSeconds is the time from TERM to KILL on the other machine.
const graceSeconds = 5

// gate passes on what the other machine prints, except for the line that says that the command has begun. The
// line may follow other text, because the files of a login shell may print text without a line end. The text
// before the line may have any length, so only its end is held.
type gate struct {
	to    io.Writer
	line  []byte // the text that is looked for, with its line end
	begun bool
	held  []byte // shorter than line
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

// end passes on what is held, once the other machine prints no more.
func (g *gate) end() error {
	_, err := g.to.Write(g.held)
	g.held = nil
	return err
}

// tail keeps the end of what is written.
type tail struct {
	to   io.Writer
	kept []byte
}

// tailMax bounds what a tail keeps, in bytes.
const tailMax = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if n := len(t.kept) - tailMax; n > 0 {
		t.kept = t.kept[n:]
	}
	return t.to.Write(p)
}

// never are texts of ssh and of the own dialer that say that another try cannot help.
var never = []string{"Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED", "Permission denied (", "invalid format", "error in libcrypto",
	"incorrect passphrase", dialRefused}

// dialRefused begins the line of the own dialer about an address that the rules of egress refuse.
const dialRefused = "skein: the rules of egress refuse the address"

// unbegun is the exit code of a command that has not begun.
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
