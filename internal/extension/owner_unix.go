//go:build unix

package extension

import (
	"io/fs"
	"syscall"
)

// ownerOf returns the number of the user who owns a file.
func ownerOf(info fs.FileInfo) (uid int, known bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
