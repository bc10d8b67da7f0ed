//go:build !linux

package trigger

import (
	"io/fs"

	"skein.dev/skein/internal/dag"
)

// Identity returns the time of the content, because this system does not give the time of the entry.
func Identity(info fs.FileInfo) (inode uint64, arrived dag.Micros) {
	return 0, dag.Micros(info.ModTime().UnixMicro())
}
