package logscan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"skein.dev/skein/internal/logindex"
)

// byLines searches a log line by line. It reads at least the first 64 KiB of a line before it decides whether
// the line matches.
func (s *Searching) byLines(ctx context.Context, r Source, size int64) (Done, error) {
	b := byLines{s: s, r: r, size: size, at: s.From, line: s.Line, told: s.From, need: newFinder(s.Text, s.Case)}
	if s.Pattern != nil {
		b.need = newFinder(s.Pattern.need, s.Case)
	}
	switch {
	case s.From == 0:
		b.line = 1
	case b.before(s.From):
		b.inside = true // the earlier search ended within this line, after it had judged the line's beginning
	}
	err := b.run(ctx)
	done := Done{Next: b.at}
	if b.line > 0 && b.at >= size && !b.jumped {
		done.Lines = b.line - 1
		if b.inside || b.open {
			done.Lines++
		}
	}
	return done, err
}

// byLines is the state of a search by lines.
type byLines struct {
	s    *Searching
	r    Source
	size int64
	need finder // finds a text that each matching line contains; empty if no such text is known

	at     int64
	line   int64 // number of the line at offset at; 0 if unknown
	inside bool  // at is within a line that was already judged
	open   bool  // the last line of the log has no line end yet
	jumped bool  // blocks were skipped
	read   int64
	told   int64
	seen   int64       // bytes that the pattern has examined since the last call of stop
	stop   func() bool // reports whether to end the search here
	buf    []byte
}

// before reports whether the byte before an offset exists and belongs to the same line.
func (b *byLines) before(at int64) bool {
	var last [1]byte
	n, _ := b.r.ReadAt(last[:], at-1) // if the byte cannot be read, the line begins here
	return n == 1 && last[0] != '\n'
}

func (b *byLines) run(ctx context.Context) error {
	enough := func() bool { return b.s.Enough != nil && b.s.Enough(b.read) }
	b.stop = func() bool { return ctx.Err() != nil || enough() }
	for b.at < b.size {
		if err := ctx.Err(); err != nil {
			return err
		}
		if first := b.r.First(b.at); first > b.at {
			b.at, b.line, b.inside = first, 0, false
			continue
		}
		end := b.jump()
		if b.at >= b.size {
			return nil
		}
		n := int(min(b.size, end+lineMax) - b.at)
		if cap(b.buf) < n {
			b.buf = make([]byte, n, block+lineMax)
		}
		b.buf = b.buf[:n]
		n, err := b.r.ReadAt(b.buf, b.at)
		if n == 0 && errors.Is(err, fs.ErrNotExist) && b.r.First(b.at) > b.at {
			continue // the beginning of the log was dropped in the meantime
		}
		if n == 0 {
			if err == nil || errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("search the log: %w", err)
		}
		b.buf = b.buf[:n]
		b.read += int64(n)
		if err := b.look(int(min(end-b.at, int64(n)))); err != nil {
			return err
		}
		if b.at-b.told >= progressEvery {
			b.told = b.at
			if err := b.s.Progress(b.at); err != nil {
				return err
			}
		}
		if b.at < b.size && enough() {
			return nil
		}
	}
	return nil
}

// jump moves to the next block that may have a line of the level. It returns the end of the part to read
// there.
func (b *byLines) jump() (end int64) {
	end = min(b.size, b.at+block)
	all := b.s.Blocks
	k := b.at / logindex.Block
	if b.s.Level == logindex.Plain || k >= int64(len(all)) {
		return end
	}
	for k < int64(len(all)) && !all[k].Has(b.s.Level) {
		k++
	}
	if to := min(b.size, k*logindex.Block); to > b.at {
		b.at, b.jumped = to, true
		if b.inside = to < b.size && b.before(to); b.line > 0 {
			b.line = 1
			for i := range all[:k] {
				b.line += int64(all[i].Breaks)
			}
		}
	}
	last := k
	for last < int64(len(all)) && all[last].Has(b.s.Level) {
		last++
	}
	if last == int64(len(all)) {
		return min(b.size, b.at+block)
	}
	return min(b.size, b.at+block, last*logindex.Block)
}

// look judges the lines of the buffer that begin before limit.
func (b *byLines) look(limit int) error {
	candidate := b.candidates()
	at := 0
	if b.inside {
		nl := bytes.IndexByte(b.buf, '\n')
		if nl < 0 {
			b.at += int64(len(b.buf))
			return nil
		}
		at, b.inside = nl+1, false
		b.next(1)
	}
	for at < limit {
		i := candidate(at)
		if i < 0 || i >= limit && bytes.IndexByte(b.buf[limit-1:i], '\n') >= 0 {
			i = limit - 1 // no line before the limit matches, but the last of them may go beyond the limit
			b.skip(&at, i)
			return b.rest(at)
		}
		b.skip(&at, i)
		end := bytes.IndexByte(b.buf[i:], '\n')
		line := b.buf[at:]
		if end >= 0 {
			line = b.buf[at : i+end]
		}
		if err := b.judge(line, b.at+int64(at), i-at); err != nil {
			return err
		}
		if end < 0 {
			return b.rest(at)
		}
		at = i + end + 1
		b.next(1)
		if b.seen >= lineMax {
			if b.seen = 0; b.stop() {
				break
			}
		}
	}
	b.at += int64(at)
	return nil
}

// candidates returns a function that finds the next line that may match. Given an index in the buffer, the
// function returns an index at or after it that is within such a line, or -1 if there is none. If every
// matching line contains a known text, the result is the index of that text.
func (b *byLines) candidates() func(at int) int {
	switch {
	case len(b.need.text) > 0:
		find := b.need.in(b.buf)
		return find.next
	case b.s.Level != logindex.Plain:
		return func(at int) int { return logindex.Next(b.buf, at) }
	}
	return func(at int) int { return at }
}

// skip moves at to the beginning of the line that contains index i.
func (b *byLines) skip(at *int, i int) {
	if nl := bytes.LastIndexByte(b.buf[*at:i], '\n'); nl >= 0 {
		b.next(bytes.Count(b.buf[*at:*at+nl+1], newline))
		*at += nl + 1
	}
}

// rest moves past the last line of the buffer. The line begins at index at, and was already judged.
func (b *byLines) rest(at int) error {
	if nl := bytes.IndexByte(b.buf[at:], '\n'); nl >= 0 {
		b.at += int64(at + nl + 1)
		b.next(1)
		return nil
	}
	b.at += int64(len(b.buf))
	b.inside, b.open = b.at < b.size, b.at >= b.size
	return nil
}

func (b *byLines) next(lines int) {
	if b.line > 0 {
		b.line += int64(lines)
	}
}

// judge reports a line to Hit if it matches. i is the index in the line of the text that candidates found.
func (b *byLines) judge(line []byte, offset int64, i int) error {
	line = line[:min(len(line), lineMax)]
	if l := b.s.Level; l != logindex.Plain && logindex.LevelOf(line) < l {
		return nil
	}
	from, to := 0, 0
	switch {
	case b.s.Pattern != nil:
		b.seen += int64(len(line)) + 1
		var ok bool
		if from, to, ok = b.s.Pattern.in(line); !ok {
			return nil
		}
	case len(b.need.text) > 0:
		if from, to = i, i+len(b.need.text); to > len(line) {
			return nil
		}
	}
	h := hitOf(line, from, to-from)
	h.Line, h.Offset = b.line, offset
	return b.s.Hit(&h)
}
