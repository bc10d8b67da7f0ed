package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"skein.dev/skein/internal/dag"
)

// Options says how to read a file.
type Options struct {
	File string // the name of the file in errors
	// Dir is the folder of the workflow file, for checking scripts and globs, or nil if they are not checked. Use
	// os.Root.FS
	Dir      fs.FS
	TasksMax int // 0 means dag.TasksMax
	// Namespace is the namespace of workflows that name none. "" means default.
	Namespace string
	// ReadFile reads the calendar files that triggers name, relative to the workflow file; see [ReadFrom]. It
	// is nil if they are read from Dir. If Dir is nil, too, they are not read, and the triggers that name
	// them have no schedule.
	ReadFile func(name string) ([]byte, error)
	// Classes returns the resource classes that a namespace can name, except those that are built in. It is
	// called only if the file names one. It is nil if the classes are not known here, and any name is
	// accepted; see [Workflow.Classes].
	Classes func(namespace string) map[string]dag.Need
	// Input checks the input of a task with a kind. The expressions in the input are not evaluated. If it is
	// nil, the input is not checked, as for a kind that is not known here.
	Input func(kind string, with json.RawMessage) error
}

// FileBytesMax bounds a workflow file. 100,000 tasks need about 8 MiB.
const FileBytesMax = 16 << 20

// source is the text of a file, and the faults found in it.
type source struct {
	file string
	text string  // UTF-8, lines end in \n
	line []int32 // offset of each line
	errs Errors

	tasksMax int
	anchors  map[string]anchor // the anchors of the document so far
	expanded int               // the number of nodes that the aliases of the document stand for
}

// full reports whether there are already so many faults that further ones would not help.
func (s *source) full() bool { return len(s.errs) >= errorsMax }

func (s *source) fail(line, col int, key, message, hint string) {
	if s.full() {
		return
	}
	line, col = max(line, 1), max(col, 1)
	s.errs = append(s.errs, Error{File: s.file, Line: line, Column: col, Key: key,
		Message: message, Hint: hint, Snippet: s.snippet(line, col)})
}

// newSource makes the source of a file, without a byte order mark and with LF as line end. If the file is too
// large or is not plain UTF-8 text, newSource records the fault and returns false: such a file must not be
// parsed.
func newSource(src []byte, file string) (*source, bool) {
	s := &source{file: file}
	if len(src) > FileBytesMax {
		s.fail(1, 1, "", fmt.Sprintf("the file is too large: %s, the limit is %s", sizeText(len(src)), sizeText(FileBytesMax)),
			"put data in files of its own and name them under files")
		return s, false
	}
	if bytes.HasPrefix(src, []byte("\xff\xfe")) || bytes.HasPrefix(src, []byte("\xfe\xff")) {
		s.fail(1, 1, "", "the file is UTF-16", "save it as UTF-8")
		return s, false
	}
	if i := bytes.IndexByte(src, 0); i >= 0 {
		s.fail(bytes.Count(src[:i], []byte("\n"))+1, i-bytes.LastIndexByte(src[:i], '\n'), "",
			"the file holds a NUL byte: it is binary, not a workflow", "")
		return s, false
	}
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	if bytes.IndexByte(src, '\r') >= 0 {
		src = bytes.ReplaceAll(src, []byte("\r\n"), []byte("\n"))
		src = bytes.ReplaceAll(src, []byte("\r"), []byte("\n"))
	}
	s.text = string(src)
	s.line = append(s.line, 0)
	for i := 0; i < len(src); i++ {
		if src[i] == '\n' {
			s.line = append(s.line, int32(i+1))
		}
	}
	return s, s.checkCharacters()
}

func (s *source) checkCharacters() bool {
	for i := 0; i < len(s.text); {
		c := s.text[i]
		if c >= 0x20 && c < 0x7f || c == '\n' || c == '\t' {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s.text[i:])
		line, col := s.position(i)
		switch {
		case r == utf8.RuneError && size == 1:
			s.text = "" // a text that cannot be shown gets no snippet
			s.fail(line, col, "", "the file is not UTF-8 text", "save it as UTF-8")
			return false
		case r < 0x20 || r >= 0x7f && r < 0xa0 && r != 0x85:
			s.fail(line, col, "", fmt.Sprintf("the control character U+%04X does not belong in a workflow", r),
				`remove it; in a double-quoted string it can be written as an escape such as "\x1b"`)
			return false
		}
		i += size
	}
	return true
}

// position converts an offset to line and column.
func (s *source) position(offset int) (line, col int) {
	lo, hi := 0, len(s.line)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; int(s.line[mid]) <= offset {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo + 1, utf8.RuneCountInString(s.text[s.line[lo]:offset]) + 1
}

// lineText returns line n, from 1, without its end.
func (s *source) lineText(n int) string {
	if n < 1 || n > len(s.line) || s.text == "" {
		return ""
	}
	text := s.text[s.line[n-1]:]
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}
	return text
}

// snippetWidth is how many characters of a line a snippet shows.
const snippetWidth = 100

// snippet shows a line with a caret below the column.
func (s *source) snippet(line, col int) string {
	whole := s.lineText(line)
	text := []rune(whole[:min(len(whole), utf8.UTFMax*(col+snippetWidth))])
	if len(text) == 0 {
		return ""
	}
	from := 0
	if col > snippetWidth-20 {
		from = min(col-snippetWidth/2, len(text))
	}
	to := min(from+snippetWidth, len(text))
	gutter := fmt.Sprintf("%5d | ", line)
	shown := strings.ReplaceAll(string(text[from:to]), "\t", " ")
	caret := max(min(col-1, len(text))-from, 0)
	return gutter + shown + "\n" + strings.Repeat(" ", len(gutter)-2) + "| " + strings.Repeat(" ", caret) + "^"
}

func sizeText(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
