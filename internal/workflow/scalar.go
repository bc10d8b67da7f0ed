package workflow

import (
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// The core schema of YAML 1.2, in which yes, no, on and off are texts.
var (
	yamlInt   = regexp.MustCompile(`^[-+]?[0-9]+$`)
	yamlRadix = regexp.MustCompile(`^0(?:o[0-7]+|x[0-9a-fA-F]+)$`)
	yamlFloat = regexp.MustCompile(`^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$`)
)

func (n *node) isNull() bool {
	if n.kind != scalarNode || !n.plain {
		return false
	}
	switch n.text {
	case "", "~", "null", "Null", "NULL":
		return true
	}
	return false
}

func (n *node) isText() bool { return n.kind == scalarNode && !n.isNull() }

func (n *node) bool() (value, ok bool) {
	if n.kind != scalarNode || !n.plain {
		return false, false
	}
	switch n.text {
	case "true", "True", "TRUE":
		return true, true
	case "false", "False", "FALSE":
		return false, true
	}
	return false, false
}

func (n *node) int() (int64, bool) {
	if n.kind != scalarNode || !n.plain {
		return 0, false
	}
	var v int64
	var err error
	switch {
	case yamlInt.MatchString(n.text):
		v, err = strconv.ParseInt(n.text, 10, 64)
	case yamlRadix.MatchString(n.text):
		v, err = strconv.ParseInt(n.text, 0, 64)
	default:
		return 0, false
	}
	return v, err == nil
}

func (n *node) float() (float64, bool) {
	if n.kind != scalarNode || !n.plain {
		return 0, false
	}
	if v, ok := n.int(); ok {
		return float64(v), true
	}
	if !yamlFloat.MatchString(n.text) {
		return 0, false
	}
	v, err := strconv.ParseFloat(n.text, 64)
	return v, err == nil && !math.IsInf(v, 0)
}

// value returns the node in the form of encoding/json, with numbers as json.Number.
func (n *node) value() any {
	switch n.kind {
	case listNode:
		list := make([]any, len(n.vals))
		for i, v := range n.vals {
			list[i] = v.value()
		}
		return list
	case mapNode:
		m := make(map[string]any, len(n.keys))
		for i, k := range n.keys {
			m[k.text] = n.vals[i].value()
		}
		return m
	}
	if n.isNull() {
		return nil
	}
	if v, ok := n.bool(); ok {
		return v
	}
	if v, ok := n.int(); ok {
		return json.Number(strconv.FormatInt(v, 10))
	}
	if v, ok := n.float(); ok {
		return json.Number(floatText(v))
	}
	return n.text
}

// floatText writes a float in a form that is read back as a float: 3.0, not 3.
func floatText(v float64) string {
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}

// get returns the value of a key, or nil if the mapping has none.
func (n *node) get(key string) *node {
	if n == nil || n.kind != mapNode {
		return nil
	}
	for i, k := range n.keys {
		if k.text == key {
			return n.vals[i]
		}
	}
	return nil
}

// str returns the text of a scalar, or "" for any other node.
func (n *node) str() string {
	if n == nil || !n.isText() {
		return ""
	}
	return n.text
}

// what returns the words that people use for the node.
func (n *node) what() string {
	switch {
	case n.kind == listNode:
		return "a list"
	case n.kind == mapNode:
		return "a mapping"
	case n.isNull():
		return "empty"
	}
	return quoteShort(n.text)
}

// quoteShort quotes a text, shortened for a message.
func quoteShort(text string) string {
	const most = 60
	if r := []rune(text[:min(len(text), 4*most+4)]); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return strconv.Quote(text)
}
