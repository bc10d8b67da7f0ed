package logindex

import (
	"bytes"
	"encoding/binary"
)

// Level is the severity of a line, which is guessed from its words.
type Level uint8

// The levels. An error is more severe than a warning.
const (
	Plain Level = iota
	Warning
	Error
)

// HeadMax is the number of bytes at the beginning of a line that determine its level.
const HeadMax = 4 << 10

// prefixLen is the length of the words' prefixes, by which Next finds the words.
const prefixLen = 4

// words are the words that determine a level, in lower case. web/src/text/ansi.ts has the same words for the
// colours of the page.
var words = map[string]Level{
	"error": Error, "errors": Error, "fatal": Error, "panic": Error, "exception": Error, "traceback": Error,
	"failed": Error, "failure": Error, "critical": Error, "warn": Warning, "warning": Warning,
}

// denied are the words that mean success after "no" or "0", as in "no errors".
var denied = map[string]bool{"error": true, "errors": true, "failure": true, "failures": true, "failed": true}

const wordMax = 9 // bytes of the longest word

// step maps two bytes to the distance that Next can skip. It is 0 for the end of a prefix.
var step = steps()

// prefixes are the prefixes of the words, as numbers.
var prefixes = func() (all []uint32) {
	for w := range words {
		all = append(all, binary.LittleEndian.Uint32([]byte(w)))
	}
	return all
}()

func steps() *[1 << 16]uint8 {
	var t [1 << 16]uint8
	for i := range t {
		t[i] = prefixLen - 1
	}
	for w := range words {
		for j := 1; j < prefixLen; j++ {
			for k := range 4 { // both cases of both letters
				a, b := w[j-1]-byte(k&1)*('a'-'A'), w[j]-byte(k>>1)*('a'-'A')
				at := &t[int(a)|int(b)<<8]
				*at = min(*at, uint8(prefixLen-1-j))
			}
		}
	}
	return &t
}

// Next returns the first index from from on at which b has the prefix of a word. It returns -1 if there is
// none. It reads only about every third byte, because the writer of a log calls it for each line.
func Next(b []byte, from int) int {
	for i := from + prefixLen - 1; i < len(b); {
		if s := step[int(b[i-1])|int(b[i])<<8]; s > 0 {
			i += int(s)
			continue
		}
		is := binary.LittleEndian.Uint32(b[i-prefixLen+1:]) | 0x20202020
		for _, p := range prefixes {
			if is == p {
				return i - prefixLen + 1
			}
		}
		i++
	}
	return -1
}

// LevelOf returns the level of a line.
func LevelOf(line []byte) Level {
	line = line[:min(len(line), HeadMax)]
	if Next(line, 0) < 0 {
		return Plain
	}
	text := plain(line)
	wrong, well, doubtful := false, false, false
	var low [wordMax]byte
	for i := Next(text, 0); i >= 0; i = Next(text, i+1) {
		end := i
		for end < len(text) && inWord(text[end]) && end-i <= wordMax {
			end++
		}
		if i > 0 && inWord(text[i-1]) || end-i > wordMax {
			continue
		}
		word := low[:copy(low[:], text[i:end])]
		for k := range word {
			word[k] |= 0x20
		}
		well = well || denied[string(word)] && (none(text[:i]) || zero(word, text[end:]))
		wrong, doubtful = wrong || words[string(word)] == Error, doubtful || words[string(word)] == Warning
	}
	switch {
	case wrong && !well:
		return Error
	case doubtful:
		return Warning
	}
	return Plain
}

func inWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// none reports whether a text ends with "no " or "0 ".
func none(before []byte) bool {
	n := len(before)
	if n < 2 || before[n-1] != ' ' {
		return false
	}
	from := n - 2
	if before[n-2] != '0' {
		if from--; from < 0 || before[n-2]|0x20 != 'o' || before[from]|0x20 != 'n' {
			return false
		}
	}
	return from == 0 || !inWord(before[from-1])
}

// zero reports whether the text after "error" or "errors" says that there are none, as in "errors=0".
func zero(word, after []byte) bool {
	if word[0] != 'e' || len(after) < 2 || after[0] != '=' && after[0] != ':' {
		return false
	}
	after = after[1:]
	if after[0] == ' ' {
		after = after[1:]
	}
	return len(after) > 0 && after[0] == '0' && (len(after) == 1 || !inWord(after[1]))
}

// plain returns a line as a terminal shows it: without colours and other sequences, and only the part after
// the last carriage return.
func plain(line []byte) []byte {
	line = bytes.TrimRight(line, "\r")
	line = line[bytes.LastIndexByte(line, '\r')+1:]
	if bytes.IndexByte(line, 0x1b) < 0 {
		return line
	}
	out := make([]byte, 0, len(line))
	for i := 0; i < len(line); {
		if line[i] != 0x1b {
			out = append(out, line[i])
			i++
			continue
		}
		i += sequence(line[i:])
	}
	return out
}

// sequence returns the length of a terminal sequence at the beginning of b.
func sequence(b []byte) int {
	if len(b) < 2 {
		return len(b)
	}
	i := 2
	switch b[1] {
	case '[':
		for i < len(b) && (b[i] < '@' || b[i] > '~') {
			i++
		}
		return min(i+1, len(b))
	case ']':
		for i < len(b) && b[i] != 7 && b[i] != 0x1b {
			i++
		}
		if i+1 < len(b) && b[i] == 0x1b && b[i+1] == '\\' {
			i++
		}
		return min(i+1, len(b))
	}
	return i
}
