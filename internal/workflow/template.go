package workflow

import (
	"encoding/json"
	"strings"
	"sync"
	"unicode/utf8"

	celref "github.com/google/cel-go/common/types/ref"
)

// template is a text that contains ${{ }}.
type template struct {
	parts []part
}

// part is either literal text or an expression.
type part struct {
	text   string
	expr   *expression
	offset int // the offset of the expression in the template, in characters
}

func hasTemplate(text string) bool { return strings.Contains(text, "${{") }

// split cuts a text at its ${{ }}. It respects quotes and braces inside an expression, so ${{ "}}" }} is one
// expression.
func splitTemplate(text string) ([]part, *complaint) {
	var parts []part
	at := 0
	for {
		i := strings.Index(text[at:], "${{")
		if i < 0 {
			break
		}
		open := at + i
		end := closing(text, open+3)
		if end < 0 {
			return nil, &complaint{offset: utf8.RuneCountInString(text[:open]), message: "${{ is not closed", hint: "end the expression with }}"}
		}
		if open > at {
			parts = append(parts, part{text: text[at:open]})
		}
		parts = append(parts, part{text: text[open+3 : end], offset: utf8.RuneCountInString(text[:open+3]), expr: &expression{}})
		at = end + 2
	}
	if at < len(text) {
		parts = append(parts, part{text: text[at:]})
	}
	return parts, nil
}

// closing finds the }} that ends the expression which begins at from. It returns -1 if there is none.
func closing(text string, from int) int {
	depth := 0
	var quote byte
	for i := from; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0:
			if c == '\\' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '{':
			depth++
		case c == '}' && depth > 0:
			depth--
		case c == '}' && i+1 < len(text) && text[i+1] == '}':
			return i
		}
	}
	return -1
}

// template compiles a text that contains ${{ }}.
func (d *declarations) template(text string, in scope) (*template, []complaint) {
	parts, fault := splitTemplate(text)
	if fault != nil {
		return nil, []complaint{*fault}
	}
	var faults []complaint
	for i := range parts {
		p := &parts[i]
		if p.expr == nil {
			continue
		}
		x, more := d.compile(p.text, in)
		for _, c := range more {
			c.offset += p.offset
			faults = append(faults, c)
		}
		p.expr = x
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return &template{parts: parts}, nil
}

// refs returns everything that the template reads.
func (t *template) refs() []ref {
	var all []ref
	for _, p := range t.parts {
		if p.expr != nil {
			all = append(all, p.expr.refs...)
		}
	}
	return all
}

// render evaluates the template to a text.
func (t *template) render(lookup func(ref) celref.Val) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.expr == nil {
			b.WriteString(p.text)
			continue
		}
		v, err := p.expr.run(lookup)
		if err != nil {
			return "", err
		}
		text, err := render(v)
		if err != nil {
			return "", err
		}
		if b.WriteString(text); b.Len() > resultBytesMax {
			return "", complaint{message: "the result is larger than " + sizeText(resultBytesMax)}
		}
	}
	return b.String(), nil
}

// value evaluates a template. If the template is one expression, the result has the type of the expression.
// Otherwise it is a text.
func (t *template) value(lookup func(ref) celref.Val) (any, error) {
	if len(t.parts) != 1 || t.parts[0].expr == nil {
		return t.render(lookup)
	}
	v, err := t.parts[0].expr.run(lookup)
	if err != nil {
		return nil, err
	}
	return native(v, 0)
}

// derived caches, up to a bound, what was compiled for a workflow. It also finds tasks by name.
type derived struct {
	mu        sync.Mutex
	templates map[exprKey]*template

	once  sync.Once
	index map[string]int // tasks by name
}

type exprKey struct {
	text string
	in   scope
}

// exprCacheMax bounds the cached templates of one workflow.
const exprCacheMax = 1000

// get compiles a template. It needs no schema, because Parse has checked the template.
func (c *derived) get(text string, in scope) (*template, error) {
	key := exprKey{text, in}
	if c != nil {
		c.mu.Lock()
		t := c.templates[key]
		c.mu.Unlock()
		if t != nil {
			return t, nil
		}
	}
	t, faults := (*declarations)(nil).template(text, in)
	if len(faults) > 0 {
		return nil, faults[0]
	}
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.templates == nil || len(c.templates) >= exprCacheMax {
			c.templates = map[exprKey]*template{}
		}
		c.templates[key] = t
	}
	return t, nil
}

// jsonString returns the text of raw if it is a JSON string.
func jsonString(raw json.RawMessage) (string, bool) {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}
