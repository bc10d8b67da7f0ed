package secret

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrOpen says that other users can read or replace a secret. Its text names the command that mends it.
var ErrOpen = errors.New("other users have access to it")

// File reads a file that holds one secret, such as a token. Line ends at its end do not count. It returns ErrOpen if
// other users can read or replace the file. A pipe is read as it is: its end is given by its descriptor alone.
func File(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode()&fs.ModeNamedPipe != 0 {
		return all(file)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if err := Closed(info, path); err != nil {
		return nil, err
	}
	return all(file)
}

// Closed returns ErrOpen unless a file or folder belongs to this user or to root and is closed to others: they can neither
// read nor replace a file, and cannot write into a folder. The group may read a file of root's: that is how root gives a
// service a file, and how systemd shows a credential.
func Closed(info fs.FileInfo, path string) error {
	owner, self, known := ownerOf(info)
	if !known {
		return nil
	}
	if owner != self && owner != 0 {
		return fmt.Errorf("%w: %s belongs to the user %d, not to this one (%d) or root: chown %d %s", ErrOpen, path, owner, self, self, path)
	}
	bad := fs.FileMode(0o077)
	switch {
	case info.IsDir():
		bad = 0o022
	case owner == 0 && self != 0:
		bad = 0o037
	}
	if mode := info.Mode().Perm(); mode&bad != 0 {
		return fmt.Errorf("%w: %s has the mode %04o: chmod %o %s", ErrOpen, path, mode, mode&^bad, path)
	}
	return nil
}

// all reads a secret to its end.
func all(from io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, sizeMax+1))
	if err != nil {
		return nil, err
	}
	data = bytes.TrimRight(data, "\r\n")
	switch {
	case len(data) > sizeMax:
		return nil, fmt.Errorf("it is larger than %d bytes", sizeMax)
	case len(data) == 0:
		return nil, errors.New("it is empty")
	}
	return data, nil
}
