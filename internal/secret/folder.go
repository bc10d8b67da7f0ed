// Package secret reads values that must not be in a workflow file, by their names.
package secret

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"skein.dev/skein/sdk/shared/secretfile"
)

// ErrUnknown says that there is no secret of that name.
var ErrUnknown = errors.New("unknown secret")

// sizeMax bounds a secret, in bytes.
const sizeMax = secretfile.BytesMax

var nameOK = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// Folder keeps one file per secret: NAMESPACE/NAME, or NAME for every namespace. Line ends at the end of a
// file are not part of the secret. The files are read at each use, so that a changed secret needs no restart.
type Folder struct{ Path string }

// Secret returns the value of a secret of a namespace. Its errors never contain the value.
func (f Folder) Secret(_ context.Context, namespace, name string) ([]byte, error) {
	if !nameOK.MatchString(name) || !nameOK.MatchString(namespace) {
		return nil, fmt.Errorf("%w: %q is not a secret name", ErrUnknown, name)
	}
	root, err := os.OpenRoot(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w %s: put it into the file %s/%s, readable by its owner only", ErrUnknown, name, f.Path, name)
	}
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w", name, err)
	}
	defer root.Close()
	for _, dir := range [...]string{".", namespace} { // another user could replace a secret
		info, err := root.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = Closed(info, filepath.Join(f.Path, dir))
		}
		if err != nil {
			return nil, fmt.Errorf("secret %s: %w", name, err)
		}
	}
	for _, file := range [...]string{namespace + "/" + name, name} {
		data, err := read(root, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("secret %s: %w", name, err)
		}
		return data, nil
	}
	return nil, fmt.Errorf("%w %s: put it into the file %s/%s, readable by its owner only", ErrUnknown, name, f.Path, name)
}

func read(root *os.Root, name string) ([]byte, error) {
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	if err := Closed(info, filepath.Join(root.Name(), name)); err != nil {
		return nil, err
	}
	return secretfile.All(file)
}
