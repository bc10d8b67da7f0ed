//go:build linux

package worker

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/box"
	"skein.dev/skein/internal/fence"
	"skein.dev/skein/internal/threads"
)

// fork starts the process with one pipe for stdout and stderr. The errors are the kernel's.
func (a *attempt) fork() error {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	a.cap()
	pidfd := -1
	attr := &syscall.SysProcAttr{
		Setsid:    true, // detach the process from the node's terminal, so that it gets no Ctrl-C and shows no prompt there
		Pdeathsig: syscall.SIGKILL,
		PidFD:     &pidfd,
	}
	if a.uid != 0 {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
		if err := unix.Fchown(ends[1], int(a.uid), int(a.gid)); err != nil { // so that the task can open /dev/stdout itself
			return errors.Join(err, unix.Close(ends[0]), unix.Close(ends[1]))
		}
	}
	a.bound()
	a.slot.tree.prepare(attr)
	null, out := a.w.null.Fd(), uintptr(ends[1])
	with := &syscall.ProcAttr{Dir: a.cmd.dir, Env: a.cmd.env, Files: []uintptr{null, out, out}, Sys: attr}
	if a.given != nil {
		with.Files = append(with.Files, a.given.Fd())
	}
	began := time.Now()
	pid, err := a.bear(with)
	_ = unix.Close(ends[1])
	if err != nil {
		_ = unix.Close(ends[0])
		return err
	}
	a.pid, a.pidfd, a.pipe = pid, pidfd, ends[0]
	a.began, a.result.Started = began, began
	return nil
}

// bear starts the process on this thread, within the limits of its tree.
func (a *attempt) bear(with *syscall.ProcAttr) (int, error) {
	back, err := a.slot.tree.enter()
	if err != nil { // the kernel does not enforce the limits, but the resources are still booked
		a.capped = false
		a.w.cfg.Log.Warn("the cpu and memory of an attempt cannot be limited", a.attrs("code", "resources_not_enforced", "err", err)...)
	}
	pid, err := a.exec(with)
	if err := back(); err != nil { // if the thread cannot be moved back, it waits for the child and then ends
		a.w.cfg.Log.Error("a thread of the worker stays within the limits of an attempt; restart the worker when it is idle", a.attrs("code", "thread_in_limits", "err", err)...)
		runtime.LockOSThread() // this extra lock is never undone, so the thread ends with its goroutine
	}
	return pid, err
}

// exec forks and executes the program, in its box or behind its fence if the attempt has one.
func (a *attempt) exec(with *syscall.ProcAttr) (pid int, err error) {
	var around *fence.Fence
	if a.spec != nil && !a.boxed {
		if around, err = a.slot.fences.of(a.spec); err != nil {
			return 0, err
		}
	}
	threads.Unchanged()
	a.w.births.RLock()
	defer a.w.births.RUnlock()
	switch {
	case a.boxed:
		pid, err = a.enterBox(with)
	case around != nil:
		pid, err = around.StartProcess(a.cmd.path, a.cmd.argv, with)
	default:
		with.Files = fence.Files(with.Files)
		pid, _, err = syscall.StartProcess(a.cmd.path, a.cmd.argv, with)
	}
	if err == nil {
		a.w.firsts.Store(pid, true)
	}
	return pid, err
}

// marks are the variables by which a later worker recognizes the init of a box, see reaper.read.
var marks = []string{outputVar, "SKEIN_NAMESPACE", "SKEIN_WORKFLOW", "SKEIN_RUN_ID", "SKEIN_TASK", "SKEIN_TOKEN", "SKEIN_IDEMPOTENCY_KEY", "TRACEPARENT"}

// enterBox starts the box of the attempt. The init of the box is root, so it gets no variable that the
// workflow sets.
func (a *attempt) enterBox(with *syscall.ProcAttr) (int, error) {
	s := box.Spec{Fence: *a.spec, Tmp: a.slot.tmp(), Net: !a.closed, UID: a.uid, GID: a.gid, Path: a.cmd.path, Argv: a.cmd.argv, Env: a.cmd.env, Dir: a.cmd.dir}
	with.Env, with.Sys.Credential = []string{"GOMAXPROCS=1"}, nil
	for _, kv := range a.cmd.env {
		if name, _, _ := strings.Cut(kv, "="); slices.Contains(marks, name) {
			with.Env = append(with.Env, kv)
		}
	}
	b, err := box.Start(&s, with)
	if err != nil {
		return 0, err
	}
	a.room = b
	return b.PID, nil
}
