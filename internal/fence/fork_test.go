//go:build linux && (amd64 || arm64)

package fence

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// everywhere returns a fence that allows all files.
func everywhere(t *testing.T) *Fence {
	t.Helper()
	f, err := New(Spec{Write: []string{"/"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// TestForkIsThatOfSyscall starts a program with package syscall and behind a fence. Both have the same
// limits, signals, files, folder, session and parent.
func TestForkIsThatOfSyscall(t *testing.T) {
	const script = "ulimit -Sn; ulimit -Hn; pwd; grep PPid /proc/$$/status; ls /proc/$$/fd; cut -d' ' -f6 /proc/$$/stat | grep -cx $$; ls -l /proc/$$/fd/0 | sed 's/.* //'"
	dir := t.TempDir()
	type begin = func(path string, argv []string, attr *syscall.ProcAttr) (int, error)
	said := func(begin begin, argv ...string) string {
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		out, err := os.OpenFile(filepath.Join(t.TempDir(), "out"), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		pidfd := -1
		attr := &syscall.ProcAttr{Dir: dir, Env: []string{"PATH=/usr/bin:/bin"}, Files: []uintptr{null.Fd(), out.Fd(), out.Fd()},
			Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, PidFD: &pidfd}}
		pid, err := begin("/bin/"+argv[0], argv, attr)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(pidfd)
		var is unix.Siginfo
		if err := unix.Waitid(unix.P_PIDFD, pidfd, &is, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
			t.Error("the pidfd is not that of the program:", err)
		}
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || status != 0 {
			t.Fatal(err, status)
		}
		text, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, argv := range [][]string{{"sh", "-c", script}, {"grep", "^Sig[BIC]", "/proc/self/status"}} { // a shell unblocks signals
		want := said(syscall.ForkExec, argv...)
		if got := said(everywhere(t).StartProcess, argv...); got != want {
			t.Errorf("%s behind a fence:\n%s\nby package syscall:\n%s", argv[0], got, want)
		}
	}
}

// TestLimitOfFiles repeats TestForkIsThatOfSyscall in a process whose limit of open files Go has raised.
func TestLimitOfFiles(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("/bin/sh", "-c", `ulimit -Sn 500 && exec "$0" -test.run '^TestForkIsThatOfSyscall$'`, self).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestErrorPasses: the first process does not start, because this process has too many open files. Later
// processes start. The test runs in a process whose limit of open files Go has raised.
func TestErrorPasses(t *testing.T) {
	if os.Getenv("FENCE_RAISED") == "" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/bin/sh", "-c", `ulimit -Sn 200 && ulimit -Hn 300 && exec "$0" -test.run '^TestErrorPasses$' -test.v`, self)
		cmd.Env = append(os.Environ(), "FENCE_RAISED=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	f, attr := everywhere(t), &syscall.ProcAttr{Files: []uintptr{0, 1, 2}}
	var all []int
	for {
		fd, err := unix.Dup(0)
		if err != nil {
			break
		}
		all = append(all, fd)
	}
	_, err := f.StartProcess("/bin/true", []string{"true"}, attr)
	for _, fd := range all {
		_ = unix.Close(fd)
	}
	if !errors.As(err, new(*EnterError)) || !errors.Is(err, unix.EMFILE) {
		t.Fatalf("with too many open files: %v", err)
	}
	pid, err := f.StartProcess("/bin/true", []string{"true"}, attr)
	if err != nil {
		t.Fatal("later:", err)
	}
	_, _ = syscall.Wait4(pid, nil, 0, nil)
}

// TestFilesInAnyOrder checks that no file is overwritten before it is copied.
func TestFilesInAnyOrder(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	// The standard input, the standard error and the given file of the program are the pipe. Its standard output
	// is the input of this process.
	want, err := os.Readlink("/proc/self/fd/0")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := everywhere(t).StartProcess("/bin/sh", []string{"sh", "-c", "to=$(readlink /proc/$$/fd/1); test /proc/$$/fd/0 -ef /proc/$$/fd/5 && test ! -e /proc/$$/fd/3 && echo $to >&2"},
		&syscall.ProcAttr{Files: []uintptr{w.Fd(), 0, w.Fd(), w.Fd()}})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = syscall.Wait4(pid, nil, 0, nil)
	text := make([]byte, 4<<10)
	if n, err := r.Read(text); err != nil || string(text[:n]) != want+"\n" {
		t.Errorf("standard output is %q, %v, want %q", text[:n], err, want)
	}
}

// TestForkErrors checks which errors are an EnterError.
func TestForkErrors(t *testing.T) {
	f := everywhere(t)
	for name, c := range map[string]struct {
		path string
		attr syscall.ProcAttr
		want error
	}{
		"no folder":        {"/bin/true", syscall.ProcAttr{Dir: "/none"}, unix.ENOENT},
		"no program":       {"/bin/none", syscall.ProcAttr{}, unix.ENOENT},
		"a NUL in a path":  {"/bin/\x00", syscall.ProcAttr{}, unix.EINVAL},
		"a NUL in Env":     {"/bin/true", syscall.ProcAttr{Env: []string{"A=\x00"}}, unix.EINVAL},
		"no cgroup":        {"/bin/true", syscall.ProcAttr{Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: 0}}, unix.EBADF},
		"no file":          {"/bin/true", syscall.ProcAttr{Files: []uintptr{0, 1, 9999}}, unix.EBADF},
		"too many bytes":   {"/bin/true", syscall.ProcAttr{Env: []string{"A=" + strings.Repeat("x", 1<<20)}}, unix.E2BIG},
		"not a program":    {file(t, filepath.Join(t.TempDir(), "text")), syscall.ProcAttr{}, unix.EACCES},
		"a folder to exec": {"/", syscall.ProcAttr{}, unix.EACCES},
	} {
		if c.attr.Files == nil {
			c.attr.Files = []uintptr{0, 1, 2}
		}
		if _, err := f.StartProcess(c.path, []string{"x"}, &c.attr); err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, unix.ECHILD) {
		t.Error("a child is left:", err)
	}
}

// TestForksAndWriters starts programs from several goroutines, while other goroutines write the programs
// under syscall.ForkLock. No program is still open for writing when it is started (ETXTBSY), and no goroutine
// waits for ever.
func TestForksAndWriters(t *testing.T) {
	f, dir := everywhere(t), t.TempDir()
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		path := filepath.Join(dir, string(rune('a'+i)))
		all.Go(func() {
			for range 20 {
				syscall.ForkLock.RLock()
				err := errors.Join(os.RemoveAll(path), os.WriteFile(path, program, 0o700))
				syscall.ForkLock.RUnlock()
				if err != nil {
					t.Error(err)
					return
				}
				pid, err := f.StartProcess(path, []string{"true"}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = syscall.Wait4(pid, nil, 0, nil)
			}
		})
	}
	all.Wait()
}

// TestForksLetWritersIn checks that an endless series of forks does not block a writer.
func TestForksLetWritersIn(t *testing.T) {
	f := &forking{}
	f.ended.L = &f.mu
	f.begin()
	wrote, more := make(chan bool), make(chan bool)
	go func() {
		syscall.ForkLock.RLock()
		syscall.ForkLock.RUnlock()
		close(wrote)
	}()
	for range forksMax - 1 {
		f.begin()
		f.end()
	}
	go func() { // this fork waits until those under way have ended
		f.begin()
		f.end()
		close(more)
	}()
	select {
	case <-more:
		t.Error("a fork began although as many as there may be had begun")
	default:
	}
	f.end()
	<-wrote
	<-more
}

// TestSessionKeyring: a process of another user does not have the session keyring of its parent.
func TestSessionKeyring(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root starts processes of other users")
	}
	const name = "skein-test-key"
	f, null := everywhere(t), int(os.Stdin.Fd())
	keys := func(cred *syscall.Credential) (found bool, err error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // the keyring is one of this thread, which ends with the goroutine
			if _, err = unix.KeyctlJoinSessionKeyring(name); err == nil {
				_, err = unix.AddKey("user", name, []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING)
			}
			var out [2]int
			if err == nil {
				err = unix.Pipe2(out[:], unix.O_CLOEXEC)
			}
			if err != nil {
				return
			}
			read := os.NewFile(uintptr(out[0]), "out")
			defer read.Close()
			pid, failed := f.StartProcess("/bin/cat", []string{"cat", "/proc/keys"}, &syscall.ProcAttr{Files: []uintptr{uintptr(null), uintptr(out[1]), 2}, Sys: &syscall.SysProcAttr{Credential: cred}})
			_ = unix.Close(out[1])
			if failed != nil {
				t.Error(failed)
				return
			}
			text, _ := io.ReadAll(read)
			var status syscall.WaitStatus
			if _, failed := syscall.Wait4(pid, &status, 0, nil); failed != nil || status != 0 {
				t.Error(failed, status)
			}
			found = strings.Contains(string(text), name)
		}()
		<-done
		return found, err
	}
	same, err := keys(nil)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		t.Skip("the machine does not let this process use keyrings: ", err)
	}
	other, err2 := keys(&syscall.Credential{Uid: 65533, Gid: 65533})
	if err != nil || err2 != nil || !same || other {
		t.Errorf("the key of the parent: of the same user %v, %v; of another user %v, %v", same, err, other, err2)
	}
}
