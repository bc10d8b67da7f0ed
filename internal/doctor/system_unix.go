//go:build linux || darwin

package doctor

import (
	"errors"

	"golang.org/x/sys/unix"
)

// noLimit means that the system sets no limit.
const noLimit = unix.RLIM_INFINITY

// diskFree is how many bytes are free on the disk of a folder.
func diskFree(dir string) (int64, error) {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	return int64(st.Bavail) * int64(st.Bsize), err
}

// processLimits are how many files and processes this process may have.
func processLimits() (files, procs uint64, err error) {
	var f, p unix.Rlimit
	err = errors.Join(unix.Getrlimit(unix.RLIMIT_NOFILE, &f), unix.Getrlimit(unix.RLIMIT_NPROC, &p))
	return f.Cur, p.Cur, err
}
