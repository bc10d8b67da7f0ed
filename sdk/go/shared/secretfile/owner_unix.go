//go:build unix

package secretfile

import (
	"io/fs"
	"os"
	"syscall"
)

// ownerOf returns the user that owns a file, and the user of this process.
func ownerOf(info fs.FileInfo) (owner, self int, known bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), os.Geteuid(), true
}

// ownGroup reports whether the group of a file has the number of its owner.
func ownGroup(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Gid == st.Uid
}
