package logscan

import (
	"bytes"
	"encoding/binary"
)

const (
	// sampleMax bounds the sample of a buffer in which a finder counts how often each byte occurs.
	sampleMax = 4 << 10
	// missCost is the least number of bytes that a finder must advance per occurrence of the rare byte that
	// is not a match. If it advances less, bytes.Index is faster.
	missCost = 16
	// missesMin is the number of such occurrences after which a finder first checks missCost.
	missesMin = 256
)

// finder searches buffers of the same log for a text. It searches for the byte of the text that is rarest in
// the log, and compares the bytes around each occurrence of this byte. A search for the first byte of the
// text would stop in almost every word.
type finder struct {
	text   []byte // in lower case if fold is set
	fold   bool   // A to Z are equal to a to z
	folded []byte // buffer for cursor.plain
}

func newFinder(text []byte, exact bool) finder {
	if exact {
		return finder{text: text}
	}
	return finder{text: folded(bytes.Clone(text)), fold: true}
}

// cursor is the state of a search through one buffer.
type cursor struct {
	f    *finder
	b    []byte
	rare int // index of the rare byte in the text
	// lower and upper are the indexes in b of the next rare byte in lower and in upper case. They are len(b)
	// if there is none.
	lower, upper int
	misses       int
	// plain is set once the finder uses bytes.Index. It is b, or b in lower case.
	plain []byte
}

// in begins a search through a buffer.
func (f *finder) in(b []byte) cursor {
	c := cursor{f: f, b: b, lower: -1, upper: len(b)}
	var counts [256]int
	for _, x := range b[:min(len(b), sampleMax)] {
		counts[x]++
	}
	least := 0
	for i, x := range f.text {
		n := counts[x]
		if f.fold && isLetter(x) {
			n += counts[x-'a'+'A']
		}
		if i == 0 || n < least {
			c.rare, least = i, n
		}
	}
	if f.fold && isLetter(f.text[c.rare]) {
		c.upper = -1
	}
	return c
}

func isLetter(lower byte) bool { return 'a' <= lower && lower <= 'z' }

// next returns the index of the first match that begins at or after at, or -1 if there is none. In successive
// calls, at must not decrease.
func (c *cursor) next(at int) int {
	text := c.f.text
	for c.plain == nil {
		x := text[c.rare]
		c.lower = nextByte(c.b, c.lower, at+c.rare, x)
		if c.f.fold && isLetter(x) {
			c.upper = nextByte(c.b, c.upper, at+c.rare, x-'a'+'A')
		}
		i := min(c.lower, c.upper) - c.rare
		switch {
		case i+len(text) > len(c.b):
			return -1
		case c.f.matches(c.b[i:]):
			return i
		}
		if c.misses++; c.misses >= missesMin && i < c.misses*missCost {
			c.plain = c.b
			if c.f.fold {
				c.f.folded = append(c.f.folded[:0], c.b...)
				c.plain = folded(c.f.folded)
			}
		}
		at = i + 1
	}
	if i := bytes.Index(c.plain[at:], text); i >= 0 {
		return at + i
	}
	return -1
}

// nextByte returns the index of the first x at or after from. last is the result of an earlier search, and is
// returned if it is not before from.
func nextByte(b []byte, last, from int, x byte) int {
	switch {
	case last >= from:
		return last
	case from >= len(b):
		return len(b)
	}
	if i := bytes.IndexByte(b[from:], x); i >= 0 {
		return from + i
	}
	return len(b)
}

// matches reports whether b begins with the finder's text.
func (f *finder) matches(b []byte) bool {
	if !f.fold {
		return bytes.HasPrefix(b, f.text)
	}
	for i, x := range f.text {
		y := b[i]
		if 'A' <= y && y <= 'Z' {
			y += 'a' - 'A'
		}
		if x != y {
			return false
		}
	}
	return true
}

// folded converts the letters A to Z to lower case, in place. It leaves other letters, so that the length
// does not change. It converts eight bytes at a time, because logs are large.
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
