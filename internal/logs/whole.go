package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"skein.dev/skein/internal/logindex"
)

// PieceMax bounds the bytes that a Giver returns at once. In JSON between two nodes, a piece of this size is
// within the limit of an answer.
const PieceMax = 512 << 10

// Piece is a piece of a log, or of its index.
type Piece struct {
	Offset int64
	Index  bool
}

// Giver returns at most PieceMax bytes of a log from the node that has the file. It returns no bytes if the
// file does not exist any more.
type Giver func(ctx context.Context, p Piece) ([]byte, error)

// Whole returns a Reader of the part of a log that a store has, and of the part before it, which comes from
// the Giver piece by piece. A piece that the Giver does not have counts as deleted. ctx is the context of the
// reader.
func Whole(ctx context.Context, kept Reader, give Giver) Reader {
	return &whole{Reader: kept, ctx: ctx, give: give}
}

type whole struct {
	Reader // reads the kept part
	ctx    context.Context
	give   Giver
	at     int64 // offset of block
	block  []byte
	lost   int64 // the Giver does not have the bytes before this offset, so it is not called for them
}

// First implements Reader. It calls the Giver for the part that the store does not have.
func (r *whole) First(at int64) int64 {
	first := r.Reader.First(at)
	if first == at || r.has(at) || r.load(at) == nil {
		return at
	}
	return first
}

// ReadAt implements io.ReaderAt.
func (r *whole) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		at := off + int64(n)
		switch {
		case r.has(at):
			n += copy(p[n:], r.block[at-r.at:])
		case r.Reader.First(at) == at:
			m, err := r.Reader.ReadAt(p[n:], at)
			if n += m; !errors.Is(err, fs.ErrNotExist) {
				return n, err
			}
		default:
			if err := r.load(at); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

func (r *whole) has(at int64) bool { return at >= r.at && at < r.at+int64(len(r.block)) }

// load gets the piece at an offset from the Giver.
func (r *whole) load(at int64) error {
	if at < r.lost {
		return notKept(at, r.Reader.First(at))
	}
	data, err := r.give(r.ctx, Piece{Offset: at})
	switch {
	case r.ctx.Err() != nil:
		return r.ctx.Err()
	case err != nil || len(data) == 0:
		r.lost = r.Reader.First(at)
		return notKept(at, r.lost)
	}
	r.at, r.block = at, data
	return nil
}

var _ Indexed = (*whole)(nil)

// Index implements Indexed. A Giver with an earlier version returns pieces of the log instead, which are no
// valid records.
func (r *whole) Index() (records []byte, err error) {
	if kept, ok := r.Reader.(Indexed); ok {
		if records, err = kept.Index(); err == nil {
			return records, nil
		}
	}
	for records = nil; len(records) < IndexMax; {
		piece, err := r.give(r.ctx, Piece{Offset: int64(len(records)), Index: true})
		if records = append(records, piece...); err != nil || len(piece) < PieceMax || !logindex.Valid(records) {
			return records, err
		}
	}
	return records, nil
}

// PutIndex implements Indexed. A worker stores the index of its file itself.
func (r *whole) PutIndex(records []byte) error {
	if kept, ok := r.Reader.(Indexed); ok {
		return kept.PutIndex(records)
	}
	return nil
}

// notKept returns the error which says that a log must be read from another offset on.
func notKept(at, first int64) error {
	return fmt.Errorf("the log's bytes from %d to %d are not kept any more: %w", at, first, fs.ErrNotExist)
}
