//go:build linux || darwin

package monitor

import (
	"time"

	"golang.org/x/sys/unix"
)

// Disk returns the free bytes of the disk of a folder, and all of its bytes.
func Disk(dir string) (free, total int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil
}

// processorTime returns the processor time that this process has used, or 0 if it is unknown.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
