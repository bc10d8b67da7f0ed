//go:build linux || darwin

package doctor

import (
	"errors"

	"golang.org/x/sys/unix"
)

// noLimit means that the system sets no limit.
const noLimit = unix.RLIM_INFINITY

// processLimits returns how many files and processes this process may have.
func processLimits() (files, procs uint64, err error) {
	var f, p unix.Rlimit
	err = errors.Join(unix.Getrlimit(unix.RLIMIT_NOFILE, &f), unix.Getrlimit(unix.RLIMIT_NPROC, &p))
	return f.Cur, p.Cur, err
}
