// Package secretfile reads files that hold secrets, and refuses those that other users can read or replace.
package secretfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// BytesMax bounds a secret.
const BytesMax = 64 << 10

// ErrOpen means that other users can read or replace a file with a secret. Its text names the remedy.
var ErrOpen = errors.New("other users have access to it")

// Read reads a file that holds one secret, such as a token. It drops line ends at the end of the file. It
// returns ErrOpen if other users can read the file, or can replace it in its folder. A pipe is read without a
// check, because only the holder of the descriptor can reach it.
func Read(path string) ([]byte, error) {
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
		return All(file)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if err := Closed(info, path); err != nil {
		return nil, err
	}
	if err := foldersOf(path); err != nil {
		return nil, err
	}
	return All(file)
}

// foldersOf returns ErrOpen if other users can replace a file, in the folder that the path names or in a
// folder to which a link leads. In a folder with the sticky bit, such as /tmp, only the owner of a file can
// replace it. A group with the same number as its user counts as the user's own group, because distributions
// with the umask 002 make such groups.
func foldersOf(path string) error {
	names := []string{path}
	switch real, err := filepath.EvalSymlinks(path); {
	case err == nil:
		names = append(names, real)
	case !errors.Is(err, fs.ErrNotExist): // an open file without a name cannot be replaced
		return err
	}
	for _, name := range names {
		dir := filepath.Dir(name)
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		mode := info.Mode()
		if mode&fs.ModeSticky != 0 {
			mode &^= 0o022
		} else if ownGroup(info) {
			mode &^= 0o020
		}
		if owner, self, known := ownerOf(info); known {
			if err := closed(mode, dir, owner, self); err != nil {
				return err
			}
		}
	}
	return nil
}

// Closed returns ErrOpen unless a file or folder belongs to this user or to root, and other users can neither
// read nor replace the file, nor write into the folder. If root owns the file, its group may read it, because
// root passes files to services in this way, and so does systemd with credentials.
func Closed(info fs.FileInfo, path string) error {
	owner, self, known := ownerOf(info)
	if !known {
		return nil
	}
	return closed(info.Mode(), path, owner, self)
}

// closed checks the mode and the owner of a path for the user self.
func closed(mode fs.FileMode, path string, owner, self int) error {
	if owner != self && owner != 0 && mode.IsDir() {
		return fmt.Errorf("%w: the folder %s belongs to the user %d, who could replace the file: move the file into a folder of this user "+
			"or root; if the folder is Skein's own, chown %d %s", ErrOpen, path, owner, self, path)
	}
	if owner != self && owner != 0 {
		return fmt.Errorf("%w: %s belongs to the user %d, not to this one (%d) or root: chown %d %s", ErrOpen, path, owner, self, self, path)
	}
	bad := fs.FileMode(0o077)
	switch {
	case mode.IsDir():
		bad = 0o022
	case owner == 0 && self != 0:
		bad = 0o037
	}
	is := mode.Perm()
	switch {
	case is&bad == 0:
		return nil
	case owner == 0 && self != 0 && !mode.IsDir(): // without the bits for others, this user may lose access
		return fmt.Errorf("%w: %s belongs to root and has the mode %04o: chown %d %s && chmod 600 %s; if a container mounts it, "+
			"mount it with the mode 0440 and a group of this user", ErrOpen, path, is, self, path, path)
	}
	return fmt.Errorf("%w: %s has the mode %04o: chmod %o %s", ErrOpen, path, is, is&^bad, path)
}

// All reads a secret until the end of its source.
func All(from io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, BytesMax+1))
	if err != nil {
		return nil, err
	}
	data = bytes.TrimRight(data, "\r\n")
	switch {
	case len(data) > BytesMax:
		return nil, fmt.Errorf("it is larger than %d bytes", BytesMax)
	case len(data) == 0:
		return nil, errors.New("it is empty")
	}
	return data, nil
}
