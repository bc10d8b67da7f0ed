package nodes

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"skein.dev/skein/internal/artifact"
)

// Source has the artifacts of this machine: in the folder where the node keeps them, and in its data folder,
// where it kept them before it had a shared one.
type Source []artifact.Folder

// NewSource returns the source of a node. shared is the folder that all nodes use; empty: there is none.
func NewSource(data, shared string) Source {
	if shared == "" {
		return Source{{Path: data}}
	}
	return Source{{Path: shared}, {Path: data}}
}

// List returns the artifacts of an attempt. It returns fs.ErrNotExist if this machine has none of it.
func (s Source) List(ctx context.Context, ref artifact.Ref) ([]artifact.Info, error) {
	for _, f := range s {
		if list, err := f.List(ctx, ref); !errors.Is(err, fs.ErrNotExist) {
			return list, err
		}
	}
	return nil, fs.ErrNotExist
}

// Open opens an artifact. It returns fs.ErrNotExist if this machine does not have it.
func (s Source) Open(ctx context.Context, ref artifact.Ref, name string) (artifact.Reader, artifact.Info, error) {
	for _, f := range s {
		r, info, err := f.Open(ctx, ref, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, artifact.Info{}, err
		}
		return r, info, nil
	}
	return nil, artifact.Info{}, fs.ErrNotExist
}

// Delete deletes the artifacts of runs.
func (s Source) Delete(ctx context.Context, runs []artifact.Run) (err error) {
	for _, f := range s {
		err = errors.Join(err, f.Delete(ctx, runs))
	}
	return err
}

func (s Source) has(ctx context.Context, ref artifact.Ref) bool {
	return slices.ContainsFunc(s, func(f artifact.Folder) bool { _, err := f.List(ctx, ref); return err == nil })
}

// place returns the folder of this machine that holds the files of an attempt.
func (s Source) place(ref artifact.Ref) (string, bool) {
	for _, f := range s {
		if at, err := f.Files(ref); err == nil {
			if at, err = filepath.Abs(at); err == nil { // the keeper has another working directory
				if _, err := os.Stat(at); err == nil {
					return at, true
				}
			}
		}
	}
	return "", false
}

// piece reads a part of a file. It returns fs.ErrNotExist if the file is not on this machine.
func (s Source) piece(ref artifact.Ref, name string, offset int64) ([]byte, error) {
	for _, f := range s {
		at, err := f.Files(ref)
		if err != nil {
			return nil, err
		}
		file, err := os.OpenInRoot(at, filepath.FromSlash(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer file.Close()
		data := make([]byte, filePart)
		n, err := file.ReadAt(data, offset)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return data[:n], err
	}
	return nil, fs.ErrNotExist
}
