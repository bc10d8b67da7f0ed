package workflow

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"skein.dev/skein/internal/suggest"
)

type shapeKind uint8

const (
	anyShape    shapeKind = iota // any YAML value
	scalarShape                  // text, number or boolean; check decides
	listShape                    // a list of item
	objectShape                  // an object with known keys
	tableShape                   // an object with names that the author chooses, all with the same shape
	formsShape                   // one of several shapes; the kind of the node decides
)

// shape is the set of values that are allowed at one place of the file. The checker and the JSON Schema are
// both derived from it.
type shape struct {
	kind   shapeKind
	is     string             // description for people: "a duration such as 10s"
	takes  func(n *node) bool // scalar: reports whether it is valid
	schema map[string]any     // the schema of a scalar; for other kinds, a part that is added to their schema
	item   *shape
	name   *shape // table: shape of the names of its entries
	keys   []key
	choose []string // object: exactly one of these keys must be present
	forms  []*shape
	least  int               // list: the least number of items
	empty  string            // list: the hint for an empty one; "" means the usual hint
	means  map[string]string // words: a wrong word → the word that was probably meant
}

// key is one key of an object.
type key struct {
	name  string
	doc   string
	shape *shape
	must  bool
	later string // the future feature to which this key belongs; "" if the key is supported
	// unless reports whether this key may be missing, because another key is present.
	unless func(n *node) bool
}

func (sh *shape) find(name string) *key {
	for i := range sh.keys {
		if sh.keys[i].name == name {
			return &sh.keys[i]
		}
	}
	return nil
}

// names yields the supported keys. It leaves out keys of future features.
func (sh *shape) names(yield func(string) bool) {
	for i := range sh.keys {
		if k := &sh.keys[i]; k.later == "" && !yield(k.name) {
			return
		}
	}
}

func scalar(is string, schema map[string]any, takes func(n *node) bool) *shape {
	return &shape{kind: scalarShape, is: is, schema: schema, takes: takes}
}

// text returns the shape of any scalar except an empty one. The text is used as it is written, including true
// and 5.
func text(is string) *shape {
	return scalar(is, map[string]any{"type": []string{"string", "number", "boolean"}},
		func(n *node) bool { return n.isText() && n.text != "" && !strings.Contains(n.text, "\x00") })
}

func textOrNothing(is string) *shape {
	return scalar(is, map[string]any{"type": []string{"string", "number", "boolean"}},
		func(n *node) bool { return n.isText() && !strings.Contains(n.text, "\x00") })
}

// pattern is a text that matches a regular expression. The expression is compiled at its first use, because
// all of them together take 3 MB, and a file uses few of them.
func pattern(is, re string) *shape {
	compiled := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(re) })
	return scalar(is, map[string]any{"type": []string{"string", "number", "boolean"}, "pattern": re},
		func(n *node) bool { return n.isText() && compiled().MatchString(n.text) })
}

func oneOf(words ...string) *shape {
	return scalar("one of "+strings.Join(words, ", "), map[string]any{"enum": words},
		func(n *node) bool { return n.isText() && slices.Contains(words, n.text) })
}

func integer(least, most int64) *shape {
	is := fmt.Sprintf("a whole number from %d to %d", least, most)
	schema := map[string]any{"type": "integer", "minimum": least, "maximum": most}
	return scalar(is, schema, func(n *node) bool {
		v, ok := n.int()
		return ok && v >= least && v <= most
	})
}

func number(least, most float64) *shape {
	is := fmt.Sprintf("a number from %v to %v", least, most)
	schema := map[string]any{"type": "number", "minimum": least, "maximum": most}
	return scalar(is, schema, func(n *node) bool {
		v, ok := n.float()
		return ok && v >= least && v <= most
	})
}

func boolean() *shape {
	return scalar("true or false", map[string]any{"type": "boolean"}, func(n *node) bool {
		_, ok := n.bool()
		return ok
	})
}

// duration returns the shape of a duration above zero. If orNone is set, it may be zero.
func duration(orNone bool) *shape {
	is, re := "a duration such as 10s, 5m, 1h30m or 90d", `^([0-9]+(w|d|h|m|s|ms|us|ns))+$`
	schema := map[string]any{"type": "string", "pattern": re}
	if orNone {
		is += ", or 0"
		schema = map[string]any{"anyOf": []any{schema, map[string]any{"const": 0}}}
	}
	return scalar(is, schema, func(n *node) bool {
		if !n.isText() {
			return false
		}
		d, err := ParseDuration(n.text)
		return err == nil && (d > 0 || orNone)
	})
}

var sizePattern = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|K|M|G|T)?$`)

func size() *shape {
	return scalar("a size such as 512Mi or 4Gi",
		map[string]any{"type": []string{"string", "integer"}, "pattern": sizePattern.String()},
		func(n *node) bool { return n.isText() && sizePattern.MatchString(n.text) })
}

func list(is string, item *shape) *shape { return &shape{kind: listShape, is: is, item: item} }

func table(is string, name, item *shape) *shape {
	return &shape{kind: tableShape, is: is, name: name, item: item}
}

func object(is string, keys ...key) *shape { return &shape{kind: objectShape, is: is, keys: keys} }

func forms(is string, of ...*shape) *shape { return &shape{kind: formsShape, is: is, forms: of} }

// checker compares nodes with shapes.
type checker struct {
	*source
	partial bool // a part of the file could not be read, so a missing key may be in that part
}

func (c *checker) failNode(n *node, key, message, hint string) {
	c.fail(int(n.line), int(n.col), key, message, hint)
}

// check reports the faults of n. path is the path of n, which is "" at the top.
func (c *checker) check(n *node, sh *shape, path string) {
	if c.full() || n.broken {
		return
	}
	switch {
	case sh.kind == anyShape:
		c.checkAny(n, path)
	case sh.kind == formsShape:
		for _, f := range sh.forms {
			if f.fits(n) {
				c.check(n, f, path)
				return
			}
		}
		c.mismatch(n, sh, path)
	case !sh.fits(n):
		c.mismatch(n, sh, path)
	case sh.kind == scalarShape:
		if !sh.takes(n) {
			c.mismatch(n, sh, path)
		}
	case sh.kind == listShape:
		for i, v := range n.vals {
			c.check(v, sh.item, path+"["+strconv.Itoa(i)+"]")
		}
		if len(n.vals) < sh.least {
			c.failNode(n, path, path+" is an empty list", cmp.Or(sh.empty, "it must be "+sh.is))
		}
	case sh.kind == tableShape:
		c.checkTable(n, sh, path)
	case sh.kind == objectShape:
		c.checkObject(n, sh, path)
	}
}

// fits reports whether a node has the kind of the shape.
func (sh *shape) fits(n *node) bool {
	switch sh.kind {
	case scalarShape:
		return n.kind == scalarNode
	case listShape:
		return n.kind == listNode
	case tableShape, objectShape:
		return n.kind == mapNode
	}
	return true
}

func (c *checker) mismatch(n *node, sh *shape, path string) {
	name := path
	if name == "" {
		name = "a workflow file"
	}
	if n.isNull() {
		c.failNode(n, path, name+" has no value", "it must be "+sh.is)
		return
	}
	c.failNode(n, path, name+" must be "+sh.is+", not "+n.what(), sh.suggest(n))
}

// suggest returns the word that the author most likely meant, or "".
func (sh *shape) suggest(n *node) string {
	if _, number := n.int(); number && strings.HasPrefix(sh.is, "a duration") {
		return "add a unit, such as " + n.text + "s"
	}
	words, ok := sh.schema["enum"].([]string)
	if !ok || n.kind != scalarNode {
		return ""
	}
	if w := sh.means[n.text]; w != "" {
		return "did you mean " + w + "?"
	}
	if w := suggest.Nearest(n.text, slices.Values(words)); w != "" {
		return "did you mean " + w + "?"
	}
	return ""
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func (c *checker) checkTable(n *node, sh *shape, path string) {
	c.duplicates(n, path)
	for i, k := range n.keys {
		at := join(path, k.text)
		if k.kind != scalarNode || !sh.name.takes(k) {
			c.failNode(k, at, "the name "+quoteShort(k.text)+" is not allowed in "+path, "use "+sh.name.is)
		}
		c.check(n.vals[i], sh.item, at)
	}
}

func (c *checker) checkObject(n *node, sh *shape, path string) {
	c.duplicates(n, path)
	for i, k := range n.keys {
		at := join(path, k.text)
		known := sh.find(k.text)
		if known == nil {
			where := ""
			if path != "" {
				where = " in " + path
			}
			c.failNode(k, at, "unknown key "+quoteShort(k.text)+where, meant(k.text, sh.names, "known keys"))
			continue
		}
		c.check(n.vals[i], known.shape, at)
		if known.later != "" {
			c.failNode(k, at, later[known.later], "remove "+k.text+" for now")
		}
	}
	for i := range sh.keys {
		if k := &sh.keys[i]; k.must && n.get(k.name) == nil && !(c.partial && path == "") && (k.unless == nil || !k.unless(n)) {
			c.missing(n, k, path)
		}
	}
	c.checkChoice(n, sh, path)
}

func (c *checker) missing(n *node, k *key, path string) {
	if path == "" {
		c.failNode(n, k.name, "the workflow has no "+k.name, "add "+k.name+": "+k.shape.is)
		return
	}
	c.failNode(n, join(path, k.name), path+" has no "+k.name, "it must be "+k.shape.is)
}

// checkChoice reports an object that does not have exactly one of the keys of which one must be chosen.
func (c *checker) checkChoice(n *node, sh *shape, path string) {
	if len(sh.choose) == 0 {
		return
	}
	var found []string
	var second *node
	for _, k := range n.keys {
		if slices.Contains(sh.choose, k.text) && !slices.Contains(found, k.text) {
			if found = append(found, k.text); len(found) == 2 {
				second = k
			}
		}
	}
	switch {
	case len(found) == 0:
		c.failNode(n, path, path+" has none of "+strings.Join(sh.choose, ", "), "it must have exactly one of them")
	case len(found) > 1:
		c.failNode(second, join(path, found[1]), path+" has "+strings.Join(found, " and "),
			"it must have exactly one of "+strings.Join(sh.choose, ", "))
	}
}

func (c *checker) duplicates(n *node, path string) {
	first := make(map[string]int32, len(n.keys))
	for _, k := range n.keys {
		if line, dup := first[k.text]; dup {
			c.failNode(k, join(path, k.text), fmt.Sprintf("the key %s is given twice, first in line %d", quoteShort(k.text), line),
				"keep one of them")
			continue
		}
		first[k.text] = k.line
	}
}

func (c *checker) checkAny(n *node, path string) {
	if n.kind == mapNode {
		c.duplicates(n, path)
	}
	for _, v := range n.vals {
		c.checkAny(v, path)
	}
}
