package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Draft is a file that has not got its name yet. Its owner writes to it and then calls Put, or Discard.
type Draft struct {
	file *os.File // the temporary file, with mode 0600 until its rename
	path string
	mode os.FileMode
}

// Begin begins the file that is to get a name.
func Begin(path string, mode os.FileMode) (*Draft, error) {
	removeLeft(path)
	file, err := os.CreateTemp(filepath.Dir(path), prefix(path)+"*")
	if err != nil {
		return nil, err
	}
	return &Draft{file, path, mode}, nil
}

// Replace begins a new version of a file that people or another user maintain. The new file belongs to the
// owner of the old file. If the name is a link, the target is replaced. If there is no old file, Replace
// does the same as Begin.
func Replace(path string, mode os.FileMode) (*Draft, error) {
	to, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Begin(path, mode)
	}
	if err != nil {
		return nil, err
	}
	old, err := os.Stat(to)
	if err != nil {
		return nil, err
	}
	if !old.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	d, err := Begin(to, mode)
	if err != nil {
		return nil, err
	}
	if err := keepOwner(d.file, old); err != nil {
		d.Discard()
		return nil, fmt.Errorf("%s belongs to another user: %w", path, err)
	}
	return d, nil
}

// Path returns the name that the file gets.
func (d *Draft) Path() string { return d.path }

// Write adds to the file.
func (d *Draft) Write(p []byte) (int, error) { return d.file.Write(p) }

// Put gives the file its mode and its name. After an error, the draft is discarded.
func (d *Draft) Put() error { return d.finish(os.Rename) }

// Discard removes the file, unless it has its name.
func (d *Draft) Discard() {
	_ = d.file.Close()
	_ = os.Remove(d.file.Name()) // fails after a rename, because the name is gone
}

// finish gives the file its final name with the function name.
func (d *Draft) finish(name func(from, to string) error) error {
	defer d.Discard()
	err := d.file.Chmod(d.mode)
	if err == nil {
		err = d.file.Sync()
	}
	if err = errors.Join(err, d.file.Close()); err != nil {
		return err
	}
	if err := name(d.file.Name(), d.path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(d.path))
}
