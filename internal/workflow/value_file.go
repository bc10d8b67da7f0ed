package workflow

import "fmt"

// Kind is the kind of a Value.
type Kind uint8

// The kinds of values.
const (
	ScalarValue Kind = iota
	ListValue
	MapValue
)

// Value is a value of a YAML file that is not a workflow file, with its position.
type Value struct {
	Kind   Kind
	Text   string   // scalar: its source text, or the text inside of its quotes
	Plain  bool     // the scalar has no quotes, so null, true and 5 are not texts
	Keys   []*Value // the keys of a mapping, parallel to Vals
	Vals   []*Value // the values of a mapping or a list
	Line   int
	Column int // from 1, in characters
}

// Document is one YAML document of a file. If there are Errors, Value is nil.
type Document struct {
	Line   int
	Value  *Value
	Errors Errors
}

// ReadYAML reads a YAML file of any grammar within the bounds of a workflow file: bytes, depth, keys, and the
// size of expanded aliases. The returned errors are about the file as a whole. An invalid document has its
// own errors.
func ReadYAML(src []byte, file string) ([]Document, Errors) {
	s, ok := newSource(src, file)
	if !ok {
		return nil, s.errs
	}
	s.tasksMax = documentsMax
	docs := s.documents()
	if len(docs) > documentsMax {
		s.fail(docs[documentsMax].line, 1, "", fmt.Sprintf("the file has more than %d documents", documentsMax), "split it")
	}
	if len(s.errs) > 0 {
		return nil, s.errs.sorted()
	}
	all := make([]Document, 0, len(docs))
	for _, d := range docs {
		s.errs = nil
		out := Document{Line: d.line}
		n := s.parse(d)
		if n != nil && len(s.errs) == 0 {
			out.Value = s.value(n)
		}
		if out.Errors = s.errs.sorted(); len(out.Errors) > 0 {
			out.Value = nil
		}
		if out.Value != nil || len(out.Errors) > 0 {
			all = append(all, out)
		}
	}
	return all, nil
}

// value converts a node to a Value. The parser bounds the depth of both.
func (s *source) value(n *node) *Value {
	v := &Value{Kind: Kind(n.kind), Text: n.text, Plain: n.plain, Line: max(int(n.line), 1), Column: max(int(n.col), 1)}
	seen := map[string]int32{}
	for _, k := range n.keys {
		if line, dup := seen[k.text]; dup {
			s.fail(int(k.line), int(k.col), k.text, fmt.Sprintf("the key %s is given twice, first in line %d", quoteShort(k.text), line), "keep one of them")
		}
		seen[k.text] = k.line
		v.Keys = append(v.Keys, s.value(k))
	}
	for _, e := range n.vals {
		v.Vals = append(v.Vals, s.value(e))
	}
	return v
}

// Null reports whether v is null or missing. A nil Value is null.
func (v *Value) Null() bool {
	return v == nil || (&node{kind: nodeKind(v.Kind), text: v.Text, plain: v.Plain}).isNull()
}

// Get returns the value of a key of a mapping, or nil if there is none.
func (v *Value) Get(key string) *Value {
	if v == nil {
		return nil
	}
	for i, k := range v.Keys {
		if k.Text == key {
			return v.Vals[i]
		}
	}
	return nil
}

// Str returns the text of a scalar, or "" for any other value.
func (v *Value) Str() string {
	if v == nil || v.Kind != ScalarValue || v.Null() {
		return ""
	}
	return v.Text
}

// IsWorkflowFile reports whether a YAML file in a folder is meant to be a workflow file. This is so if one of
// its documents has the key name or tasks. A file that is not YAML counts, too, so that its fault is shown.
func IsWorkflowFile(src []byte) bool {
	docs, faults := ReadYAML(src, "")
	if len(faults) > 0 {
		return true
	}
	for _, d := range docs {
		if d.Value == nil || d.Value.Get("tasks") != nil || d.Value.Get("name") != nil {
			return true
		}
	}
	return false
}
