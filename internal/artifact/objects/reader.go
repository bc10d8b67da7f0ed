package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/blob"
)

// rereadMax bounds how often one ReadAt repeats a request whose content has broken off.
const rereadMax = 3

// reader reads one object. A read that continues the previous one uses the same request.
type reader struct {
	ctx   context.Context // the context of the request that reads
	blobs blob.Store
	key   string
	size  int64
	ahead int64 // bytes of one request; 0 means the rest of the object

	body io.ReadCloser // nil if there is no request
	at   int64         // the offset of the next byte of body
}

// ReadAt implements io.ReaderAt.
func (r *reader) ReadAt(p []byte, off int64) (n int, err error) {
	if off >= r.size {
		return 0, io.EOF
	}
	want := p[:min(int64(len(p)), r.size-off)]
	for try := 0; n < len(want); {
		if r.body == nil || r.at != off+int64(n) {
			if err := r.open(off + int64(n)); err != nil {
				return n, err
			}
		}
		m, err := r.body.Read(want[n:])
		n, r.at = n+m, r.at+int64(m)
		if err == nil || n == len(want) {
			continue
		}
		r.drop()
		if m > 0 {
			try = 0
		}
		if try++; try > rereadMax || r.ctx.Err() != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // the object is shorter than its manifest says
			}
			return n, err
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (r *reader) open(at int64) error {
	r.drop()
	n := r.size - at
	if r.ahead > 0 {
		n = min(n, r.ahead)
	}
	body, err := r.blobs.Open(r.ctx, r.key, at, n)
	if err != nil {
		return err
	}
	r.body, r.at = body, at
	return nil
}

func (r *reader) drop() {
	if r.body != nil {
		_ = r.body.Close()
		r.body = nil
	}
}

// Close implements io.Closer.
func (r *reader) Close() error {
	if r.body == nil {
		return nil
	}
	err := r.body.Close()
	r.body = nil
	return err
}

// Piece reads a part of a file with one request. It returns io.EOF at the end of the file.
func (s *Store) Piece(ctx context.Context, ref artifact.Ref, name string, p []byte, offset int64) (int, error) {
	m, err := s.manifest(ctx, ref)
	if err != nil {
		return 0, err
	}
	in, ok := m.find(name)
	place, err := ref.Path()
	if err != nil || !ok {
		return 0, fmt.Errorf("artifact %s: %w", name, fs.ErrNotExist)
	}
	r := &reader{ctx: ctx, blobs: s.blobs, key: fileKey(place, m.Deposit, name), size: in.Size, ahead: int64(len(p))}
	n, err := r.ReadAt(p, offset)
	_ = r.Close() // the bytes have been read
	return n, err
}
