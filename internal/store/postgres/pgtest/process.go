//go:build linux

package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// janitor is a script. It waits until the other end of its input is closed, which also happens when the test
// is killed. Then it ends the server and removes its folder.
const janitor = `read -r _
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid" 2>/dev/null
while [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
rm -rf -- "$1"`

// guard starts the janitor with its script.
func (s *Server) guard(script string) error {
	s.janitor = exec.Command("sh", "-c", script, "janitor", s.dir)
	// The janitor gets its own process group, so that a Ctrl-C for the test does not end it first.
	s.janitor.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	leash, err := s.janitor.StdinPipe()
	if err != nil {
		return err
	}
	s.leash = leash
	return s.janitor.Start()
}

// account is the user as which PostgreSQL runs, because it refuses to run as root. It is nil if that is the
// present user.
type account struct{ uid, gid int }

func unprivileged() (*account, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		return &account{uid, gid}, nil
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as")
}

func (a *account) give(dir string) error {
	if a == nil {
		return nil
	}
	return os.Chown(dir, a.uid, a.gid)
}

// run makes cmd run as the account, in dir, in a language that tests can read.
func (a *account) run(cmd *exec.Cmd, dir string) {
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if a != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
}

// Start starts a server that was stopped or killed and waits until it accepts connections.
func (s *Server) Start() error {
	deadline := time.Now().Add(startMax)
	for {
		err := s.start(deadline)
		// A killed server's memory is in use until the last of its processes is gone.
		if err == nil || !strings.Contains(err.Error(), "still in use") || time.Now().After(deadline) {
			return err
		}
	}
}

func (s *Server) start(deadline time.Time) error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	before := len(s.Log())
	_ = os.Remove(filepath.Join(s.data(), "postmaster.pid")) // the file that a killed server has left
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), "-D", s.data())
	s.user.run(cmd, s.dir)
	cmd.Stdout, cmd.Stderr = log, log
	if err := s.on.start(cmd); err != nil {
		return err
	}
	s.process, s.exited = cmd, make(chan struct{})
	go func(exited chan struct{}) {
		_ = cmd.Wait()
		close(exited)
	}(s.exited)
	for !s.accepts() {
		select {
		case <-s.exited:
			s.process = nil
			return fmt.Errorf("postgres ended: %s", s.Log()[before:])
		case <-time.After(poll):
		}
		if time.Now().After(deadline) {
			return errors.Join(errors.New("postgres does not accept connections: "+s.Log()[before:]), s.Kill())
		}
	}
	return nil
}

// accepts reads the state in the last line of the server's pid file.
func (s *Server) accepts() bool {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return err == nil && len(lines) >= 8 && strings.TrimSpace(lines[7]) == "ready" &&
		lines[0] == strconv.Itoa(s.process.Process.Pid)
}

// Stop ends the server in the fast mode: it rolls back open transactions, and writes committed ones to the
// disk.
func (s *Server) Stop() error {
	return s.end(func() error { return s.process.Process.Signal(os.Interrupt) })
}

// Kill ends the server and all of its processes at once.
func (s *Server) Kill() error {
	return s.end(func() error {
		pid := s.process.Process.Pid
		// Stopped processes cannot start further ones.
		err := s.process.Process.Signal(syscall.SIGSTOP)
		for _, child := range children(pid) {
			_ = syscall.Kill(child, syscall.SIGKILL)
		}
		return errors.Join(err, s.process.Process.Kill())
	})
}

func (s *Server) end(signal func() error) error {
	if s.process == nil {
		return errors.New("the server does not run")
	}
	if err := signal(); err != nil {
		return err
	}
	<-s.exited
	s.process = nil
	return nil
}

// Freeze stops the processes of the server without ending them. Thaw lets them continue.
func (s *Server) Freeze() error { return s.signalAll(syscall.SIGSTOP) }

// Thaw lets the processes continue after Freeze.
func (s *Server) Thaw() error { return s.signalAll(syscall.SIGCONT) }

func (s *Server) signalAll(sig syscall.Signal) error {
	pid := s.process.Process.Pid
	err := syscall.Kill(pid, sig)
	for _, child := range children(pid) {
		_ = syscall.Kill(child, sig)
	}
	return err
}

func children(pid int) (all []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, f := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(f); err == nil {
			all = append(all, child)
		}
	}
	return all
}

// CPU returns the processor time that the living processes of the server have used. On a busy machine this is
// a better measure than elapsed time.
func (s *Server) CPU() time.Duration {
	const ticksPerSecond = 100 // Linux, everywhere
	pid := s.process.Process.Pid
	var ticks int
	for _, p := range append(children(pid), pid) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p))
		_, rest, _ := strings.Cut(string(text), ") ") // the name of the process comes first, and may contain any character
		if f := strings.Fields(rest); len(f) > 13 {
			user, _ := strconv.Atoi(f[11])
			system, _ := strconv.Atoi(f[12])
			ticks += user + system
		}
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}
