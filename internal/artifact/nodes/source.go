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

// Source reads the artifacts on this machine: in the store that all nodes share, and in the data folder,
// which has those from the time before the shared store.
type Source []Store

// Store is the part of an artifact.Store that reads and deletes.
type Store interface {
	List(ctx context.Context, ref artifact.Ref) ([]artifact.Info, error)
	Open(ctx context.Context, ref artifact.Ref, name string) (artifact.Reader, artifact.Info, error)
	Delete(ctx context.Context, runs []artifact.Run) error
}

// NewSource returns the source of a node. shared is the store that all nodes share, or nil.
func NewSource(data string, shared Store) Source {
	if shared == nil {
		return Source{artifact.Folder{Path: data}}
	}
	return Source{shared, artifact.Folder{Path: data}}
}

// List returns the artifacts of an attempt. It returns fs.ErrNotExist if this machine has none of them.
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
	return slices.ContainsFunc(s, func(f Store) bool { _, err := f.List(ctx, ref); return err == nil })
}

// files is a store whose files are in folders of this machine.
type files interface {
	Files(ref artifact.Ref) (string, error)
}

// place returns the folder of this machine with the files of an attempt.
func (s Source) place(ref artifact.Ref) (string, bool) {
	for _, f := range s {
		here, ok := f.(files)
		if !ok {
			continue
		}
		if at, err := here.Files(ref); err == nil {
			if at, err = filepath.Abs(at); err == nil { // the keeper has another working directory
				if _, err := os.Stat(at); err == nil {
					return at, true
				}
			}
		}
	}
	return "", false
}

// piecer is a store that reads each piece with one request.
type piecer interface {
	Piece(ctx context.Context, ref artifact.Ref, name string, p []byte, offset int64) (int, error)
}

// piece reads a part of a file. It returns fs.ErrNotExist if the file is not on this machine.
func (s Source) piece(ctx context.Context, ref artifact.Ref, name string, offset int64) ([]byte, error) {
	data := make([]byte, filePart)
	for _, f := range s {
		var n int
		var err error
		switch f := f.(type) {
		case piecer:
			n, err = f.Piece(ctx, ref, name, data, offset)
		case files:
			n, err = pieceOf(f, ref, name, data, offset)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return data[:n], err
	}
	return nil, fs.ErrNotExist
}

func pieceOf(f files, ref artifact.Ref, name string, data []byte, offset int64) (int, error) {
	at, err := f.Files(ref)
	if err != nil {
		return 0, err
	}
	file, err := os.OpenInRoot(at, filepath.FromSlash(name))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	return file.ReadAt(data, offset)
}
