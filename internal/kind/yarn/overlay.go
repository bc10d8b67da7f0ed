package yarn

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Overlay makes a folder with the settings of another one. It replaces the content of the file name with the
// result of change. The other files are links. A missing folder counts as empty.
func Overlay(at, from, name string, change func(old string) string) (string, error) {
	if err := os.RemoveAll(at); err != nil { // an earlier process of the attempt may have made it
		return "", err
	}
	if err := os.Mkdir(at, 0o700); err != nil {
		return "", err
	}
	from, err := filepath.Abs(from)
	if err != nil {
		return "", err
	}
	entries, err := os.ReadDir(from)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, e := range entries {
		if e.Name() == name {
			continue
		}
		if err := os.Symlink(filepath.Join(from, e.Name()), filepath.Join(at, e.Name())); err != nil {
			return "", err
		}
	}
	old, err := os.ReadFile(filepath.Join(from, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return at, os.WriteFile(filepath.Join(at, name), []byte(change(string(old))), 0o600)
}
