package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// errEnded says that the first process of the namespaces ended before the container was started.
var errEnded = errors.New("the container was not started")

// lookEvery bounds the time between two checks of a container's files and processes. Normally the kernel
// reports each change at once.
const lookEvery = time.Second

// follow waits for the end of the container, and returns the exit code of its command. If ctx ends, it stops
// the container. first is the first process of the namespaces.
func (c *container) follow(ctx context.Context, first int) (int, error) {
	w, err := newWatch(first, c.folder)
	if err != nil {
		return 0, fmt.Errorf("the container cannot be followed: %w", err)
	}
	defer w.close()
	stop := context.AfterFunc(ctx, func() {
		_ = os.WriteFile(filepath.Join(c.folder, stopFile), nil, 0o600) // this wakes w.wait
	})
	defer stop()
	told, exits, monitor := false, "", 0
	for {
		ended := w.ended()
		if exits == "" {
			if id, err := os.ReadFile(filepath.Join(c.folder, idFile)); err == nil && exists(filepath.Join(c.folder, startedFile)) {
				exits = fmt.Sprintf("/proc/%d/root/run/libpod/exits", first)
				w.add(exits)
				exits += "/" + strings.TrimSpace(string(id))
				monitor = childOf(first, "conmon")
			}
		}
		if exits != "" {
			// alone is computed before the file is read, because the monitor writes the file before it ends.
			alone := monitor == 0 || unix.Kill(monitor, 0) != nil || zombie(monitor)
			if text, err := os.ReadFile(exits); err == nil {
				return strconv.Atoi(strings.TrimSpace(string(text)))
			}
			if alone && !ended {
				return 0, errors.New("the monitor of the container was killed, and the container with it")
			}
		}
		if ended {
			return 0, errEnded
		}
		if ctx.Err() != nil && monitor != 0 && !told {
			told = unix.Kill(monitor, unix.SIGTERM) == nil // the monitor forwards the signal
		}
		w.wait()
	}
}

// watch waits for changes in folders, and for the end of a process.
type watch struct {
	notify, process int
}

func newWatch(pid int, folder string) (w watch, err error) {
	if w.notify, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		return w, err
	}
	if w.process, err = unix.PidfdOpen(pid, 0); err != nil {
		_ = unix.Close(w.notify)
		return w, err
	}
	w.add(folder)
	return w, nil
}

// add adds a folder to the watch. If that fails, changes in it are noticed after at most lookEvery.
func (w *watch) add(folder string) {
	_, _ = unix.InotifyAddWatch(w.notify, folder, unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO)
}

// ended reports whether the process has ended.
func (w *watch) ended() bool {
	fds := []unix.PollFd{{Fd: int32(w.process), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

// wait returns after a change, and at the latest after lookEvery.
func (w *watch) wait() {
	fds := []unix.PollFd{{Fd: int32(w.notify), Events: unix.POLLIN}, {Fd: int32(w.process), Events: unix.POLLIN}}
	_, _ = unix.Poll(fds, int(lookEvery/time.Millisecond))
	var events [4096]byte
	for {
		if n, err := unix.Read(w.notify, events[:]); n <= 0 || err != nil {
			return
		}
	}
}

func (w *watch) close() {
	_ = unix.Close(w.notify)
	_ = unix.Close(w.process)
}

// childOf returns the number of a child process with the given name, or 0 if there is none.
func childOf(pid int, name string) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0
	}
	for _, field := range strings.Fields(string(text)) {
		child, err := strconv.Atoi(field)
		if comm, errComm := os.ReadFile("/proc/" + field + "/comm"); err == nil && errComm == nil && strings.TrimSpace(string(comm)) == name {
			return child
		}
	}
	return 0
}

// zombie reports whether a process has ended but was not reaped.
func zombie(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}
