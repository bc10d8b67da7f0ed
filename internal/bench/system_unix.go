//go:build unix

package bench

import (
	"os"
	"syscall"
	"time"
)

// once starts a program and waits for its end, with nothing around it.
func once(path string, argv []string, null *os.File) error {
	fd := null.Fd()
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{fd, fd, fd}})
	if err != nil {
		return err
	}
	for {
		if _, err = syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			return err
		}
	}
}

// processorTime returns the processor time of this process.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
