//go:build linux || darwin

package app

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// noLimit means that the system sets no limit.
const noLimit = unix.RLIM_INFINITY

// flock locks a file as long as it is open, alone or shared with other readers. It returns EWOULDBLOCK if
// another process holds a conflicting lock.
func flock(file *os.File, alone bool) error {
	how := unix.LOCK_SH
	if alone {
		how = unix.LOCK_EX
	}
	return unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
}

// writable asks the kernel, because a folder that looks writable can be on a read-only file system.
func writable(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) }

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
