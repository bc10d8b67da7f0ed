//go:build linux

package box

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/fence"
)

// Main is the main function of the init of a box. It returns its exit code.
func Main() int {
	// A signal that reaches the whole box must not end its init. The init receives signals and does not ignore
	// them, because the task would inherit an ignored signal.
	signal.Notify(make(chan os.Signal, 1))
	unix.CloseOnExec(specFile)
	unix.CloseOnExec(answerFile)
	out := os.NewFile(answerFile, "answers")
	if os.Getpid() != 1 || out == nil {
		fmt.Fprintln(os.Stderr, "a box is started by skein itself; start `skein server`")
		return 2
	}
	say := json.NewEncoder(out)
	pid, err := begin()
	if err != nil {
		a := answer{Error: err.Error()}
		if errno := syscall.Errno(0); !errors.As(err, new(*fence.EnterError)) && errors.As(err, &errno) {
			a.Errno = int(errno)
		}
		_ = say.Encode(a)
		return 1
	}
	if say.Encode(answer{Started: true}) != nil {
		return 1 // the keeper has ended
	}
	status := reap(pid)
	if say.Encode(answer{Ended: true, Status: uint32(status)}) != nil {
		return 1
	}
	return 0
}

// begin builds the box and starts the task.
func begin() (pid int, err error) {
	text, err := io.ReadAll(os.NewFile(specFile, "spec"))
	if err != nil {
		return 0, &fence.EnterError{Err: err}
	}
	var s Spec
	if err := json.Unmarshal(text, &s); err != nil {
		return 0, &fence.EnterError{Err: err}
	}
	runtime.LockOSThread() // because Pdeathsig of the task depends on the thread
	if !s.Net {
		if err := raiseLoopback(); err != nil {
			return 0, &fence.EnterError{Err: fmt.Errorf("start the loopback interface: %w", err)}
		}
	}
	if err := unix.Access(s.Dir, unix.F_OK); err != nil {
		return 0, err // without this check, the box would have an empty folder of that name
	}
	if err := s.furnish(); err != nil {
		return 0, &fence.EnterError{Err: err}
	}
	s.Fence.Own = append(s.Fence.Own, "/tmp")
	around, err := fence.New(s.Fence)
	if err != nil {
		return 0, &fence.EnterError{Err: err}
	}
	for i := range s.Bounds { // the task inherits them
		if err := unix.Setrlimit(int(s.Bounds[i].Resource), &s.Bounds[i].Limit); err != nil {
			return 0, &fence.EnterError{Err: fmt.Errorf("limit the resources of the task: %w", err)}
		}
	}
	one := func(id uint32) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: int(id), HostID: int(id), Size: 1}}
	}
	files := []uintptr{0, 1, 2}
	if s.Given {
		files = append(files, fence.Given)
	}
	return around.StartFiltered(s.Path, s.Argv, &syscall.ProcAttr{Dir: s.Dir, Env: s.Env, Files: files,
		Sys: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER, UidMappings: one(s.UID), GidMappings: one(s.GID), GidMappingsEnableSetgroups: true,
			Credential: &syscall.Credential{Uid: s.UID, Gid: s.GID}, Pdeathsig: syscall.SIGKILL,
		}})
}

// reap waits for the task, and for all processes that lose their parent meanwhile.
func reap(task int) (status syscall.WaitStatus) {
	for {
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if pid == task || err != nil && err != syscall.EINTR {
			return status
		}
	}
}

// raiseLoopback makes 127.0.0.1 reachable in a new network namespace.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}
