//go:build !unix

package secretfile

import (
	"io/fs"
	"os"
)

// ownerOf returns no owner on systems whose files have no owner in the sense of Unix.
func ownerOf(fs.FileInfo) (owner, self int, known bool) { return 0, 0, false }

// ownGroup reports false: there are no groups of users here.
func ownGroup(fs.FileInfo) bool { return false }

// KeepOwner does nothing: the folder decides the owner.
func KeepOwner(*os.File, fs.FileInfo) error { return nil }
