package workflow

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"
)

// expandedMax bounds the expansion of the aliases of one document, so that a few lines cannot become
// millions.
const expandedMax = 100_000

// anchor is a value that aliases may repeat.
type anchor struct {
	node        *node
	size, depth int
}

// measure returns the number of nodes of a value, and its depth.
func (n *node) measure() (size, depth int) {
	for _, v := range n.vals {
		s, d := v.measure()
		size, depth = size+s, max(depth, d)
	}
	return size + 1, depth + 1
}

// anchor stores a value under its name. It does so only when the value is complete, so no value can contain
// itself.
func (v *converter) anchor(n *ast.AnchorNode) *node {
	value := v.node(n.Value)
	if value.line == 0 {
		v.at(value, n.Start)
	}
	a := anchor{node: value}
	a.size, a.depth = value.measure()
	v.s.anchors[anchorName(n.Name)] = a
	return value
}

// alias repeats a value. Faults in the value are reported at the position of the alias.
func (v *converter) alias(n *ast.AliasNode) *node {
	out := v.at(&node{plain: true}, n.Start)
	name := anchorName(n.Value)
	a, ok := v.s.anchors[name]
	message, hint := "", ""
	switch {
	case !ok:
		message = fmt.Sprintf("*%s repeats nothing: there is no &%s before it", name, name)
		hint = "a text that begins with * needs quotes"
	case a.depth > depthMax:
		message = fmt.Sprintf("lists and mappings are nested more than %d deep", depthMax)
	case v.s.expanded+a.size > expandedMax:
		message = fmt.Sprintf("the aliases (*name) of the workflow stand for more than %d values", expandedMax)
		hint = "share less, or generate the file"
	}
	if message != "" {
		out.broken = true
		v.s.fail(int(out.line), int(out.col), "", message, hint)
		return out
	}
	v.s.expanded += a.size
	line, col := out.line, out.col
	*out = *a.node
	out.line, out.col = line, col
	return out
}

func anchorName(n ast.Node) string {
	if n == nil || n.GetToken() == nil {
		return ""
	}
	return n.GetToken().Value
}
