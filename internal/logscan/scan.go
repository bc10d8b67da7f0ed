// Package logscan looks through logs of any size with little memory: for a text, or for the beginning of a
// line.
package logscan

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// Source is a log of which the first part may not be kept.
type Source interface {
	io.ReaderAt
	// First returns the offset at which a read that wants an offset can begin.
	First(at int64) int64
}

const (
	block = 1 << 20
	// hitTextMax bounds the part of a line that a hit shows.
	hitTextMax = 512
	// progressEvery is the number of bytes after which a search reports its progress.
	progressEvery = 64 << 20
)

// Query describes a search: a text within one line.
type Query struct {
	Text []byte
	// Case is true if the search distinguishes A to Z from a to z.
	Case bool
}

// Hit is a line with the text that is looked for.
type Hit struct {
	Line   int64 // number of the line from 1; 0: unknown, because the first part of the log is not kept
	Offset int64 // offset of the first byte of the line
	Text   []byte
	At     int // where the text begins in Text
}

// Searching is a search through a log. Its functions return an error to end it.
type Searching struct {
	Query
	Hit func(*Hit) error
	// Progress is called from time to time with the offset up to which the log has been read.
	Progress func(at int64) error
}

// errFound ends the search for a line.
var errFound = errors.New("found")

// Search reads r up to size and reports the lines with the text, in their order. It returns the number of
// lines, or 0 if the first part of the log is not kept. It holds two blocks of memory, however long the
// lines are.
func (s *Searching) Search(ctx context.Context, r Source, size int64) (lines int64, err error) {
	c := scan{s: s, r: r, size: size, text: s.Text, line: 1}
	if !s.Case {
		c.text = folded(bytes.Clone(s.Text))
	}
	err = c.run(ctx)
	return c.count(), err
}

// LineAt returns the offset of a line, counted from 1. If the log is shorter, or its beginning is not kept,
// there is no such line.
func LineAt(ctx context.Context, r Source, size, line int64) (at int64, ok bool, err error) {
	c := scan{r: r, size: size, line: 1, want: line}
	if err := c.run(ctx); err != nil && !errors.Is(err, errFound) {
		return 0, false, err
	}
	return c.found, c.want == 0 && c.found < size, nil
}

// scan is the state of a search: a buffer with the beginning of a line in front of the next block.
type scan struct {
	s     *Searching
	r     Source
	size  int64
	text  []byte // folded, unless case matters
	want  int64  // the line whose offset is wanted; 0: none, or it is found
	found int64

	at     int64 // offset of the next byte to read
	start  int64 // offset of the line at the beginning of the buffer
	line   int64 // its number
	gap    bool  // a part is not kept, so lines have no numbers
	hit    bool  // this line has been reported
	told   int64
	buf    []byte
	folded []byte
}

func (c *scan) count() int64 {
	switch {
	case c.gap:
		return 0
	case c.at > c.start:
		return c.line // the last line has no end yet
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
			if c.want > 0 {
				return nil // the lines cannot be counted
			}
			continue
		}
		kept := len(c.buf)
		part := c.buf[kept : kept+int(min(block, c.size-c.at))]
		n, err := c.r.ReadAt(part, c.at)
		if n == 0 && errors.Is(err, fs.ErrNotExist) && c.r.First(c.at) > c.at {
			continue // the part was dropped in the meantime
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
		if c.s != nil && c.at-c.told >= progressEvery {
			c.told = c.at
			if err := c.s.Progress(c.at); err != nil {
				return err
			}
		}
	}
	return nil
}

// look searches the buffer, and keeps the beginning of a line whose end has not been read.
func (c *scan) look() error {
	if c.want > 0 {
		return c.seek()
	}
	text := c.buf
	if !c.s.Case {
		c.folded = append(c.folded[:0], c.buf...)
		text = folded(c.folded)
	}
	from := 0 // the beginning of the present line in the buffer
	for at := 0; ; {
		i := bytes.Index(text[at:], c.text)
		if i < 0 {
			break
		}
		i += at
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

// startOf returns the offset of a position in the buffer.
func (c *scan) startOf(i int) int64 { return c.at - int64(len(c.buf)-i) }

// begin continues at a later line.
func (c *scan) begin(lines int, start int64) {
	c.line, c.start, c.hit = c.line+int64(lines), start, false
}

// keep moves the bytes that may belong to an incomplete hit to the beginning of the buffer. Of a line that is
// longer than a block, it keeps only the end.
func (c *scan) keep(from int) {
	rest := c.buf[from:]
	if len(rest) > block || c.hit {
		rest = rest[len(rest)-min(len(rest), len(c.text)-1):]
	}
	c.buf = append(c.buf[:0], rest...)
}

// report reports a hit at i in the line that begins at from.
func (c *scan) report(from, i int) error {
	end := len(c.buf)
	if nl := bytes.IndexByte(c.buf[i:], '\n'); nl >= 0 {
		end = i + nl
	}
	first := from
	if i+len(c.text)-from > hitTextMax {
		first = i - min(i-from, hitTextMax/4)
	}
	h := Hit{Line: c.line, Offset: c.start, Text: c.buf[first:min(end, first+hitTextMax)], At: i - first}
	if c.gap {
		h.Line = 0
	}
	return c.s.Hit(&h)
}

// seek finds the beginning of the wanted line.
func (c *scan) seek() error {
	at := 0
	for c.line < c.want {
		n := bytes.Count(c.buf[at:], newline)
		if c.line+int64(n) < c.want {
			c.line, c.buf = c.line+int64(n), c.buf[:0]
			return nil
		}
		at += bytes.IndexByte(c.buf[at:], '\n') + 1
		c.line++
	}
	c.found, c.want = c.startOf(at), 0
	return errFound
}

// folded converts the letters A to Z to lower case, in place. Other letters keep their case, so that a text
// keeps its length. It works on eight bytes at a time, because a search of a large log spends most of its
// time here.
func folded(b []byte) []byte {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 {
		v := binary.LittleEndian.Uint64(b[i:])
		low := v &^ high
		fromA, afterZ := low+(0x80-'A')*ones, low+(0x7f-'Z')*ones // the high bit of each byte holds the result
		binary.LittleEndian.PutUint64(b[i:], v|(fromA&^afterZ&^v&high)>>2)
	}
	for ; i < len(b); i++ {
		if 'A' <= b[i] && b[i] <= 'Z' {
			b[i] += 'a' - 'A'
		}
	}
	return b
}
