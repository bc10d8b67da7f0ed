//go:build !linux

package trigger

import (
	"io/fs"

	"skein.dev/skein/internal/dag"
)

// Identity returns the time of the content, because the time of the entry is not known here.
func Identity(info fs.FileInfo) (inode uint64, arrived dag.Micros) {
	return 0, dag.Micros(info.ModTime().UnixMicro())
}
