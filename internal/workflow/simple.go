package workflow

import "strings"

// Most lines of a large file have the form `needs: [a, b]`: a key, and a value that ends on the same line.
// The YAML parser makes some fifty objects for each such line. This file reads these lines without the
// parser, with the same result; a fuzz test compares the two. At the first character that could have another
// meaning, the parser gets the whole piece.

// simpleDepthMax bounds the depth of nested lists and mappings. The parser reads deeper ones.
const simpleDepthMax = 16

// simple reads a chunk of the simple form.
type simple struct {
	lines  []simpleLine
	at     int // the index of the next line
	keys   int
	spare  []node // allocated together, because there are many
	failed bool
}

// simpleLine is a line that is not blank.
type simpleLine struct {
	text   string // the text without the blanks around it
	indent int
	no     int
}

// parseSimple reads a chunk. It returns false, and reports no fault, if the parser must read the chunk.
func (s *source) parseSimple(c chunk) (*node, bool) {
	if len(c.text) > chunkSignsMax {
		return nil, false
	}
	p := simple{}
	no := c.line
	for rest := c.text; rest != ""; no++ {
		line, after, _ := strings.Cut(rest, "\n")
		rest = after
		text := strings.TrimLeft(line, " ")
		indent := len(line) - len(text)
		if text == "" {
			continue
		}
		if text[len(text)-1] == ' ' { // the parser gives such a value another position
			return nil, false
		}
		for i := 0; i < len(text); i++ { // a column counts characters, and for tabs there are special rules
			if text[i] < ' ' || text[i] > '~' {
				return nil, false
			}
		}
		p.lines = append(p.lines, simpleLine{text: text, indent: indent, no: no})
	}
	if len(p.lines) == 0 {
		return nil, false
	}
	n := p.mapping(p.lines[0].indent, 1)
	return n, !p.failed && p.at == len(p.lines)
}

// fail makes the parser read the chunk.
func (p *simple) fail() *node {
	p.failed = true
	return nil
}

func (p *simple) node(kind nodeKind, line *simpleLine, offset int) *node {
	if len(p.spare) == 0 {
		p.spare = make([]node, 64)
	}
	n := &p.spare[0]
	p.spare = p.spare[1:]
	n.kind, n.line, n.col = kind, int32(line.no), int32(line.indent+offset+1)
	return n
}

// mapping reads the entries of a block mapping at an indentation.
func (p *simple) mapping(indent, depth int) *node {
	m := p.node(mapNode, &p.lines[p.at], 0)
	m.keys, m.vals = make([]*node, 0, 4), make([]*node, 0, 4)
	for p.at < len(p.lines) && !p.failed {
		line := &p.lines[p.at]
		if line.indent < indent {
			return m
		}
		end := keyEnd(line.text)
		if line.indent > indent || end == 0 || end == len(line.text) || line.text[end] != ':' || !p.count() {
			return p.fail()
		}
		p.at++
		key := p.node(scalarNode, line, 0)
		key.text, key.plain = line.text[:end], true
		m.keys = append(m.keys, key)
		m.vals = append(m.vals, p.value(line, end+1, depth))
	}
	return m
}

// count counts a key. It reports whether the chunk still has at most its bound of keys.
func (p *simple) count() bool {
	p.keys++
	return p.keys <= chunkKeysMax
}

// value reads the value of an entry, after the colon.
func (p *simple) value(line *simpleLine, from, depth int) *node {
	if from < len(line.text) {
		if line.text[from] != ' ' {
			return p.fail()
		}
		for line.text[from] == ' ' { // the text does not end with a blank
			from++
		}
		return p.inline(line, from, depth)
	}
	if p.at == len(p.lines) || depth == simpleDepthMax { // no value follows; the parser will find the position of the fault
		return p.fail()
	}
	next := &p.lines[p.at]
	switch {
	case next.indent < line.indent:
		return p.fail()
	case next.text[0] == '-': // the items of a list may have the indentation of the list's key
		return p.list(next.indent, depth+1)
	case next.indent == line.indent:
		return p.fail()
	}
	return p.mapping(next.indent, depth+1)
}

// list reads the items of a block list, each on its own line.
func (p *simple) list(indent, depth int) *node {
	l := p.node(listNode, &p.lines[p.at], 0)
	for p.at < len(p.lines) && !p.failed {
		line := &p.lines[p.at]
		if line.indent < indent || line.indent == indent && line.text[0] != '-' {
			return l
		}
		if line.indent > indent || len(line.text) < 3 || line.text[:2] != "- " || line.text[2] == ' ' {
			return p.fail()
		}
		p.at++
		l.vals = append(l.vals, p.inline(line, 2, depth))
	}
	return l
}

// inline reads a value that fills the rest of its line.
func (p *simple) inline(line *simpleLine, from, depth int) *node {
	switch first := line.text[from]; {
	case first == '[' || first == '{':
		n, end := p.flow(line, from, depth+1)
		if end != len(line.text) {
			return p.fail()
		}
		return n
	case first == '"' || first == '\'':
		n, end := p.quoted(line, from)
		if end != len(line.text) {
			return p.fail()
		}
		return n
	case !isWordSign(first) && first != '/' && first != '$':
		return p.fail()
	}
	text := line.text[from:]
	for i := 1; i < len(text); i++ {
		// ": " would begin a value, and " #" a comment.
		if text[i] == ':' && (i+1 == len(text) || text[i+1] == ' ') || text[i] == '#' && text[i-1] == ' ' {
			return p.fail()
		}
	}
	if p.at < len(p.lines) && p.lines[p.at].indent > line.indent { // the text of the value continues there
		return p.fail()
	}
	n := p.node(scalarNode, line, from)
	n.text, n.plain = text, true
	return n
}

// quoted reads a text in quotes without escapes.
func (p *simple) quoted(line *simpleLine, from int) (*node, int) {
	quote := line.text[from]
	inside := line.text[from+1:]
	end := strings.IndexByte(inside, quote)
	if end < 0 || strings.IndexByte(inside[:end], '\\') >= 0 || end+1 < len(inside) && inside[end+1] == quote {
		return p.fail(), 0
	}
	n := p.node(scalarNode, line, from)
	n.text = inside[:end]
	return n, from + end + 2
}

// flow reads a list in brackets or a mapping in braces, and returns its end.
func (p *simple) flow(line *simpleLine, from, depth int) (*node, int) {
	kind, closing := listNode, byte(']')
	if line.text[from] == '{' {
		kind, closing = mapNode, '}'
	}
	n := p.node(kind, line, from)
	if depth > simpleDepthMax {
		return p.fail(), 0
	}
	text := line.text
	for i := from + 1; ; i++ {
		if i = blanks(text, i); i == len(text) {
			return p.fail(), 0
		}
		if kind == mapNode {
			end := i + keyEnd(text[i:])
			if end == i || end+1 >= len(text) || text[end] != ':' || text[end+1] != ' ' || !p.count() {
				return p.fail(), 0
			}
			key := p.node(scalarNode, line, i)
			key.text, key.plain = text[i:end], true
			n.keys = append(n.keys, key)
			i = blanks(text, end+1)
		}
		val, end := p.item(line, i, depth)
		if p.failed {
			return nil, 0
		}
		n.vals = append(n.vals, val)
		if i = blanks(text, end); i == len(text) {
			return p.fail(), 0
		}
		switch text[i] {
		case closing:
			return n, i + 1
		case ',':
		default:
			return p.fail(), 0
		}
	}
}

// item reads one value of a list in brackets or of a mapping in braces.
func (p *simple) item(line *simpleLine, from, depth int) (*node, int) {
	text := line.text
	if from == len(text) {
		return p.fail(), 0
	}
	switch text[from] {
	case '[', '{':
		return p.flow(line, from, depth+1)
	case '"', '\'':
		return p.quoted(line, from)
	}
	end := from
	for end < len(text) && (isWordSign(text[end]) || text[end] == '/' || end > from && text[end] == '-') {
		end++
	}
	if end == from {
		return p.fail(), 0
	}
	n := p.node(scalarNode, line, from)
	n.text, n.plain = text[from:end], true
	return n, end
}

func blanks(text string, i int) int {
	for i < len(text) && text[i] == ' ' {
		i++
	}
	return i
}

// keyEnd returns the length of the key at the beginning of a text. It returns 0 if the key is not of the
// simple form.
func keyEnd(text string) int {
	if text == "" || text[0] >= '0' && text[0] <= '9' || text[0] == '.' {
		return 0
	}
	end := 0
	for end < len(text) && (isWordSign(text[end]) || end > 0 && text[end] == '-') {
		end++
	}
	return end
}

func isWordSign(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.'
}
