//go:build linux

package worker

import (
	"bytes"
	"strings"
)

// lineMax bounds the bytes of a last line that is remembered.
const lineMax = 1000

// lastLine remembers the last line of a text that is not empty. A nil *lastLine remembers nothing.
type lastLine struct {
	whole []byte // last line that ended with a newline
	open  []byte
}

func (l *lastLine) see(p []byte) {
	if l == nil {
		return
	}
	for {
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		l.open = append(l.open, line[:min(len(line), lineMax-len(l.open))]...)
		if !ended {
			return
		}
		if len(bytes.TrimSpace(l.open)) > 0 {
			l.whole, l.open = l.open, l.whole
		}
		l.open, p = l.open[:0], rest
	}
}

// lastLine returns the last line of the log, for people.
func (l *logFile) lastLine() string {
	if l.lines == nil {
		return ""
	}
	line := l.lines.open
	if len(bytes.TrimSpace(line)) == 0 {
		line = l.lines.whole
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(line), "?")))
}
