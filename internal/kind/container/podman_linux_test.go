package container

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/kind"
	"skein.dev/skein/internal/kind/boxtest"
)

const childVar = "SKEIN_TEST_KIND" // set in a process that executes an attempt

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "kind" && os.Args[3] == InsideArg {
		os.Exit(Inside())
	}
	if os.Getenv(childVar) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		os.Exit(kind.Run(ctx, Kind{}))
	}
	os.Exit(m.Run())
}

// box is a machine with podman and an image.
type box struct{ *testing.T }

const testImage = boxtest.Image

// newBox makes a store with the image, or skips the test.
func newBox(t *testing.T) *box {
	t.Helper()
	_, err := Engine(Settings{})
	t.Setenv(boxtest.ConfVar, boxtest.Store(t, err))
	return &box{T: t}
}

// attempt is a process that executes an attempt.
type attempt struct {
	*exec.Cmd
	box    *box
	folder string
	log    string
	output string
}

// start starts the process of an attempt. Like a worker, it gives the process a session of its own.
func (b *box) start(with string, settings Settings) *attempt {
	b.Helper()
	return b.startOf(with, settings, nil)
}

// startOf is start with a change of the input.
func (b *box) startOf(with string, settings Settings, more func(*kind.Input)) *attempt {
	b.Helper()
	folder := b.TempDir()
	a := &attempt{box: b, folder: folder, log: folder + "/log", output: folder + "/r.t.1.out"}
	machine, _ := json.Marshal(settings)
	in := kind.Input{Kind: Name, With: json.RawMessage(with), Settings: machine, Egress: json.RawMessage(`{"Policies":["any"]}`), Run: "r", Task: "t", Token: 1}
	if more != nil {
		more(&in)
	}
	input, _ := json.Marshal(in)
	work := folder + "/dir"
	if err := os.Mkdir(work, 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(folder+"/in", input, 0o600); err != nil {
		b.Fatal(err)
	}
	log, err := os.Create(a.log)
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	a.Cmd = exec.Command(self)
	a.Dir, a.Stdout, a.Stderr = work, log, log
	a.Env = append(os.Environ(), childVar+"=1", kind.InputVar+"="+folder+"/in", kind.OutputVar+"="+a.output, "SKEIN_TASK=t", "SKEIN_TOKEN=1")
	a.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := a.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = a.Process.Kill() })
	return a
}

// end waits for the end of the attempt, and returns its exit code and log.
func (a *attempt) end() (int, string) {
	_ = a.Wait()
	return a.ProcessState.ExitCode(), a.said()
}

func (a *attempt) said() string {
	text, _ := os.ReadFile(a.log)
	return string(text)
}

// run runs an attempt to its end.
func (b *box) run(with string) (int, string) { return b.start(with, Settings{}).end() }

// waitFor waits until a condition holds.
func (b *box) waitFor(what string, holds func() bool) {
	b.Helper()
	for began := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			b.Fatal("no " + what)
		}
	}
}

// living returns the processes whose command line contains a text. This includes podman and its monitor if
// the text is a folder that they use.
func living(text string) (found []string) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && bytes.Contains(line, []byte(text)) {
			found = append(found, e.Name()+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// TestContainer checks that a command in a container gets its files, variables and exit code, and little
// else.
func TestContainer(t *testing.T) {
	b := newBox(t)
	data, err := os.MkdirTemp("", "data")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(data)
	if err := os.WriteFile(data+"/given", []byte("from the machine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	machine := Settings{Mounts: []Mount{{Name: "data", Path: data}}}
	script := `pwd; echo "task $SKEIN_TASK $A"; echo "$KEY"; cat /data/given; touch /data/x || echo no write; echo made > file; echo rows=3 >> $SKEIN_OUTPUT; grep -E 'Cap(Eff|Bnd)|NoNewPrivs|^Seccomp:' /proc/self/status; echo err >&2; ls /`
	with, _ := json.Marshal(With{Image: testImage, Network: "none", Run: &Run{Shell: script}, Mounts: map[string]string{"data": "/data"}, Env: map[string]string{"A": "b", "KEY": "one\ntwo"}})
	a := b.start(string(with), machine)
	code, log := a.end()
	for _, part := range []string{"/work\ntask t b\none\ntwo\nfrom the machine\n", "no write\n", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "err\n"} {
		if !strings.Contains(log, part) {
			t.Errorf("%q is missing in\n%s", part, log)
		}
	}
	outputs, _ := os.ReadFile(a.output)
	file, _ := os.ReadFile(a.folder + "/dir/file")
	if code != 0 || string(outputs) != "rows=3\n" || string(file) != "made\n" {
		t.Errorf("%d, %q, %q", code, outputs, file)
	}
	if exists(a.output + ".container") {
		t.Error("the folder of the container is left")
	}
}

// TestReadOnly checks that file systems below a read-only mount are read-only, too.
func TestReadOnly(t *testing.T) {
	b := newBox(t)
	data := t.TempDir()
	below := data + "/of another/disk"
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", below, "tmpfs", 0, ""); err != nil {
		t.Skip(err)
	}
	defer unix.Unmount(below, unix.MNT_DETACH)
	if err := os.WriteFile(below+"/given", []byte("on the other disk\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	with := `{"image":"` + testImage + `","network":"none","mounts":{"data":"/data","out":"/out:rw"},"run":{"shell":"cd \"/data/of another/disk\"; cat given; touch x; touch /data/x; touch /out/made"}}`
	out := t.TempDir()
	_, log := b.start(with, Settings{Mounts: []Mount{{Name: "data", Path: data}, {Name: "out", Path: out, Write: true}}}).end()
	if !strings.Contains(log, "on the other disk\n") || strings.Count(log, "Read-only file system") != 2 || exists(below+"/x") || exists(data+"/x") || !exists(out+"/made") {
		t.Error(log)
	}
}

func TestCodes(t *testing.T) {
	b := newBox(t)
	for _, c := range []struct {
		with string
		code int
		log  string
	}{
		{`{"image":"` + testImage + `","network":"none"}`, 0, "of the image\n"},
		{`{"image":"` + testImage + `","network":"none","run":{"argv":["sh","-c","exit 126"]}}`, 126, ""},
		// The code depends on the program that is the first process of the container, so it is not checked.
		{`{"image":"` + testImage + `","network":"none","run":{"argv":["nothing"]}}`, -1, "o such file or directory"},
		{`{"image":"` + testImage + `","network":"none","run":{"lang":"sh","code":"id -u; kill -9 $$"},"user":"1000"}`, 137, "1000\n"},
		{`{"image":"` + testImage + `","network":"none","run":{"shell":"echo a > f; echo n=1 > $SKEIN_OUTPUT; stat -c %u f"},"user":"1000"}`, 0, "1000\n"},
		{`{"image":"127.0.0.1:1/none:1","pull":"never"}`, kind.Failed, "is not on this machine, and pull is never"},
		{`{"image":"localhost/none:1","pull":"always"}`, kind.Failed, "no registry has names that begin with localhost/"},
		{`{"image":"127.0.0.1:1/none:1"}`, kind.Away, "the registry cannot be reached"},
		{`{"image":"` + testImage + `","mounts":{"data":"/data"}}`, kind.Permanent, "add it to the setting container_mounts"},
		{`{"image":"` + testImage + `","privileged":true}`, kind.Permanent, "not that of a container"},
	} {
		if code, log := b.run(c.with); code != c.code && c.code >= 0 || code == 0 && c.code < 0 || !strings.Contains(log, c.log) {
			t.Errorf("%s: %d\n%s", c.with, code, log)
		}
	}
}

// TestOwnNetwork checks that a container reaches other machines through its network, but not the loopback
// address of this machine.
func TestOwnNetwork(t *testing.T) {
	b := newBox(t)
	if _, err := networkOption(NetworkOwn); err != nil {
		t.Skip(err)
	}
	loopback, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer loopback.Close()
	reached := make(chan struct{}, 1)
	go func() {
		if conn, err := loopback.Accept(); err == nil {
			reached <- struct{}{}
			_ = conn.Close()
		}
	}()
	names, _ := os.ReadDir("/run/netns")
	port := strconv.Itoa(loopback.Addr().(*net.TCPAddr).Port)
	code, log := b.run(`{"image":"` + testImage + `","run":{"shell":"ls /sys/class/net; wget -T 2 -q -O - http://127.0.0.1:` + port + ` || wget -T 2 -q -O - http://10.0.2.2:` + port + ` || echo out of reach"}}`)
	if code != 0 || !strings.Contains(log, "out of reach") || !strings.Contains(log, "tap0") {
		t.Errorf("%d\n%s", code, log)
	}
	if left, _ := os.ReadDir("/run/netns"); len(left) != len(names) {
		t.Errorf("the machine keeps the name of a network: %d after %d", len(left), len(names))
	}
	select {
	case <-reached:
		t.Error("a container reached the loopback of the machine")
	default:
	}
}

// TestKilled kills each process of an attempt in turn. Nothing of the container may remain, and podman may
// have no record of it.
func TestKilled(t *testing.T) {
	b := newBox(t)
	for i, victim := range []string{"kind", "script", "conmon", "term"} {
		mark := strconv.Itoa(1_000_000 + os.Getpid()*10 + i)
		a := b.start(`{"image":"`+testImage+`","network":"none","run":{"shell":"echo begun; sleep `+mark+` & sleep `+mark+`; wait"}}`, Settings{})
		b.waitFor("begin: "+a.said(), func() bool { return strings.Contains(a.said(), "begun\n") && len(living("sleep\x00"+mark)) == 2 })
		switch victim {
		case "kind":
			_ = a.Process.Kill()
		case "term":
			_ = a.Process.Signal(syscall.SIGTERM)
		default:
			text := map[string]string{"script": "skein-container\x00" + a.output, "conmon": "/conmon\x00"}[victim]
			killOf(t, a, text)
		}
		_, log := a.end()
		b.waitFor("end of "+victim+": "+strings.Join(living(mark), "\n")+log, func() bool { return len(living(mark)) == 0 })
		if victim == "term" && a.ProcessState.ExitCode() != 143 {
			t.Errorf("%d\n%s", a.ProcessState.ExitCode(), log)
		}
	}
	if known, err := exec.Command("podman", "ps", "--all", "--quiet").Output(); err != nil || len(bytes.TrimSpace(known)) > 0 {
		t.Errorf("podman knows %s, %v", known, err)
	}
}

// killOf kills the process of an attempt whose command line contains a text.
func killOf(t *testing.T, a *attempt, text string) {
	t.Helper()
	for _, line := range living(text) {
		pid, _, _ := strings.Cut(line, " ")
		if env, _ := os.ReadFile("/proc/" + pid + "/environ"); bytes.Contains(env, []byte(a.output)) || strings.Contains(line, a.output) {
			n, _ := strconv.Atoi(pid)
			_ = unix.Kill(n, unix.SIGKILL)
			return
		}
	}
	t.Fatalf("no process with %q", text)
}
