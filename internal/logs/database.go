package logs

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// KeepDefault is the number of bytes of a log that the database stores by default.
const KeepDefault = 1 << 20

// partsMax bounds the number of parts in one transaction.
const partsMax = 512

// Database stores the end of each log in a store, compressed with gzip. Consecutive gzip members form a valid
// gzip file, so new parts are appended without changes.
type Database struct {
	rows store.Logs
	keep int64
	pack sync.Pool
}

var _ Store = (*Database)(nil)

// NewDatabase returns a Store that stores the last keep bytes of each log in rows.
func NewDatabase(rows store.Logs, keep int64) *Database {
	d := &Database{rows: rows, keep: keep}
	d.pack.New = func() any {
		z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid, so there is no error
		return z
	}
	return d
}

// Keep implements Store.
func (d *Database) Keep() int64 { return d.keep }

// Append implements Store.
func (d *Database) Append(ctx context.Context, chunks []Chunk) ([]int64, error) {
	ends := make([]int64, len(chunks))
	var parts []store.LogPart
	var of []int // index of the chunk of each part
	send := func() error {
		spans, err := d.rows.AppendLogs(ctx, parts, d.keep)
		for i := range spans {
			ends[of[i]] = spans[i].End
			if !spans[i].Known {
				ends[of[i]] = -1
			}
		}
		parts, of = parts[:0], of[:0]
		return err
	}
	for i := range chunks {
		c := &chunks[i]
		for at := 0; at < len(c.Data) || at == 0; at += store.LogBlockMax {
			data := c.Data[at:min(len(c.Data), at+store.LogBlockMax)]
			packed, err := d.packed(data)
			if err != nil {
				return nil, fmt.Errorf("pack a log: %w", err)
			}
			parts = append(parts, store.LogPart{LogID: c.ID(), Offset: c.Offset + int64(at), Size: int32(len(data)), Data: packed, Cut: c.Cut && at == 0})
			of = append(of, i)
			if len(parts) == partsMax {
				if err := send(); err != nil {
					return nil, err
				}
			}
		}
	}
	if len(parts) == 0 {
		return ends, nil
	}
	return ends, send()
}

func (d *Database) packed(data []byte) ([]byte, error) {
	if len(data) == 0 {
		return []byte{}, nil
	}
	z := d.pack.Get().(*gzip.Writer)
	defer d.pack.Put(z)
	var b bytes.Buffer
	z.Reset(&b)
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Open implements Store.
func (d *Database) Open(ctx context.Context, ref Ref) (Reader, error) {
	r := &rowReader{ctx: ctx, rows: d.rows, id: ref.ID()}
	if _, err := r.Size(); err != nil {
		return nil, err
	}
	if r.span.End == 0 {
		return nil, fmt.Errorf("log of %s, attempt %d: %w", ref.Name, ref.Token, fs.ErrNotExist)
	}
	return r, nil
}

// Delete implements Store.
func (d *Database) Delete(ctx context.Context, runs []Run) error {
	ids := make([]dag.RunID, len(runs))
	for i := range runs {
		ids[i] = runs[i].ID
	}
	return d.rows.DeleteLogs(ctx, ids)
}

// rowReader reads a log block by block, and caches the last block.
type rowReader struct {
	ctx   context.Context // the context of the request that reads
	rows  store.Logs
	id    store.LogID
	span  store.LogSpan
	at    int64 // offset of block
	block []byte
}

// Size implements Reader.
func (r *rowReader) Size() (int64, error) {
	span, err := r.rows.LogSpan(r.ctx, r.id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, err
	}
	if err == nil {
		r.span = span
	}
	return r.span.End, nil
}

// First implements Reader.
func (r *rowReader) First(at int64) int64 { return max(at, r.span.First) }

// Close implements Reader.
func (r *rowReader) Close() error { return nil }

// ReadAt implements io.ReaderAt. It returns an error if the bytes were cut off after the offset was computed.
func (r *rowReader) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		at := off + int64(n)
		if at < r.at || at >= r.at+int64(len(r.block)) {
			if err := r.load(at); err != nil {
				return n, err
			}
		}
		n += copy(p[n:], r.block[at-r.at:])
	}
	return n, nil
}

// load reads the block with an offset.
func (r *rowReader) load(at int64) error {
	part, err := r.rows.LogBlock(r.ctx, r.id, at)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return io.EOF
	case err != nil:
		return err
	case part.Offset > at:
		r.span.First = part.Offset
		return notKept(at, part.Offset)
	}
	z, err := gzip.NewReader(bytes.NewReader(part.Data))
	if err != nil {
		return fmt.Errorf("unpack a log: %w", err)
	}
	block := make([]byte, part.Size)
	if _, err := io.ReadFull(z, block); err != nil {
		return fmt.Errorf("unpack a log: %w", err)
	}
	r.at, r.block = part.Offset, block
	return nil
}
