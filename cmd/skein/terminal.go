package main

import (
	"io"
	"regexp"
	"sync"
	"unicode/utf8"
)

// shown writes text to a terminal. Other people may have chosen the text: names, reasons, logs. Such text
// must not move the cursor, set the title, write to the clipboard or send input in the user's name. So shown
// lets only a few characters through: colours of all escape sequences, and line feed and tab of all control
// characters. A carriage return becomes a line feed.
type shown struct {
	to  io.Writer
	sgr *regexp.Regexp // matches the allowed colours, without ESC

	mu   sync.Mutex // protects following fields
	mode int
	seq  []byte // the beginning of a sequence, which may be allowed
	part []byte // the first bytes of a character
	cr   bool   // the last character was a carriage return
}

// The control sequences for colours that are allowed.
var (
	ownColours = regexp.MustCompile(`^\[(0|1|2|31|32|33|34)m$`) // the colours that this program writes
	allColours = regexp.MustCompile(`^\[[0-9;:]*m$`)            // the colours that logs may use
)

// The following are the modes of shown.
const (
	plainText    = iota
	afterEscape  // ESC
	inSequence   // ESC [
	inString     // ESC ] and others, until ST, BEL or the end of the line
	stringEscape // ESC within a string
	inCharset    // after ESC and an intermediate character
)

// sequenceMax bounds the length of an allowed sequence.
const sequenceMax = 64

// Fd returns the descriptor of the terminal that this writer writes to.
func (t *shown) Fd() uintptr {
	if f, ok := t.to.(interface{ Fd() uintptr }); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}

// Write implements io.Writer. A call may end in the middle of an escape sequence or of a character.
func (t *shown) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := append(t.part, p...)
	t.part = nil
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		if !utf8.FullRune(text) {
			t.part = append([]byte(nil), text...)
			break
		}
		r, n := utf8.DecodeRune(text)
		text = text[n:]
		out = t.take(out, r)
	}
	if _, err := t.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// take handles one character. If an escape sequence is cut off at a character, take handles this character
// again as plain text.
func (t *shown) take(out []byte, r rune) []byte {
	switch t.mode {
	case afterEscape:
		t.mode = plainText
		switch {
		case r == '[':
			t.mode, t.seq = inSequence, append(t.seq[:0], '[')
			return out
		case r == ']' || r == 'P' || r == 'X' || r == '^' || r == '_':
			t.mode = inString
			return out
		case r >= 0x20 && r <= 0x2f:
			t.mode = inCharset
			return out
		case r >= 0x30 && r <= 0x7e:
			return out
		}
	case inCharset:
		if r >= 0x20 && r <= 0x2f {
			return out
		}
		if t.mode = plainText; r >= 0x30 && r <= 0x7e {
			return out
		}
	case inSequence:
		switch {
		case r >= 0x20 && r <= 0x3f:
			if len(t.seq) <= sequenceMax {
				t.seq = append(t.seq, byte(r))
			}
			return out
		case r >= 0x40 && r <= 0x7e:
			t.mode = plainText
			if seq := append(t.seq, byte(r)); len(seq) <= sequenceMax && t.sgr.Match(seq) {
				return append(append(out, 0x1b), seq...)
			}
			return out
		}
		t.mode = plainText
	case inString:
		switch r {
		case 0x07, 0x9c:
			t.mode = plainText
			return out
		case 0x1b:
			t.mode = stringEscape
			return out
		case '\n':
			t.mode = plainText
		default:
			return out
		}
	case stringEscape:
		if t.mode = plainText; r == '\\' {
			return out
		}
		t.mode = afterEscape
		return t.take(out, r)
	}
	return t.plain(out, r)
}

// plain handles a character outside of sequences.
func (t *shown) plain(out []byte, r rune) []byte {
	was := t.cr
	t.cr = r == '\r'
	if was && r != '\n' {
		out = append(out, '\n')
	}
	switch {
	case r == 0x1b:
		t.mode = afterEscape
	case r == 0x9b: // the same as ESC [, but colours are not written in this form
		t.mode, t.seq = inSequence, append(t.seq[:0], '?')
	case r == 0x90, r == 0x98, r == 0x9d, r == 0x9e, r == 0x9f:
		t.mode = inString
	case r == '\n' || r == '\t':
		out = append(out, byte(r))
	case r < 0x20 || r >= 0x7f && r <= 0x9f:
	default:
		out = utf8.AppendRune(out, r)
	}
	return out
}
