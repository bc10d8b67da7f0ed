package workflow

import (
	"fmt"
	"regexp"
	"strings"
)

// The YAML parser's time grows with the square of the entries of a mapping, and its stack with their number:
// 100,000 tasks took 32 s and 40 GB of allocations. An entry of a block mapping ends at the next line with
// the indentation of its key or less. No line inside its value can be indented like that. So the file is cut
// at such lines: at its top-level keys and at its tasks. Each piece has a bounded number of keys and is
// parsed separately.

// chunk is a piece of the file: whole lines, from one entry of a mapping to another.
type chunk struct {
	text string
	line int // line of the file, from 1
	// items are the pieces of the list of a top-level key triggers, if it begins here.
	items []chunk
}

// document is one YAML document, cut into chunks.
type document struct {
	line  int     // where it begins
	whole chunk   // the whole document; used if it is not a block mapping
	top   []chunk // one chunk per top-level entry; nil if the document is not a block mapping
	tasks []chunk // the entries below `tasks:`, several per chunk
	// tasksLine and tasksCol are the position of the key `tasks` if it was cut.
	tasksLine, tasksCol int
	// partial says that cutting stopped at a fault. If it is set, a key that seems to be missing may be in
	// the rest of the text.
	partial bool
}

// topMax bounds the keys of a workflow. The grammar has far fewer.
const topMax = 1000

// chunkBytes is the size at which a chunk of tasks is ended.
const chunkBytes = 8 << 10

var triggersKey = regexp.MustCompile(`^ *(?:triggers|"triggers"|'triggers') *:[ \t]*(?:#.*)?$`)

var tasksKey = regexp.MustCompile(`^ *(?:tasks|"tasks"|'tasks') *:[ \t]*(?:#.*)?$`)

// documents cuts the file at `---` and `...`.
func (s *source) documents() []*document {
	var docs []*document
	start := 1
	directives := false
	flush := func(end int) { // lines start…end-1
		if d := s.document(start, end); d != nil {
			docs = append(docs, d)
		}
	}
	last := len(s.line)
	for n := 1; n <= last; n++ {
		text := s.lineText(n)
		switch {
		case isMarker(text, "---"):
			flush(n)
			start = n + 1
			if rest := strings.TrimSpace(text[3:]); rest != "" && rest[0] != '#' {
				s.fail(n, 5, "", "nothing may follow --- on its line", "begin the workflow on the next line")
			}
			directives = false
		case isMarker(text, "..."):
			flush(n)
			start = n + 1
			directives = true
		case strings.HasPrefix(text, "%") && (directives || s.blank(start, n)):
			if !strings.HasPrefix(text, "%YAML 1.") {
				s.fail(n, 1, "", "the directive "+firstWord(text)+" is not understood", "remove the line")
			}
			if start == n {
				start = n + 1
			}
		}
	}
	flush(last + 1)
	return docs
}

func isMarker(text, marker string) bool {
	return strings.HasPrefix(text, marker) && (len(text) == 3 || text[3] == ' ' || text[3] == '\t')
}

// blank reports whether the lines from…to-1 contain nothing.
func (s *source) blank(from, to int) bool {
	for n := from; n < to; n++ {
		if !isBlank(s.lineText(n)) {
			return false
		}
	}
	return true
}

func isBlank(line string) bool {
	text := strings.TrimLeft(line, " \t")
	return text == "" || text[0] == '#'
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// cut returns the text of the lines from…to-1.
func (s *source) cut(from, to int) chunk {
	end := len(s.text)
	if to <= len(s.line) {
		end = int(s.line[to-1])
	}
	return chunk{text: s.text[s.line[from-1]:end], line: from}
}

// document cuts the lines from…to-1. It returns nil if they contain nothing.
func (s *source) document(from, to int) *document {
	for from < to && (isBlank(s.lineText(from)) || strings.HasPrefix(s.lineText(from), "%")) {
		from++
	}
	if from >= to {
		return nil
	}
	d := &document{line: from, whole: s.cut(from, to)}
	first := s.lineText(from)
	if base := indentOf(first); startsEntry(first, base) {
		s.cutEntries(d, from, to)
	}
	return d
}

// startsEntry reports whether a line can begin an entry of a block mapping at a column.
func startsEntry(line string, indent int) bool {
	if isBlank(line) || indentOf(line) > indent {
		return false
	}
	text := line[indentOf(line):]
	switch text[0] {
	case ']', '}', '[', '{', ',', '\t':
		return false
	case '-':
		return len(text) > 1 && text[1] != ' ' && text[1] != '\t'
	}
	return true
}

func (s *source) cutEntries(d *document, from, to int) {
	base := indentOf(s.lineText(from))
	for n := from; n < to; {
		next := s.entryEnd(n, to, base)
		if tasksKey.MatchString(s.lineText(n)) && d.tasksLine == 0 && s.cutTasks(d, n+1, next) {
			d.tasksLine, d.tasksCol = n, indentOf(s.lineText(n))+1
		} else {
			if len(d.top) == topMax {
				s.fail(n, base+1, "", fmt.Sprintf("the workflow has more than %d top-level keys", topMax), "write the tasks below the key tasks, and indent them")
				return
			}
			c := s.cut(n, next)
			if triggersKey.MatchString(s.lineText(n)) {
				c.items = s.cutItems(n+1, next)
			}
			d.top = append(d.top, c)
		}
		if next < to {
			if in := indentOf(s.lineText(next)); in < base {
				s.fail(next, in+1, "", "this line is indented less than the first key of the workflow",
					"indent all top-level keys the same")
				return
			}
		}
		n = next
	}
}

// entryEnd returns the first line after the entry that begins at line n.
func (s *source) entryEnd(n, to, indent int) int {
	for n++; n < to && !startsEntry(s.lineText(n), indent); n++ {
	}
	return n
}

// cutTasks cuts the lines below `tasks:`. If they are not a block mapping, it changes nothing and returns
// false. They are then parsed in one piece, which must be within the bound of a chunk.
func (s *source) cutTasks(d *document, from, to int) bool {
	for from < to && isBlank(s.lineText(from)) {
		from++
	}
	if from >= to {
		return false
	}
	first := s.lineText(from)
	base := indentOf(first)
	if base == 0 || !startsEntry(first, base) {
		return false
	}
	begin, keys, all := from, 0, 0
	for n := from; n < to; {
		next := s.entryEnd(n, to, base)
		if next < to && indentOf(s.lineText(next)) < base {
			in := indentOf(s.lineText(next))
			s.fail(next, in+1, "tasks", "this line is indented less than the tasks above it, but more than the key tasks",
				"indent all tasks the same")
			d.tasks = append(d.tasks, s.cut(begin, next))
			d.partial = true
			return true
		}
		keys++
		if all++; all > s.tasksMax {
			s.fail(n, base+1, "tasks", fmt.Sprintf("the workflow has more than %d tasks", s.tasksMax), "split it into several workflows")
			d.partial = true
			return true
		}
		if c := s.cut(begin, next); len(c.text) >= chunkBytes || next >= to || keys >= 100 {
			d.tasks = append(d.tasks, c)
			begin, keys = next, 0
		}
		n = next
	}
	return true
}

// cutItems cuts the lines of a block list at its items. It returns nil if they are not a block list.
func (s *source) cutItems(from, to int) []chunk {
	for from < to && isBlank(s.lineText(from)) {
		from++
	}
	base := indentOf(s.lineText(min(from, len(s.line))))
	var items []chunk
	begin, count := from, 0
	for n := from; n < to; n++ {
		line := s.lineText(n)
		switch {
		case isBlank(line) || indentOf(line) > base:
			continue
		case indentOf(line) < base || !startsItem(line[base:]):
			return nil // the parser reports the fault
		}
		if count++; count > itemsPerChunk || n > begin && len(s.cut(begin, n).text) >= chunkBytes {
			items = append(items, s.cut(begin, n))
			begin, count = n, 1
		}
	}
	if begin < to {
		items = append(items, s.cut(begin, to))
	}
	return items
}

// itemsPerChunk bounds the items of a chunk, so that its keys stay below their bound.
const itemsPerChunk = 20

func startsItem(text string) bool {
	return text == "-" || strings.HasPrefix(text, "- ")
}

func firstWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word
}
