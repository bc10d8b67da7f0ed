package trigger

import (
	"io/fs"
	"syscall"

	"skein.dev/skein/internal/dag"
)

// Identity returns the inode of a file, which distinguishes it from another file of the same name, and the
// time at which the file got its name. A move into a folder does not change the time of the content, but it
// does change the time of the entry.
func Identity(info fs.FileInfo) (inode uint64, arrived dag.Micros) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino, dag.Micros(s.Ctim.Nano() / 1000)
	}
	return 0, dag.Micros(info.ModTime().UnixMicro())
}
