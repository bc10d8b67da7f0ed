//go:build !unix

package atomicfile

import (
	"io/fs"
	"os"
)

// syncFolder does nothing: a folder cannot be forced to the disk here.
func syncFolder(string) error { return nil }

// keepOwner does nothing: the folder decides the owner.
func keepOwner(*os.File, fs.FileInfo) error { return nil }
