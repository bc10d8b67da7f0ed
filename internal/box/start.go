//go:build linux

package box

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/fence"
)

// The descriptors of an init in addition to the first three.
const (
	specFile   = 3
	answerFile = 4
)

// Box is a started box.
type Box struct {
	PID     int // process ID of its init
	answers *bufio.Reader
	file    *os.File
}

// Start starts a box as syscall.StartProcess starts a process. attr.Files has three files, or four as for
// fence.Files; the init passes the fourth one on to the task. attr.Env is the
// environment of the init, and attr.Dir is not used. An error is a *fence.EnterError, or the kernel's error
// of the program's start. The caller waits for the process PID, and then calls End.
func Start(s *Spec, attr *syscall.ProcAttr) (*Box, error) {
	bounds, err := fence.Bounds()
	if err != nil {
		return nil, &fence.EnterError{Err: err}
	}
	of := *s
	of.Given, of.Bounds = len(attr.Files) > 3, bounds
	text, err := json.Marshal(&of)
	if err != nil {
		return nil, &fence.EnterError{Err: err}
	}
	spec, err := memory(text)
	if err != nil {
		return nil, &fence.EnterError{Err: fmt.Errorf("pass the settings of a box: %w", err)}
	}
	defer unix.Close(spec)
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	with, sys := *attr, syscall.SysProcAttr{}
	if attr.Sys != nil {
		sys = *attr.Sys
	}
	sys.Cloneflags |= unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC
	if !s.Net {
		sys.Cloneflags |= unix.CLONE_NEWNET
	}
	with.Sys, with.Dir = &sys, "/"
	with.Files = fence.Files(attr.Files)
	with.Files[specFile], with.Files[answerFile] = uintptr(spec), uintptr(ends[1])
	pid, _, err := syscall.StartProcess("/proc/self/exe", []string{"skein", Name}, &with)
	_ = unix.Close(ends[1])
	file := os.NewFile(uintptr(ends[0]), "box")
	if err != nil {
		return nil, errors.Join(&fence.EnterError{Err: fmt.Errorf("start the init of a box: %w", err)}, file.Close())
	}
	b := &Box{PID: pid, answers: bufio.NewReader(file), file: file}
	if err := b.started(); err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		for {
			if _, wait := syscall.Wait4(pid, nil, 0, nil); wait != syscall.EINTR {
				break
			}
		}
		_ = file.Close()
		return nil, err
	}
	return b, nil
}

// memory returns a descriptor of a new file in memory with the given content. Its position is the beginning.
func memory(text []byte) (int, error) {
	fd, err := unix.MemfdCreate("skein-box", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	if _, err := unix.Pwrite(fd, text, 0); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// started waits until the task's program begins. If the program cannot begin, started returns the reason.
func (b *Box) started() error {
	a, err := b.next()
	switch {
	case err != nil:
		return &fence.EnterError{Err: fmt.Errorf("the init of a box has ended: %w", err)}
	case a.Started:
		return nil
	case a.Errno != 0:
		return syscall.Errno(a.Errno)
	}
	return &fence.EnterError{Err: errors.New(a.Error)}
}

func (b *Box) next() (a answer, err error) {
	line, err := b.answers.ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return a, io.ErrUnexpectedEOF
	}
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(line, &a)
}

// End returns how the task has ended, after the init has ended with a status. If the init was killed, that
// status is the task's.
func (b *Box) End(is syscall.WaitStatus) syscall.WaitStatus {
	defer b.file.Close()
	if a, err := b.next(); err == nil && a.Ended {
		return syscall.WaitStatus(a.Status)
	}
	return is
}

// Probe returns an error if this process cannot make boxes. It makes one for a program that cannot be
// executed.
func Probe(uid uint32) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	s := Spec{UID: uid, GID: uid, Path: "/", Argv: []string{"/"}, Dir: "/", Tmp: "/tmp"}
	s.Fence.System = []string{"/proc"}
	b, err := Start(&s, &syscall.ProcAttr{Files: []uintptr{null.Fd(), null.Fd(), null.Fd()}, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}})
	switch {
	case err == nil:
		_ = unix.Kill(b.PID, unix.SIGKILL)
		_, _ = syscall.Wait4(b.PID, nil, 0, nil)
		return errors.Join(errors.New("the init of a box has started a folder"), b.file.Close())
	case errors.Is(err, unix.EACCES) && !errors.As(err, new(*fence.EnterError)):
		return nil
	}
	return err
}
