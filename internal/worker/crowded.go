//go:build linux

package worker

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// crowded returns the reason why a data folder has no space for attempts, or "" if it has space. With trial
// it also writes a file there.
func crowded(data string, trial bool) string {
	var st unix.Statfs_t
	if err := unix.Statfs(data, &st); err != nil {
		return "" // the free space is unknown; if there is none, attempts will fail because of it
	}
	blocks := st.Bavail
	if os.Geteuid() == 0 {
		blocks = st.Bfree // root may also use the reserved blocks
	}
	switch free := blocks * uint64(st.Bsize); {
	case st.Blocks > 0 && free < roomMin:
		return fmt.Sprintf("the disk of %s is full: %d KiB are free", data, free>>10)
	case st.Files > 0 && st.Ffree < inodesMin:
		return fmt.Sprintf("the disk of %s is full: %d more files are possible", data, st.Ffree)
	}
	if !trial {
		return ""
	}
	path := filepath.Join(data, "work", roomFile)
	err := os.WriteFile(path, make([]byte, roomTrial), 0o600)
	_ = os.Remove(path)
	if diskFull(err) {
		return fmt.Sprintf("the disk of %s is full: %v", data, err)
	}
	return ""
}
