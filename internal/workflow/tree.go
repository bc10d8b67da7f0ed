package workflow

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

type nodeKind uint8

const (
	scalarNode nodeKind = iota
	listNode
	mapNode
)

// node is a value of the file with its position.
type node struct {
	text string  // scalar: its source text, or the text inside of its quotes
	keys []*node // the keys of a mapping, parallel to vals
	vals []*node // the values of a mapping or a list
	line int32
	col  int32
	kind nodeKind
	// plain says that the scalar has no quotes, so null, true and 5 are not texts.
	plain bool
	// block says that the scalar comes after | or >.
	block bool
	// broken says that the node was already refused.
	broken bool
}

const (
	depthMax     = 64   // the depth of nested lists and mappings
	chunkKeysMax = 2000 // keys of one chunk
	// A token takes some 300 bytes, so the tokens of a chunk are bounded.
	chunkBytesMax = 2 << 20
	chunkSignsMax = 200_000 // characters that can each be a token
)

// parse turns a document into nodes. It returns nil if no part of it can be used.
func (s *source) parse(d *document) *node {
	s.anchors, s.expanded = map[string]anchor{}, 0
	if d.top == nil && d.tasksLine == 0 {
		if strings.HasPrefix(strings.TrimLeft(d.whole.text, " \t\n"), "{") {
			if n, ok := s.parseJSON(d.whole); ok {
				return n
			}
		}
		return s.parseChunk(d.whole)
	}
	root := &node{kind: mapNode, line: int32(d.line), col: int32(indentOf(s.lineText(d.line)) + 1)}
	tasksAt := func() {
		tasks := &node{kind: mapNode, line: int32(d.tasksLine), col: int32(d.tasksCol)}
		for _, c := range d.tasks {
			s.merge(tasks, c)
		}
		root.keys = append(root.keys, &node{text: "tasks", line: tasks.line, col: tasks.col})
		root.vals = append(root.vals, tasks)
		d.tasksLine = 0
	}
	for _, c := range d.top {
		if d.tasksLine > 0 && c.line > d.tasksLine {
			tasksAt()
		}
		s.merge(root, c)
	}
	if d.tasksLine > 0 {
		tasksAt()
	}
	return root
}

// mergeList adds a key with a list to a mapping.
func (s *source) mergeList(into *node, c chunk) {
	col := int32(indentOf(s.lineText(c.line)) + 1)
	list := &node{kind: listNode, line: int32(c.items[0].line), col: int32(indentOf(s.lineText(c.items[0].line)) + 1)}
	for _, item := range c.items {
		n := s.parseChunk(item)
		if n == nil || s.full() { // the fault was already reported
			continue
		}
		list.vals = append(list.vals, n.vals...)
	}
	into.keys = append(into.keys, &node{text: "triggers", line: int32(c.line), col: col})
	into.vals = append(into.vals, list)
}

// merge adds the entries of a chunk to a mapping.
func (s *source) merge(into *node, c chunk) {
	if s.full() {
		return
	}
	if c.items != nil {
		s.mergeList(into, c)
		return
	}
	n := s.parseChunk(c)
	switch {
	case n == nil:
	case n.kind == mapNode:
		into.keys = append(into.keys, n.keys...)
		into.vals = append(into.vals, n.vals...)
	default:
		s.fail(int(n.line), int(n.col), "", "this is not a `key: value` line", "write a key, a colon and a space, then the value")
	}
}

// parseChunk parses one piece. If the piece is invalid, it reports the fault and returns nil.
func (s *source) parseChunk(c chunk) *node {
	if n, ok := s.parseSimple(c); ok {
		return n
	}
	return s.parseYAML(c)
}

// parseYAML parses one piece by the rules of YAML.
func (s *source) parseYAML(c chunk) (n *node) {
	defer func() { // the parser may panic on text of unknown origin
		if p := recover(); p != nil {
			s.fail(c.line, 1, "", "this part of the file is not valid YAML", "")
			n = nil
		}
	}()
	if !s.checkChunk(c) {
		return nil
	}
	tokens := joinPlain(lexer.Tokenize(c.text))
	if !s.checkTokens(tokens, c.line) {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		s.failYAML(err, c.line)
		return nil
	}
	v := converter{base: c.line - 1, s: s}
	for _, d := range file.Docs {
		if d.Body == nil || d.Body.Type() == ast.CommentType {
			continue
		}
		if n != nil {
			line, col := v.position(d.Body.GetToken())
			s.fail(line, col, "", "this text does not belong to the value before it", "check the indentation")
			return nil
		}
		n = v.node(d.Body)
	}
	return n
}

// joinPlain joins tokens that the lexer has cut wrongly. In a list inside of braces, such as {at: [06:00,
// 18:00]}, the lexer takes the colon of 06:00 for the colon after a key, although no blank follows.
func joinPlain(tokens token.Tokens) token.Tokens {
	kept := make(token.Tokens, 0, len(tokens))
	var open []token.Type
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			open = append(open, t.Type)
		case token.SequenceEndType, token.MappingEndType:
			open = open[:max(len(open)-1, 0)]
		case token.MappingValueType:
			inList := len(open) > 0 && open[len(open)-1] == token.SequenceStartType
			if inList && len(kept) > 0 && i+1 < len(tokens) && isPlain(kept[len(kept)-1]) && isPlain(tokens[i+1]) &&
				touches(kept[len(kept)-1], t) && touches(t, tokens[i+1]) {
				key, value := kept[len(kept)-1], tokens[i+1]
				key.Type, key.CharacterType = token.StringType, token.CharacterTypeMiscellaneous
				key.Value, key.Origin = key.Value+":"+value.Value, key.Origin+":"+value.Origin
				key.Next = value.Next
				if value.Next != nil {
					value.Next.Prev = key
				}
				i++
				continue
			}
		}
		kept = append(kept, t)
	}
	return kept
}

func isPlain(t *token.Token) bool {
	switch t.Type {
	case token.StringType, token.IntegerType, token.FloatType, token.OctetIntegerType, token.BoolType, token.NullType:
		return true
	}
	return false
}

// touches reports whether b follows a without a blank.
func touches(a, b *token.Token) bool {
	return a.Position != nil && b.Position != nil && a.Position.Line == b.Position.Line &&
		a.Position.Column+utf8.RuneCountInString(a.Value) == b.Position.Column
}

// checkChunk refuses a piece whose tokens alone would need too much memory.
func (s *source) checkChunk(c chunk) bool {
	if len(c.text) > chunkBytesMax {
		s.fail(c.line, 1, "", fmt.Sprintf("this part of the file is larger than %s in one piece", sizeText(chunkBytesMax)),
			"put long programs and data into files of their own and name them under files")
		return false
	}
	if len(c.text) <= chunkSignsMax {
		return true
	}
	signs := 0
	for i := 0; i < len(c.text); i++ {
		switch c.text[i] {
		case '[', ']', '{', '}', ',', ':', '-', '?', '&', '*', '!', '#':
			signs++
		}
	}
	if signs > chunkSignsMax {
		s.fail(c.line, 1, "", fmt.Sprintf("this part of the file is nested too deep, or has more than %d brackets, commas, colons and dashes in one piece", chunkSignsMax),
			"write tasks: as a block, one task per line below it, indented")
		return false
	}
	return true
}

// failYAML reports an error of the parser in plain words.
func (s *source) failYAML(err error, first int) {
	var e yaml.Error
	if !errors.As(err, &e) || e.GetToken() == nil {
		s.fail(first, 1, "", "this part of the file is not valid YAML", "")
		return
	}
	v := converter{base: first - 1, s: s}
	line, col := v.position(e.GetToken())
	message, hint := yamlWords(e.GetMessage())
	s.fail(line, col, "", message, hint)
}

// yamlWords translates messages of the parser. It returns other messages unchanged.
func yamlWords(m string) (message, hint string) {
	table := []struct{ has, message, hint string }{
		{"tab character", "a tab is used for indentation", "indent with spaces"},
		{"that cannot start any token", "a tab is used for indentation", "indent with spaces"},
		{"end character of double-quoted", `the closing " is missing`, ""},
		{"end character of single-quoted", "the closing ' is missing", ""},
		{"flow mapping end token", "the closing } is missing", ""},
		{"sequence end token", "the closing ] is missing", ""},
		{"unexpected scalar value", "this is not a value", "a text that begins with a character such as *, & or % needs quotes"},
		{"',' or ']'", "a comma or the closing ] is missing", ""},
		{"',' or '}'", "a comma or the closing } is missing", ""},
		{"map key-value is pre-defined", "this line does not belong to the value before it", "check the indentation"},
		{"mapping value is not allowed", "a colon followed by a space is not allowed inside a value", "put the value in quotes"},
		{"non-map value", "this is not a `key: value` line", "write a key, a colon and a space, then the value"},
		{"unexpected key name", "this is not a `key: value` line", "write a key, a colon and a space, then the value"},
		{"reserved character", "a value cannot begin with this character", "put the value in quotes"},
		{"unknown escape character", "a double-quoted string knows no such escape", `write \\ for a backslash, or use single quotes`},
		{"implicit line break", "a key must stand on one line", ""},
		{"block sequence entries", "a list cannot begin on the line of its key", "begin it on the next line, or write it as [a, b]"},
		{"corresponding to ']'", "this ] closes nothing", ""},
		{"corresponding to '}'", "this } closes nothing", ""},
	}
	for _, t := range table {
		if strings.Contains(m, t.has) {
			return t.message, t.hint
		}
	}
	return "not valid YAML: " + m, ""
}

// checkTokens refuses what a file must not contain: tags, merge keys, deep nesting, too many keys. It does so
// before any recursive code runs.
func (s *source) checkTokens(tokens token.Tokens, first int) bool {
	v := converter{base: first - 1, s: s}
	var flow, keys int
	var indents []int // columns of the open block entries
	before := len(s.errs)
	prev := 0 // the line of the previous token
	for _, t := range tokens {
		line, col := v.position(t)
		message, hint := refusedToken(t)
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow = max(flow-1, 0)
		case token.MappingValueType:
			keys++
		case token.InvalidType:
			message, hint = yamlWords(t.Error)
		}
		if flow == 0 && (t.Position.Line != prev || t.Type == token.SequenceEntryType) {
			for len(indents) > 0 && indents[len(indents)-1] >= col {
				indents = indents[:len(indents)-1]
			}
			indents = append(indents, col)
		}
		prev = t.Position.Line
		switch {
		case flow+len(indents) > depthMax:
			message, hint = fmt.Sprintf("lists and mappings are nested more than %d deep", depthMax), ""
		case keys > chunkKeysMax:
			message = fmt.Sprintf("this part of the file has more than %d keys in one piece", chunkKeysMax)
			hint = "write tasks: as a block, one task per line below it, indented"
		}
		if message != "" {
			s.fail(line, col, "", message, hint)
			if t.Type == token.InvalidType || flow+len(indents) > depthMax || keys > chunkKeysMax || s.full() {
				return false
			}
		}
	}
	return len(s.errs) == before
}

func refusedToken(t *token.Token) (message, hint string) {
	switch t.Type {
	case token.MergeKeyType:
		return "merge keys (<<) are not supported", "write the keys out; what tasks share goes under defaults or env"
	case token.TagType:
		return "tags (!name) are not supported", "remove the tag; a text that begins with ! needs quotes"
	case token.MappingKeyType:
		return "keys that begin with ? are not supported", "write `key: value`"
	case token.DirectiveType:
		return "a directive must stand before the document", "put a value that begins with % in quotes"
	}
	return "", ""
}

// converter converts the parser's nodes to nodes of this package. base is the line before the chunk.
type converter struct {
	base int
	s    *source
}

func (v *converter) position(t *token.Token) (line, col int) {
	if t == nil || t.Position == nil {
		return v.base + 1, 1
	}
	return v.base + t.Position.Line, t.Position.Column
}

func (v *converter) at(n *node, t *token.Token) *node {
	line, col := v.position(t)
	n.line, n.col = int32(line), int32(col)
	return n
}

func (v *converter) node(n ast.Node) *node {
	switch n := n.(type) {
	case *ast.MappingNode:
		m := &node{kind: mapNode}
		for _, e := range n.Values {
			v.entry(m, e)
		}
		if t := n.GetToken(); n.IsFlowStyle || len(m.keys) == 0 {
			return v.at(m, t)
		}
		m.line, m.col = m.keys[0].line, m.keys[0].col
		return m
	case *ast.MappingValueNode:
		m := &node{kind: mapNode}
		v.entry(m, n)
		m.line, m.col = m.keys[0].line, m.keys[0].col
		return m
	case *ast.SequenceNode:
		l := v.at(&node{kind: listNode}, n.Start)
		for _, e := range n.Values {
			l.vals = append(l.vals, v.node(e))
		}
		return l
	case *ast.LiteralNode:
		return v.at(&node{text: n.Value.Value, block: true}, n.Start)
	case *ast.NullNode:
		if n.Token.Type == token.ImplicitNullType {
			return v.at(&node{plain: true}, n.Token)
		}
	case *ast.StringNode:
		quoted := n.Token.Type == token.DoubleQuoteType || n.Token.Type == token.SingleQuoteType
		return v.at(&node{text: n.Value, plain: !quoted}, n.Token)
	}
	if n == nil {
		return &node{plain: true}
	}
	switch n := n.(type) {
	case *ast.AnchorNode:
		return v.anchor(n)
	case *ast.AliasNode:
		return v.alias(n)
	}
	t := n.GetToken()
	return v.at(&node{text: strings.TrimSpace(t.Value), plain: true}, t)
}

func (v *converter) entry(m *node, e *ast.MappingValueNode) {
	key, val := v.node(e.Key), v.node(e.Value)
	if val.line == 0 { // a missing value has the position of its key
		val.line, val.col = key.line, key.col
	}
	m.keys = append(m.keys, key)
	m.vals = append(m.vals, val)
}
