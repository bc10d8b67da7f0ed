package server

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math"
	"net/http"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/logindex"
	"skein.dev/skein/internal/logscan"
	"skein.dev/skein/internal/lru"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

const (
	// indexesMax and indexBytesMax bound the indexes in memory.
	indexesMax, indexBytesMax = 64, 32 << 20
	// indexSoon is the largest part of a log, in bytes, that a request adds to the index without a permit. To
	// add more, a request needs one of the searchesMax permits, and reads for at most indexTime. A request
	// that has a permit passes indexAll.
	indexSoon = 4 << 20
	indexAll  = math.MaxInt64
	indexTime = 10 * time.Second
	// indexStored is the number of blocks that may be missing in a stored index, because a reader describes
	// them again.
	indexStored = 16
	// marksMax and firstErrors bound the answer about an index. firstTime bounds the search for the errors.
	marksMax, firstErrors = 512, 50
	firstTime             = 2 * time.Second
)

// indexedLog is a LogReader of a log that may have an index next to it.
type indexedLog interface {
	Index() ([]byte, error)
	PutIndex(records []byte) error
}

// heldIndex is the index of a log in memory.
type heldIndex struct {
	turn   chan struct{} // capacity 1; the request that uses the other fields holds it
	x      *logindex.Index
	stored int // the number of blocks in the stored index
}

// logIndexes are the indexes of the logs that were read last.
type logIndexes = lru.Cache[store.LogID, *heldIndex]

func newLogIndexes() *logIndexes { return lru.New[store.LogID, *heldIndex](indexesMax, indexBytesMax) }

// indexed is the part of an index that a request uses.
type indexed struct {
	*logindex.Index
	whole bool // whether it describes the log up to the log's present end
}

// withIndex calls the function use with the index of the log. The index describes the log up to its present
// end, or up to an earlier place if the rest would take too long. The index must not be used after use has
// returned. withIndex returns false if there is no index, because a part of the log is not kept or more than
// soon bytes are not described.
func (l *logOf) withIndex(ctx context.Context, soon int64, use func(indexed) error) (bool, error) {
	size, err := l.size()
	if err != nil || l.reader == nil {
		return false, err
	}
	key := store.LogID{Run: l.ref.Run, Task: l.task, Token: l.ref.Attempt}
	if _, there := l.s.indexes.Get(key); !there {
		l.s.indexes.Put(key, &heldIndex{turn: make(chan struct{}, 1)}, int(size/logindex.Block+1)*logindex.RecordSize)
	}
	h, there := l.s.indexes.Get(key)
	if !there {
		return false, nil // other requests use the whole memory for indexes
	}
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if h.x == nil || h.x.Size() > size || size-h.x.Size() > indexSoon {
		h.read(l.reader, size)
	}
	at := h.x.Size()
	if size-at > soon || at < size && l.first(at) > at {
		return false, nil
	}
	within, cancel := context.WithTimeout(ctx, indexTime)
	defer cancel()
	if err := h.x.Extend(within, l.reader, size); err != nil && within.Err() == nil {
		h.x = nil
		if errors.Is(err, fs.ErrNotExist) { // a part of the log was dropped meanwhile
			err = nil
		}
		return false, err
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	whole := h.x.Size() == size
	if whole && l.ended && !l.comes() {
		h.store(l.reader)
	}
	return true, use(indexed{h.x, whole})
}

// read reads the stored index. It keeps the index in memory if that index describes more of the log, which
// has the given size.
func (h *heldIndex) read(r LogReader, size int64) {
	var records []byte
	if of, ok := r.(indexedLog); ok && size >= logindex.From {
		records, _ = of.Index() // if there is none, the index is made from the log
	}
	x, _ := logindex.Read(records, size, r) // after an error, x is empty
	if h.stored = x.Done(); h.x == nil || h.x.Size() > size || h.x.Size() < x.Size() {
		h.x = x
	}
}

// store stores the index of a log that has ended, if the stored index lacks many blocks.
func (h *heldIndex) store(r LogReader) {
	of, ok := r.(indexedLog)
	if ok && h.x.Size() >= logindex.From && h.x.Done() >= h.stored+indexStored {
		_ = of.PutIndex(h.x.Records()) // after an error, the next reader makes it again
		h.stored = h.x.Done()
	}
}

// errIndexing returns the error for a log that is too long to be described at once.
func errIndexing(x *logindex.Index, size int64) error {
	f := fail(http.StatusTooManyRequests, api.ProblemBusy, "the lines of this log are being counted: %d of %d bytes; try again", x.Size(), size)
	f.header.Set("Retry-After", "1")
	return f
}

// place returns the offset at which a read by line or by time begins.
func (l *logOf) place(ctx context.Context, in *logIn) (offset int64, err error) {
	at, err := instantOf("time", in.Time)
	if err != nil {
		return 0, err
	}
	if err := l.s.searches.enter("searches through logs are under way"); err != nil {
		return 0, err
	}
	defer l.s.searches.leave()
	size, err := l.size()
	if err != nil {
		return 0, err
	}
	none := notFound("the log has no line %d, or its first part is not kept", in.Line)
	if in.Line == 0 {
		none = notFound("the times of this log are not known; begin with an offset or a line")
	}
	ok, err := l.withIndex(ctx, indexAll, func(x indexed) error {
		breaks, found := int64(0), false
		if in.Line > 0 {
			offset, breaks, found = x.LineAt(in.Line)
		} else {
			offset, found = x.Since(int64(at))
		}
		switch {
		case !found && !x.whole:
			return errIndexing(x.Index, size)
		case !found:
			return none
		}
		if offset, err = l.after(offset, breaks); errors.Is(err, fs.ErrNotExist) {
			return none
		}
		return err
	})
	if err == nil && !ok {
		err = none
	}
	return offset, err
}

// after returns the offset after a number of line breaks, which are all in the block at offset.
func (l *logOf) after(offset, breaks int64) (int64, error) {
	if breaks == 0 {
		return offset, nil
	}
	block := make([]byte, logindex.Block)
	n, err := l.reader.ReadAt(block, offset)
	for at := 0; ; breaks-- {
		i := bytes.IndexByte(block[at:n], '\n')
		if i < 0 {
			return 0, errors.Join(err, errors.New("the log has fewer lines than its index"))
		}
		if at += i + 1; breaks == 1 {
			return offset + int64(at), nil
		}
	}
}

// lineOf returns the number of the line that contains an offset. It returns 0 if counting takes too long, or
// if the number is unknown because the bytes before the offset are not kept.
func (l *logOf) lineOf(ctx context.Context, offset, soon int64) (line int64) {
	if offset == 0 {
		return 1
	}
	_, _ = l.withIndex(ctx, soon, func(x indexed) error {
		if offset > x.Size() {
			return nil
		}
		begin := offset / logindex.Block * logindex.Block
		block := make([]byte, offset-begin)
		if n, err := l.reader.ReadAt(block, begin); n < len(block) {
			return err // the number of the line stays unknown
		}
		line = x.Before(offset) + int64(bytes.Count(block, []byte{'\n'})) + 1
		return nil
	})
	return line
}

type logIndexIn struct {
	TaskPath
	Attempt int64 `query:"attempt" minimum:"1" doc:"Its token or its number. Absent: the newest."`
	// Here is set by package peer if no other node can answer.
	Here bool `header:"X-Skein-Here" hidden:"true"`
}

// index describes a log: counts, parts, and the first errors.
func (f logSearch) index(ctx context.Context, in *logIndexIn) (*jsonOut[api.LogIndex], error) {
	s := f.s
	l, err := s.findLog(ctx, &logIn{TaskPath: in.TaskPath, Attempt: in.Attempt, Here: in.Here})
	if err != nil {
		return nil, err
	}
	defer l.close()
	if err := s.searches.enter("searches through logs are under way"); err != nil {
		return nil, err
	}
	defer s.searches.leave()
	l.arrive(ctx)
	size, err := l.size()
	if err != nil {
		return nil, err
	}
	out := api.LogIndex{Attempt: int64(l.ref.Attempt), Bytes: size, KeptFrom: l.first(0), Marks: []api.LogMark{}, First: []api.LogHit{}}
	var all []logindex.Entry
	_, err = l.withIndex(ctx, indexAll, func(x indexed) error {
		if !x.whole {
			return errIndexing(x.Index, size)
		}
		of := x.Totals()
		out.Bytes = x.Size() // the log may have grown
		out.Lines, out.Errors, out.Warnings = &of.Lines, &of.Errors, &of.Warnings
		all = x.Entries()
		return nil
	})
	if err != nil {
		return nil, err
	}
	out.Marks = marksOf(all)
	if out.Errors != nil && *out.Errors > 0 {
		begun := time.Now()
		q := logscan.Searching{Query: logscan.Query{Level: logindex.Error}, Blocks: all,
			Enough:   func(int64) bool { return time.Since(begun) > firstTime },
			Progress: func(int64) error { return nil },
			Hit: func(h *logscan.Hit) error {
				out.First = append(out.First, *hitOf(h))
				if len(out.First) == firstErrors {
					return errEnough
				}
				return nil
			}}
		if _, err := q.Search(ctx, l.reader, out.Bytes); err != nil && !errors.Is(err, errEnough) {
			return nil, err
		}
	}
	return &jsonOut[api.LogIndex]{Body: out}, nil
}

// marksOf joins blocks to at most marksMax parts.
func marksOf(all []logindex.Entry) []api.LogMark {
	marks := []api.LogMark{}
	step := (len(all) + marksMax - 1) / marksMax
	line := int64(1)
	for i, e := range all {
		if i%step == 0 {
			marks = append(marks, api.LogMark{Offset: int64(i) * logindex.Block, Line: line, At: instantOrNull(dag.Micros(e.At))})
		}
		m := &marks[len(marks)-1]
		m.Errors, m.Warnings = m.Errors+int64(e.Errors), m.Warnings+int64(e.Warnings)
		line += int64(e.Breaks)
	}
	return marks
}
