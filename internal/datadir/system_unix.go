//go:build linux || darwin

package datadir

import (
	"os"

	"golang.org/x/sys/unix"
)

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

// lives reports whether a process exists. No process has the number 0.
func lives(pid int) bool { return pid > 0 && unix.Kill(pid, 0) != unix.ESRCH }
