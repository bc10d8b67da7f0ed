package trigger

import (
	"io/fs"
	"syscall"

	"skein.dev/skein/internal/dag"
)

// Identity distinguishes the file from another file of its name. It also returns the time at which the file
// got its name. A file that is moved into a folder keeps the time of its content, but not that of its
// entry.
func Identity(info fs.FileInfo) (inode uint64, arrived dag.Micros) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino, dag.Micros(s.Ctim.Nano() / 1000)
	}
	return 0, dag.Micros(info.ModTime().UnixMicro())
}
