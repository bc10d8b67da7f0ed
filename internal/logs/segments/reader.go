package segments

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"skein.dev/skein/internal/blob"
	"skein.dev/skein/internal/logs"
)

const (
	// blockMax bounds the bytes that are read at once.
	blockMax = 512 << 10
	// listEvery is the least time between two lists of a log's segments during a read.
	listEvery = time.Second
	// answerMax bounds one list of segments and one read of a block, with all repetitions. So the reader of a
	// log gets an error soon if the store hangs.
	answerMax = 30 * time.Second
)

// Open implements logs.Store.
func (s *Store) Open(ctx context.Context, ref logs.Ref) (logs.Reader, error) {
	prefix, err := folder(&ref)
	if err != nil {
		return nil, err
	}
	r := &reader{ctx: ctx, blobs: s.blobs, prefix: prefix}
	live, err := s.live.Open(ctx, ref)
	switch {
	case err == nil:
		r.live = live
		return r, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if err := r.list(); err != nil {
		return nil, err
	}
	if len(r.parts) == 0 {
		return nil, fmt.Errorf("log of %s, attempt %d: %w", ref.Name, ref.Token, fs.ErrNotExist)
	}
	return r, nil
}

// reader reads a log: the segments, and after them the live end.
type reader struct {
	ctx    context.Context // the context of the request that reads
	blobs  blob.Store
	live   logs.Reader // nil if there is no live end
	prefix string
	parts  []part // sorted by offset
	listed time.Time
	block  []byte
	at     int64 // offset of block
}

// part is a segment.
type part struct {
	key       string
	from, end int64
}

var errSlow = fmt.Errorf("the store of objects has not answered within %v", answerMax)

// bounded returns the context of one list of segments or one read of a block.
func (r *reader) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(r.ctx, answerMax, errSlow)
}

// slow returns the error of a call with a context of bounded. It names the bound if that has ended the call.
func slow(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

// list lists the segments of the log.
func (r *reader) list() error {
	ctx, cancel := r.bounded()
	defer cancel()
	r.parts, r.listed = nil, time.Now()
	for after := ""; ; {
		page, err := r.blobs.List(ctx, r.prefix, after, blob.PageMax)
		if err != nil {
			return fmt.Errorf("list the segments of the log: %w", slow(ctx, err))
		}
		for i := range page {
			if at, ok := offsetOf(page[i].Key); ok && page[i].Size > 0 {
				r.parts = append(r.parts, part{page[i].Key, at, at + page[i].Size})
			}
		}
		if len(page) < blob.PageMax {
			return nil
		}
		after = page[len(page)-1].Key
	}
}

// find returns the segment with an offset. If there is none, it returns the next segment after the offset. It
// lists the segments again if the last list is old.
func (r *reader) find(at int64) (p part, has, ok bool, err error) {
	for range 2 {
		i := slices.IndexFunc(r.parts, func(p part) bool { return p.end > at })
		if i >= 0 && r.parts[i].from <= at {
			return r.parts[i], true, true, nil
		}
		if i >= 0 {
			p, ok = r.parts[i], true
		}
		if time.Since(r.listed) < listEvery {
			break
		}
		if err := r.list(); err != nil {
			return p, false, false, err
		}
	}
	return p, false, ok, nil
}

// Size implements logs.Reader.
func (r *reader) Size() (int64, error) {
	size := int64(0)
	for i := range r.parts {
		size = max(size, r.parts[i].end)
	}
	if r.live == nil {
		return size, nil
	}
	end, err := r.live.Size()
	return max(size, end), err
}

// First implements logs.Reader. If the segments cannot be listed, it returns the beginning of the live end.
func (r *reader) First(at int64) int64 {
	first, known := at, false
	if r.live != nil {
		if first = r.live.First(at); first == at {
			return at
		}
		known = true
	}
	p, has, ok, err := r.find(at)
	switch {
	case err == nil && has:
		return at
	case err == nil && ok && (!known || p.from < first):
		return p.from
	}
	return first
}

// ReadAt implements io.ReaderAt. It returns fs.ErrNotExist for bytes that no copy has.
func (r *reader) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) {
		at := off + int64(n)
		if at >= r.at && at < r.at+int64(len(r.block)) {
			n += copy(b[n:], r.block[at-r.at:])
			continue
		}
		if r.live != nil && r.live.First(at) == at {
			m, err := r.live.ReadAt(b[n:], at)
			if n += m; !errors.Is(err, fs.ErrNotExist) {
				return n, err
			}
			continue
		}
		if err := r.load(at); err != nil {
			return n, err
		}
	}
	return n, nil
}

// load reads a block of a segment.
func (r *reader) load(at int64) error {
	p, has, ok, err := r.find(at)
	switch {
	case err != nil:
		return err
	case !has && !ok && r.live == nil:
		return io.EOF
	case !has:
		return fmt.Errorf("the log's bytes from %d on are not kept: %w", at, fs.ErrNotExist)
	}
	ctx, cancel := r.bounded()
	defer cancel()
	n := min(p.end-at, blockMax)
	block := make([]byte, n)
	for try, got := 0, 0; ; try++ {
		body, err := r.blobs.Open(ctx, p.key, at-p.from+int64(got), n-int64(got))
		if err == nil {
			var m int
			m, err = io.ReadFull(body, block[got:])
			got += m
			_ = body.Close() // the bytes have been read
		}
		if err == nil {
			break
		}
		if try == triesMax || ctx.Err() != nil || errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read a segment of the log: %w", slow(ctx, err))
		}
	}
	r.at, r.block = at, block
	return nil
}

// triesMax bounds the number of requests for a block if the answers break off.
const triesMax = 3

// Close implements io.Closer.
func (r *reader) Close() error {
	if r.live == nil {
		return nil
	}
	return r.live.Close()
}

var _ logs.Indexed = (*reader)(nil)

// indexName is the name of a log's index, in the folder of the segments.
const indexName = "index"

// Index implements logs.Indexed.
func (r *reader) Index() ([]byte, error) {
	ctx, cancel := r.bounded()
	defer cancel()
	body, err := r.blobs.Open(ctx, r.prefix+indexName, 0, logs.IndexMax)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// PutIndex implements logs.Indexed.
func (r *reader) PutIndex(records []byte) error {
	ctx, cancel := r.bounded()
	defer cancel()
	return r.blobs.Put(ctx, r.prefix+indexName, bytes.NewReader(records), int64(len(records)), blob.PutOptions{})
}
