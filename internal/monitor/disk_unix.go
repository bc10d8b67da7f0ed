//go:build linux || darwin

package monitor

import "golang.org/x/sys/unix"

// Disk returns the free bytes of the disk of a folder, and all of its bytes. It returns 0, 0 if they are
// unknown.
func Disk(dir string) (free, total int64) {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 0, 0
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize)
}
