package ssh

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"skein.dev/skein/internal/cluster/nettest"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/kind"
)

// TestMain makes this test binary execute an attempt, or the ProxyCommand of its ssh.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "kind" {
		ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		os.Exit(kind.Run(ctx, Kind{}))
	}
	os.Exit(m.Run())
}

// machine runs Debian's sshd on loopback.
type machine struct {
	*testing.T
	dir, hosts, key string
	port            int
}

// newMachine starts a server. It ends with the test.
func newMachine(t *testing.T) *machine {
	sshd, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil {
		const why = "there is no /usr/sbin/sshd: run make tools (Debian's package openssh-server)"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	m := &machine{T: t, dir: t.TempDir()}
	if os.Getuid() == 0 { // sshd needs this folder for privilege separation
		m.ok(os.MkdirAll("/run/sshd", 0o755))
	}
	for _, name := range []string{"host", "user"} {
		if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", m.file(name)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v\n%s", err, out)
		}
	}
	m.port, err = nettest.FreePort()
	m.ok(err)
	m.key = m.read("user")
	m.hosts = fmt.Sprintf("[127.0.0.1]:%d %s", m.port, m.read("host.pub"))
	m.ok(os.WriteFile(m.file("config"), fmt.Appendf(nil, "Port %d\nListenAddress 127.0.0.1\nHostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPidFile none\n"+
		"PasswordAuthentication no\nPerSourcePenalties no\n", m.port, m.file("host"), m.file("user.pub")), 0o600))
	config := m.read("config") // sshd before version 9.8 does not know the last line
	if exec.CommandContext(t.Context(), sshd, "-t", "-f", m.file("config")).Run() != nil {
		m.ok(os.WriteFile(m.file("config"), []byte(strings.Replace(config, "PerSourcePenalties no\n", "", 1)), 0o600))
	}
	out, err := os.Create(m.file("log"))
	m.ok(err)
	cmd := exec.Command(sshd, "-D", "-e", "-f", m.file("config"))
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	m.ok(cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // an error, because it was killed
		_ = out.Close()
	})
	m.until("the server listens", func() bool {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(m.port)))
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return m
}

func (m *machine) file(name string) string { return filepath.Join(m.dir, name) }

func (m *machine) read(name string) string {
	m.Helper()
	text, err := os.ReadFile(m.file(name))
	m.ok(err)
	return string(text)
}

func (m *machine) ok(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// until waits for a condition. Nothing depends on the length of the wait.
func (m *machine) until(what string, is func() bool) {
	m.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			log, _ := os.ReadFile(m.file("log"))
			m.Fatalf("waited in vain until %s\n%s", what, log)
		}
	}
}

// attempt is a process that executes an attempt.
type attempt struct {
	cmd      *exec.Cmd
	out, log bytes.Buffer
}

// start starts an attempt. change may be nil.
func (m *machine) start(w With, change func(to map[string]any, in *kind.Input)) *attempt {
	m.Helper()
	me, err := user.Current()
	m.ok(err)
	to := map[string]any{"type": "ssh", "host": "127.0.0.1", "port": m.port, "user": me.Username, "key": m.key, "known_hosts": m.hosts}
	in := kind.Input{Kind: Name}
	in.Egress, err = json.Marshal(egress.Rules{Policies: []string{egress.Any}})
	m.ok(err)
	if change != nil {
		change(to, &in)
	}
	in.With, err = json.Marshal(w)
	m.ok(err)
	in.Connection, err = json.Marshal(to)
	m.ok(err)
	text, err := json.Marshal(in)
	m.ok(err)
	path := filepath.Join(m.TempDir(), "input")
	m.ok(os.WriteFile(path, text, 0o600))
	self, err := os.Executable()
	m.ok(err)
	a := &attempt{cmd: exec.Command(self, "kind", "ssh")}
	a.cmd.Env = append(os.Environ(), kind.InputVar+"="+path, "SKEIN_TASK=t", "SKEIN_RUN_ID=r")
	a.cmd.Stdout, a.cmd.Stderr = &a.out, &a.log
	m.ok(a.cmd.Start())
	m.Cleanup(func() { _ = a.cmd.Process.Kill() })
	return a
}

// end waits for the end of an attempt, and returns its exit code.
func (a *attempt) end() int {
	_ = a.cmd.Wait() // the exit code shows the outcome
	return a.cmd.ProcessState.ExitCode()
}

// alive reads a process number from a file, and reports whether the process exists.
func (m *machine) alive(name string) (pid int, is bool) {
	text, err := os.ReadFile(m.file(name))
	if err != nil || !strings.HasSuffix(string(text), "\n") {
		return 0, false
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	m.ok(err)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return pid, err == nil && !strings.Contains(string(status), ") Z ")
}

// TestCommand checks that the command gets its environment and folder, and that its output and exit code come
// back. The command has no input. Its text, with quotation marks and lines, arrives unchanged.
func TestCommand(t *testing.T) {
	m := newMachine(t)
	w := With{Run: "read x; printf '%s|%s|' \"$A\" \"$SKEIN_TASK\"; pwd\nprintf '%s' 'a\\b' \"it's $1\" >&2\nexit 7", Dir: m.dir, Env: map[string]string{"A": "one 'two'\nthree $HOME"}}
	a := m.start(w, nil)
	if code := a.end(); code != 7 || a.out.String() != "one 'two'\nthree $HOME|t|"+m.dir+"\n" || !strings.Contains(a.log.String(), `a\bit's`) {
		t.Errorf("%d\n%s\n%s", code, &a.out, &a.log)
	}
	large := strings.Repeat("# a long script\n", 2_000)
	for run, want := range map[string]int{"true": 0, "exit 255": 255, "kill -9 $$": 137, "exit 79": kind.Failed, large + "exit 3": 3, "sleep 1000 & exit 0": 0} {
		if code := m.start(With{Run: run}, nil).end(); code != want {
			t.Errorf("%.30q: %d, want %d", run, code, want)
		}
	}
}

// TestGate checks that the line begin-NONCE is found after text without a line end, in pieces of any size.
// Without that line, the text must not be collected in memory.
func TestGate(t *testing.T) {
	for _, step := range []int{1, 2, 7, 100} {
		var got bytes.Buffer
		g := &gate{to: &got, line: []byte("begin-x\n")}
		for text := []byte("profile begin-y\nbegibegin-x\nbegin-x\nout"); len(text) > 0; {
			n := min(step, len(text))
			if wrote, err := g.Write(text[:n]); wrote != n || err != nil {
				t.Fatal(wrote, err)
			}
			text = text[n:]
		}
		if err := g.end(); err != nil || !g.begun || got.String() != "profile begin-y\nbegibegin-x\nout" {
			t.Errorf("%d: %q, %v", step, &got, err)
		}
	}
	var got bytes.Buffer
	g := &gate{to: &got, line: []byte("begin-x\n")}
	for range 100 {
		if _, err := g.Write(bytes.Repeat([]byte("n"), 1000)); err != nil || len(g.held) >= len(g.line) {
			t.Fatalf("%d bytes are held, %v", len(g.held), err)
		}
	}
	if err := g.end(); err != nil || g.begun || got.Len() != 100_000 {
		t.Errorf("%d bytes, %v", got.Len(), err)
	}
}

// TestRefuses checks that nothing runs on a machine with another host key, with another user's key, or at an
// address that the rules refuse, and that such an attempt is not retried. A machine that does not answer
// counts as away.
func TestRefuses(t *testing.T) {
	m := newMachine(t)
	for name, c := range map[string]struct {
		change func(to map[string]any, in *kind.Input)
		want   int
	}{
		"unknown machine": {func(to map[string]any, _ *kind.Input) {
			to["known_hosts"] = strings.Replace(m.hosts, "127.0.0.1", "127.0.0.2", 1)
		}, kind.Permanent},
		"another machine": {func(to map[string]any, _ *kind.Input) {
			to["known_hosts"] = fmt.Sprintf("[127.0.0.1]:%d %s", m.port, m.read("user.pub"))
		}, kind.Permanent},
		"another user": {func(to map[string]any, _ *kind.Input) { to["key"] = m.read("host") }, kind.Permanent},
		"no key":       {func(to map[string]any, _ *kind.Input) { to["key"] = "nothing" }, kind.Permanent},
		// Rules without entries allow only public addresses.
		"egress": {func(_ map[string]any, in *kind.Input) { in.Egress, _ = json.Marshal(egress.Rules{}) }, kind.Permanent},
		"away":   {func(to map[string]any, _ *kind.Input) { to["port"] = 1; to["known_hosts"] = "[127.0.0.1]:1 x" }, kind.Away},
	} {
		a := m.start(With{Run: "touch " + m.file("ran")}, c.change)
		if code := a.end(); code != c.want || strings.Contains(a.log.String(), "PRIVATE") {
			t.Errorf("%s: %d, want %d\n%s", name, code, c.want, &a.log)
		}
	}
	if _, err := os.Stat(m.file("ran")); err == nil {
		t.Error("the command ran")
	}
}

// tree returns a command with a child and a grandchild, which write their numbers to files. trap makes them
// ignore TERM.
func (m *machine) tree(trap string) string {
	return trap + " echo $$ > " + m.file("one") + "; sh -c '" + trap + ` echo $$ > ` + m.file("two") + `; sh -c "` + trap + ` echo \$\$ > ` + m.file("three") + `; while :; do sleep 1; done" & wait; wait' & wait; wait`
}

func (m *machine) runs() {
	m.Helper()
	for _, name := range []string{"one", "two", "three"} {
		m.until(name+" runs", func() bool { _, is := m.alive(name); return is })
	}
}

func (m *machine) gone() {
	m.Helper()
	for _, name := range []string{"one", "two", "three"} {
		m.until(name+" is gone", func() bool { _, is := m.alive(name); return !is })
		m.ok(os.Remove(m.file(name)))
	}
}

// TestNothingIsLeft checks that the command's whole tree ends when the attempt gets TERM, when its process is
// killed, and when its ssh is killed, even if the tree ignores TERM.
func TestNothingIsLeft(t *testing.T) {
	m := newMachine(t)
	a := m.start(With{Run: m.tree("")}, nil)
	m.runs()
	m.ok(a.cmd.Process.Signal(syscall.SIGTERM))
	if code := a.end(); code != 143 {
		t.Errorf("told to end: %d\n%s", code, &a.log)
	}
	m.gone()

	a = m.start(With{Run: m.tree("")}, nil)
	m.runs()
	m.ok(a.cmd.Process.Kill())
	m.gone()
	a.end()

	a = m.start(With{Run: m.tree("trap : TERM;")}, nil)
	m.runs()
	killed := 0
	for range 1000 { // repeated, because the children of a thread that ends move to another thread
		if killed += m.killChildren(a.cmd.Process.Pid); killed > 0 {
			break
		}
	}
	if code := a.end(); code != kind.Failed || killed != 1 {
		t.Errorf("ssh was killed: %d, %d children\n%s", code, killed, &a.log)
	}
	m.gone()
}

// killChildren kills the children of a process, and returns their number. Children belong to the thread that
// made them.
func (m *machine) killChildren(of int) (killed int) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", of))
	m.ok(err)
	for _, path := range threads {
		children, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		m.ok(err)
		for _, text := range strings.Fields(string(children)) {
			pid, err := strconv.Atoi(text)
			m.ok(err)
			m.ok(syscall.Kill(pid, syscall.SIGKILL))
			killed++
		}
	}
	return killed
}

// TestNothingIsSeen checks that no command line on either machine contains the command, its environment or
// the key.
func TestNothingIsSeen(t *testing.T) {
	m := newMachine(t)
	a := m.start(With{Run: "word=from-the-command; echo $$ > " + m.file("one") + "; while :; do sleep 1; done", Env: map[string]string{"A": "from-the-environment"}}, nil)
	m.until("it runs", func() bool { _, is := m.alive("one"); return is })
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	m.ok(err)
	for _, path := range lines {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended
		}
		for _, word := range []string{"from-the-" + "command", "from-the-" + "environment", "PRIVATE" + " KEY"} {
			if bytes.Contains(text, []byte(word)) {
				t.Errorf("%s shows %s: %q", path, word, text)
			}
		}
	}
	m.ok(a.cmd.Process.Signal(syscall.SIGTERM))
	a.end()
}
