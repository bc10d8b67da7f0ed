//go:build linux

package fence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// actVar names what the test binary does behind a fence, instead of tests.
const actVar = "FENCE_TEST_ACT"

// TestMain runs nothing on a kernel without Landlock. If CI is set, such a kernel is an error, so that the
// tests are not skipped unnoticed.
func TestMain(m *testing.M) {
	if act := os.Getenv(actVar); act != "" {
		errno, _ := acts[act](os.Args[1:]).(syscall.Errno)
		os.Exit(int(errno))
	}
	if ABI() > 0 {
		os.Exit(m.Run())
	}
	fmt.Fprintln(os.Stderr, "no test was run:", ErrNone)
	if os.Getenv("CI") != "" {
		os.Exit(1)
	}
}

// acts are the actions that the tests try behind a fence.
var acts = map[string]func(args []string) error{
	"read": func(args []string) error {
		fd, err := unix.Open(args[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		_, err = unix.Read(fd, make([]byte, 1))
		return err
	},
	"write": func(args []string) error {
		_, err := unix.Open(args[0], unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, 0o644)
		return err
	},
	"link":  func(args []string) error { return unix.Link(args[0], args[1]) },
	"mknod": func(args []string) error { return unix.Mknod(args[0], unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) },
	"mount": func(args []string) error { return unix.Mount(args[0], args[1], "", unix.MS_BIND, "") },
	"kill": func(args []string) error {
		pid, _ := strconv.Atoi(args[0])
		return unix.Kill(pid, unix.SIGTERM)
	},
	// child starts a process, reads its environment and ends it.
	"child": func([]string) error {
		pid, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "1000"}, &syscall.ProcAttr{})
		if err != nil {
			return err
		}
		_, err = os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err != nil {
			return unix.EACCES
		}
		return unix.Kill(pid, unix.SIGKILL)
	},
}

// behind runs one of acts in a process behind a fence, and returns its error.
func behind(t *testing.T, s Spec, act string, args ...string) error {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s.System = append(s.System, self, "/usr", "/lib", "/lib64", "/bin", "/proc")
	s.Write = append(s.Write, os.DevNull)
	status, err := start(t, s, self, append([]string{self}, args...), actVar+"="+act)
	if err != nil {
		t.Fatal(err)
	}
	if !status.Exited() {
		t.Fatalf("%s %v: %v", act, args, status)
	}
	if errno := syscall.Errno(status.ExitStatus()); errno != 0 {
		return errno
	}
	return nil
}

// start runs a program behind a fence until it ends.
func start(t *testing.T, s Spec, path string, argv []string, env ...string) (status syscall.WaitStatus, err error) {
	t.Helper()
	f, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pid, err := f.StartProcess(path, argv, &syscall.ProcAttr{Env: append(env, "PATH=/usr/bin:/bin"), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return 0, err
	}
	_, err = syscall.Wait4(pid, &status, 0, nil)
	return status, err
}

func file(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRights checks the accesses that each list of a Spec allows, and that all other accesses are refused.
func TestRights(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"in/a", "in/sub/g", "work/b", "work/shut/key", "work/shut/own/c", "work/shut/given/f", "work/sub/d", "out/e", "single"} {
		file(t, at(name))
	}
	if err := os.Symlink(at("work/shut"), at("in/link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(at("work"), at("alias")); err != nil {
		t.Fatal(err)
	}
	spec := Spec{Read: []string{at("in"), at("in/a"), at("single"), at("absent")}, Write: []string{at("alias"), at("in/sub")}, Own: []string{at("work/shut/own")}, Given: []string{at("work/shut/given")},
		Shut: []string{at("work/shut")}}
	for _, c := range []struct {
		name, act string
		args      []string
		want      error
	}{
		{"read", "read", []string{at("in/a")}, nil},
		{"read a single file", "read", []string{at("single")}, nil},
		{"write where only reading is allowed", "write", []string{at("in/a")}, unix.EACCES},
		{"write below a folder that may be read", "write", []string{at("in/sub/new")}, nil},
		{"read again below a folder that may be read", "read", []string{at("in/a")}, nil},
		{"write a file", "write", []string{at("work/b")}, nil},
		{"write a new file below a folder", "write", []string{at("work/sub/new")}, nil},
		{"write a new file in a folder above a shut one", "write", []string{at("work/new")}, unix.EACCES},
		{"read a shut file", "read", []string{at("work/shut/key")}, unix.EACCES},
		{"read a shut file by a link", "read", []string{at("in/link/key")}, unix.EACCES},
		{"write what is its own below a shut folder", "write", []string{at("work/shut/own/c")}, nil},
		{"read what it is given below a shut folder", "read", []string{at("work/shut/given/f")}, nil},
		{"write what it is given to read", "write", []string{at("work/shut/given/f")}, unix.EACCES},
		{"read elsewhere", "read", []string{at("out/e")}, unix.EACCES},
		{"write elsewhere", "write", []string{at("out/new")}, unix.EACCES},
		{"link a shut file", "link", []string{at("work/shut/key"), at("work/sub/key")}, unix.EXDEV},
		{"make a device", "mknod", []string{at("work/sub/dev")}, unix.EACCES},
		{"mount", "mount", []string{at("in"), at("work/sub")}, unix.EPERM},
		{"start and end a child", "child", nil, nil},
	} {
		if err := behind(t, spec, c.act, c.args...); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// TestProcesses checks that a process behind a fence cannot reach processes of the same user outside of it.
// The threads of this process are among them.
func TestProcesses(t *testing.T) {
	outside := exec.Command("sleep", "1000")
	if err := outside.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = outside.Process.Kill()
		_ = outside.Wait()
	}()
	pid := strconv.Itoa(outside.Process.Pid)
	paths := []string{"/proc/" + pid + "/environ", "/proc/" + pid + "/mem"}
	for _, pattern := range []string{"environ", "mem"} {
		threads, err := filepath.Glob("/proc/self/task/*/" + pattern)
		if err != nil || len(threads) == 0 {
			t.Fatal(err, threads)
		}
		for _, path := range threads {
			paths = append(paths, strings.Replace(path, "self", strconv.Itoa(os.Getpid()), 1))
		}
	}
	for _, path := range paths {
		if err := behind(t, Spec{}, "read", path); !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.ENOENT) { // a thread may have ended
			t.Errorf("read %s: %v, want EACCES", path, err)
		}
	}
	if ABI() >= 6 {
		if err := behind(t, Spec{}, "kill", pid); !errors.Is(err, unix.EPERM) {
			t.Errorf("signal to a process outside: %v, want EPERM", err)
		}
	}
}

// TestErrors checks the errors for programs that cannot be executed.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]error{
		"/bin/none": unix.ENOENT, file(t, filepath.Join(dir, "secret")): unix.EACCES, dir: unix.EACCES,
	} {
		if _, err := start(t, Spec{System: []string{"/bin", "/usr"}}, path, []string{"x"}); err != want {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	none := &Fence{ruleset: 0} // standard input, which is not a fence
	var enter *EnterError
	if _, err := none.StartProcess("/bin/true", []string{"true"}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}}); !errors.As(err, &enter) {
		t.Errorf("%v, want an EnterError", err)
	}
}

// TestStarted checks that a program behind a fence does not get the rights back: not as root, and not by
// executing a program with capabilities of its own.
func TestStarted(t *testing.T) {
	dir := t.TempDir()
	key, out := file(t, filepath.Join(dir, "key")), file(t, filepath.Join(dir, "out/text"))
	mine := filepath.Join(dir, "out/grep")
	program, err := os.ReadFile("/bin/grep")
	if err == nil {
		err = os.WriteFile(mine, program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // struct vfs_cap_data, version 2, effective: it permits each capability of undoing
		raw := binary.LittleEndian.AppendUint32(nil, 0x02000001)
		for _, word := range []uint64{undoing & 0xffffffff, 0, undoing >> 32, 0} {
			raw = binary.LittleEndian.AppendUint32(raw, uint32(word))
		}
		if err := unix.Setxattr(mine, "security.capability", raw, 0); err != nil {
			t.Log("the file system stores no capabilities:", err)
		}
	}
	spec := Spec{Read: []string{"/proc", "/usr", "/lib", "/lib64", "/bin"}, Write: []string{filepath.Join(dir, "out"), os.DevNull}}
	script := "{ cat " + key + " /proc/" + strconv.Itoa(os.Getpid()) + "/environ; for grep in grep " + mine + "; do $grep -E '^(NoNewPrivs|Cap(Inh|Prm|Eff|Amb))' /proc/self/status; done; } >" + out + " 2>/dev/null"
	if status, err := start(t, spec, "/bin/sh", []string{"sh", "-c", script}); err != nil || status != 0 {
		t.Fatal(status, err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 10 {
		t.Fatalf("%q", text)
	}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":\t")
		has, err := strconv.ParseUint(value, 16, 64)
		switch {
		case err != nil:
			t.Fatalf("%q: %v", line, err)
		case name == "NoNewPrivs" && has != 1:
			t.Error("the program may gain privileges")
		case name != "NoNewPrivs" && has&undoing != 0:
			t.Errorf("the program has the capabilities %s %x", name, has&undoing)
		}
	}
}

// TestFresh checks which changes of the file system make a fence outdated: those after which a new fence
// would allow more.
func TestFresh(t *testing.T) {
	dir := t.TempDir()
	file(t, filepath.Join(dir, "etc/hosts"))
	file(t, filepath.Join(dir, "etc/shadow"))
	file(t, filepath.Join(dir, "usr/a"))
	in := func(name string) string { return filepath.Join(dir, name) }
	f, err := New(Spec{System: []string{in("etc"), in("usr")}, Read: []string{in("single")}, Shut: []string{filepath.Join(dir, "etc/shadow")}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file(t, in("usr/b"))
	if !f.Fresh() {
		t.Error("a new file in a folder that has one rule made the fence old")
	}
	file(t, in("single"))
	if f.Fresh() {
		t.Error("a file that is there now, and was not, left the fence fresh")
	}
	if err := os.Remove(in("single")); err != nil {
		t.Fatal(err)
	}
	// The clock of the file system may be coarse: the change is repeated until its time differs.
	for range 1000 {
		if err := os.Rename(file(t, filepath.Join(dir, "etc/hosts.new")), filepath.Join(dir, "etc/hosts")); err != nil {
			t.Fatal(err)
		}
		if !f.Fresh() {
			return
		}
	}
	t.Error("a replaced file left the fence fresh")
}

func BenchmarkStart(b *testing.B) {
	f, err := New(Spec{Read: []string{"/usr", "/bin", "/lib", "/lib64", "/etc", "/proc"}, Write: []string{b.TempDir()}})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	attr := &syscall.ProcAttr{Files: []uintptr{0, 1, 2}}
	for name, start := range map[string]func() (int, error){
		"open":   func() (int, error) { return syscall.ForkExec("/bin/true", []string{"true"}, attr) },
		"fenced": func() (int, error) { return f.StartProcess("/bin/true", []string{"true"}, attr) },
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				pid, err := start()
				if err != nil {
					b.Fatal(err)
				}
				_, _ = syscall.Wait4(pid, nil, 0, nil)
			}
		})
	}
}

// TestLinkInTime: a task replaces a folder by a link after the folder was compared with the paths of Shut. No
// rule allows the target of the link.
func TestLinkInTime(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/shut", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/shut/file", []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("shut", dir+"/granted"); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(Spec{System: []string{self, "/usr", "/lib", "/lib64", "/bin", "/proc"}, Write: []string{os.DevNull}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, path := range []string{dir + "/granted", dir + "/granted/file"} {
		if err := f.rule(path, forRead); err != nil {
			t.Fatal(err)
		}
	}
	pid, err := f.StartProcess(self, []string{self, dir + "/shut/file"}, &syscall.ProcAttr{Env: []string{actVar + "=read"}, Files: []uintptr{0, 1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || syscall.Errno(status.ExitStatus()) != unix.EACCES {
		t.Errorf("%v, %v", status, err)
	}
}
