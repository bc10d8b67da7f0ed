//go:build linux || darwin

package monitor

import "golang.org/x/sys/unix"

// Disk returns the free bytes of the disk of a folder, and all of its bytes.
func Disk(dir string) (free, total int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil
}
