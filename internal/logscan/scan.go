// Package logscan searches logs of any size in bounded memory: for a text, for a regular expression, or for
// errors and warnings.
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

// Source is a log. Its beginning may no longer be kept.
type Source interface {
	io.ReaderAt
	// First returns the offset of the first kept byte at or after at.
	First(at int64) int64
}

const (
	block = 1 << 20
	// hitTextMax bounds the part of a line that a hit shows.
	hitTextMax = 512
	// progressEvery is the number of bytes after which a search reports its progress.
	progressEvery = 64 << 20
	// longMax is the length of a line beyond which a search may end within the line.
	longMax = 16 << 20
	// lineMax bounds the part of a line that a pattern examines.
	lineMax = 64 << 10
)

// Query says which lines to find. A line matches if it fulfils each field that is set.
type Query struct {
	Text []byte
	// Case makes the search distinguish A to Z from a to z.
	Case bool
	// Pattern is an alternative to Text.
	Pattern *Pattern
	// Level is the lowest level of the lines to find.
	Level logindex.Level
}

// Hit is a line that matches.
type Hit struct {
	Line   int64 // number of the line, from 1; 0 if unknown, because the beginning of the log is not kept
	Offset int64 // offset of the line's first byte
	Text   []byte
	At     int // index in Text at which the match begins
	Length int // length of the match
}

// Searching describes a search through a log. Its functions end the search by returning an error.
type Searching struct {
	Query
	// From is the offset at which the search begins, and Line the number of the line there. Line is 0 if it
	// is unknown. If From is 0, Line need not be set.
	From, Line int64
	// Blocks is the index of the log. Blocks without a line of the level are not read. If it is nil, the
	// whole log is read.
	Blocks []logindex.Entry
	// Enough is called after each part, with the number of bytes read so far. If it returns true, the search
	// ends there. It may be nil.
	Enough func(read int64) bool
	Hit    func(*Hit) error
	// Progress is called after each progressEvery bytes, with the offset that the search has reached.
	Progress func(at int64) error
}

// Done says where a search ended.
type Done struct {
	Next  int64 // offset at which to continue; the size of the log if nothing is left
	Lines int64 // number of lines before Next; 0 if unknown
}

// Search reads r up to size and reports the lines that match, in their order. Its memory is bounded by a few
// blocks, however long the lines are. A pattern examines only the first 64 KiB of a line.
func (s *Searching) Search(ctx context.Context, r Source, size int64) (Done, error) {
	if s.Pattern != nil || s.Level != logindex.Plain {
		return s.byLines(ctx, r, size)
	}
	c := scan{s: s, r: r, size: size, text: newFinder(s.Text, s.Case), at: s.From, start: s.From, told: s.From, line: s.Line, gap: s.From > 0 && s.Line == 0}
	if s.From == 0 {
		c.line = 1
	}
	err := c.run(ctx)
	if c.next > 0 {
		return Done{Next: c.next}, err
	}
	return Done{Next: c.at, Lines: c.count()}, err
}

// scan is the state of a search for a text. Its buffer holds the unfinished end of the previous block, and
// the next block after that.
type scan struct {
	s    *Searching
	r    Source
	size int64
	text finder
	next int64 // offset at which to continue, if the search has ended early

	at    int64 // offset of the next byte to read
	start int64 // offset of the line at the beginning of the buffer
	line  int64 // number of the line at start
	gap   bool  // a part of the log is not kept, so line numbers are unknown
	hit   bool  // the line at start was already reported
	told  int64
	buf   []byte
}

func (c *scan) count() int64 {
	switch {
	case c.gap:
		return 0
	case c.at > c.start:
		return c.line // the last line has no line end yet, but counts
	}
	return c.line - 1
}

func (c *scan) run(ctx context.Context) error {
	c.buf = make([]byte, 0, 2*block)
	for c.at < c.size {
		if err := ctx.Err(); err != nil {
			return err
		}
		if first := c.r.First(c.at); first > c.at {
			c.at, c.start, c.gap, c.hit, c.buf = first, first, true, false, c.buf[:0]
			continue
		}
		kept := len(c.buf)
		part := c.buf[kept : kept+int(min(block, c.size-c.at))]
		n, err := c.r.ReadAt(part, c.at)
		if n == 0 && errors.Is(err, fs.ErrNotExist) && c.r.First(c.at) > c.at {
			continue // the beginning of the log was dropped in the meantime
		}
		if n == 0 {
			if err == nil || errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("search the log: %w", err)
		}
		c.buf = c.buf[:kept+n]
		c.at += int64(n)
		if err := c.look(); err != nil {
			return err
		}
		if c.at-c.told >= progressEvery {
			c.told = c.at
			if err := c.s.Progress(c.at); err != nil {
				return err
			}
		}
		if c.enough() {
			return nil
		}
	}
	return nil
}

// enough reports whether to end the search here. A search may end at the beginning of a line that was not
// reported, or within a very long line.
func (c *scan) enough() bool {
	if c.at >= c.size || c.s.Enough == nil || !c.s.Enough(c.at-c.s.From) {
		return false
	}
	switch {
	case !c.hit && c.start > c.s.From && c.at-c.start <= block:
		c.next = c.start
	case c.at-c.start > longMax:
		c.next = c.at
	}
	return c.next > 0
}

// look searches the buffer. It keeps the last line in the buffer if the end of that line has not been read.
func (c *scan) look() error {
	text, find := c.buf, c.text.in(c.buf)
	from := 0 // index in the buffer at which the current line begins
	for at := 0; ; {
		i := find.next(at)
		if i < 0 {
			break
		}
		if nl := bytes.LastIndexByte(text[from:i], '\n'); nl >= 0 {
			c.begin(bytes.Count(text[from:i], newline), c.startOf(from+nl+1))
			from += nl + 1
		}
		if !c.hit {
			if err := c.report(from, i); err != nil {
				return err
			}
			c.hit = true
		}
		nl := bytes.IndexByte(text[i:], '\n')
		if nl < 0 {
			break
		}
		at = i + nl + 1
	}
	if nl := bytes.LastIndexByte(text[from:], '\n'); nl >= 0 {
		c.begin(bytes.Count(text[from:], newline), c.startOf(from+nl+1))
		from += nl + 1
	}
	c.keep(from)
	return nil
}

var newline = []byte{'\n'}

// startOf returns the offset in the log of an index in the buffer.
func (c *scan) startOf(i int) int64 { return c.at - int64(len(c.buf)-i) }

// begin moves on by a number of lines, to the line at start.
func (c *scan) begin(lines int, start int64) {
	c.line, c.start, c.hit = c.line+int64(lines), start, false
}

// keep moves the bytes of an unfinished line to the beginning of the buffer. If the line is longer than a
// block or was reported, keep moves only its end, where a match may begin.
func (c *scan) keep(from int) {
	rest := c.buf[from:]
	if len(rest) > block || c.hit {
		rest = rest[len(rest)-min(len(rest), len(c.s.Text)-1):]
	}
	c.buf = append(c.buf[:0], rest...)
}

// report reports a match at index i of the buffer, in the line that begins at index from.
func (c *scan) report(from, i int) error {
	end := len(c.buf)
	if nl := bytes.IndexByte(c.buf[i:], '\n'); nl >= 0 {
		end = i + nl
	}
	h := hitOf(c.buf[from:end], i-from, len(c.s.Text))
	if h.Line, h.Offset = c.line, c.start; c.gap {
		h.Line = 0
	}
	return c.s.Hit(&h)
}

// hitOf returns a hit for a match at index i of a line. Its Text is the part of the line around the match.
func hitOf(line []byte, i, length int) Hit {
	first := 0
	if i+length > hitTextMax {
		first = i - min(i, hitTextMax/4)
	}
	h := Hit{Text: line[first:min(len(line), first+hitTextMax)], At: i - first}
	h.Length = min(length, len(h.Text)-h.At)
	return h
}
