package secret

import (
	"io/fs"

	"skein.dev/skein/sdk/shared/secretfile"
)

// ErrOpen says that other users can read or replace a secret. Its text names the remedy.
var ErrOpen = secretfile.ErrOpen

// File reads a file that holds one secret, as [secretfile.Read] does.
func File(path string) ([]byte, error) { return secretfile.Read(path) }

// Closed returns ErrOpen if other users can read or replace a file, as [secretfile.Closed] does.
func Closed(info fs.FileInfo, path string) error { return secretfile.Closed(info, path) }
