package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"skein.dev/skein/internal/atomicfile"
	"skein.dev/skein/internal/logindex"
	"skein.dev/skein/internal/worker"
)

// Folder stores complete logs in files of a folder that the nodes share. The names of the files are those in
// a node's own folder: logs/<namespace>/<workflow>/<run>/<task>.<attempt>.log.
type Folder struct{ Path string }

var _ Store = Folder{}

// Keep implements Store.
func (Folder) Keep() int64 { return 0 }

// path returns the path of a log. It returns "" for names that are no valid names of an attempt.
func (f Folder) path(r *Ref) string {
	return worker.LogPath(f.Path, worker.Key{Namespace: r.Namespace, Workflow: r.Workflow, RunID: r.Run.String(), Task: r.Name, Attempt: int(r.Token)})
}

// Append implements Store. The folder has no list of attempts, so before a caller accepts chunks from other
// machines, it asks the engine whether the attempt exists.
func (f Folder) Append(ctx context.Context, chunks []Chunk) ([]int64, error) {
	ends := make([]int64, len(chunks))
	for i := range chunks {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		path := f.path(&chunks[i].Ref)
		if path == "" {
			ends[i] = -1
			continue
		}
		var err error
		if ends[i], err = grow(path, &chunks[i]); err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
	}
	return ends, nil
}

// grow adds a chunk if the chunk begins at the end of the file. If two senders write the same bytes, they
// write them to the same position.
func grow(path string, c *Chunk) (int64, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|noFollow, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|noFollow, 0o600)
		}
	}
	if err != nil {
		return 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return 0, errors.Join(err, file.Close())
	}
	end := info.Size()
	if c.Offset == end || c.Offset > end && c.Cut { // the missing bytes become a hole in the file
		var n int
		n, err = file.WriteAt(c.Data, c.Offset)
		end = c.Offset + int64(n)
	}
	return end, errors.Join(err, file.Close())
}

// Open implements Store.
func (f Folder) Open(_ context.Context, ref Ref) (Reader, error) {
	path := f.path(&ref)
	if path == "" {
		return nil, fmt.Errorf("log of %s, attempt %d: %w", ref.Name, ref.Token, fs.ErrNotExist)
	}
	file, err := os.OpenFile(path, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return fileReader{file}, nil
}

// Delete implements Store.
func (f Folder) Delete(ctx context.Context, runs []Run) error {
	var errs []error
	for i := range runs {
		if err := ctx.Err(); err != nil {
			return err
		}
		log := f.path(&Ref{Namespace: runs[i].Namespace, Workflow: runs[i].Workflow, Run: runs[i].ID, Name: "any", Token: 1})
		if log != "" {
			errs = append(errs, os.RemoveAll(filepath.Dir(log)))
		}
	}
	return errors.Join(errs...)
}

// fileReader reads a log that is a file.
type fileReader struct{ *os.File }

// Size implements Reader.
func (r fileReader) Size() (int64, error) {
	info, err := r.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// First implements Reader.
func (fileReader) First(at int64) int64 { return at }

var _ Indexed = fileReader{}

// Index implements Indexed.
func (r fileReader) Index() ([]byte, error) {
	file, err := os.OpenFile(r.Name()+logindex.Suffix, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, IndexMax))
}

// PutIndex implements Indexed.
func (r fileReader) PutIndex(records []byte) error {
	return atomicfile.Write(r.Name()+logindex.Suffix, records, 0o600)
}

// copyIndex copies the index of an ended log to the same log in another folder. If the log has no index, a
// reader makes one.
func (f Folder) copyIndex(ctx context.Context, to Folder, ref Ref) error {
	from, err := f.Open(ctx, ref)
	if err != nil {
		return err
	}
	defer from.Close()
	records, err := from.(Indexed).Index()
	if err != nil {
		return err
	}
	into, err := to.Open(ctx, ref)
	if err != nil {
		return err
	}
	defer into.Close()
	return into.(Indexed).PutIndex(records)
}
