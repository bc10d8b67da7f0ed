package argo

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// itemsMax bounds the items of a list of which each becomes a task.
const itemsMax = 1000

// loop holds the items of a repeated task. Either the file lists them, or an expression gives the list. An
// item of the file maps names to texts. The name of a plain text is "".
type loop struct {
	items []map[string]string
	list  string
}

// repeated converts a repeated task. It makes a foreach if the template becomes one task whose conversion
// does not depend on an item. Otherwise it makes a task for each item.
func (d *sheet) repeated(c call, inner *scope, when *workflow.Value, l *loop) *node {
	why := d.noForeach(c, when, l)
	if why == "" {
		s := *inner
		s.each = true
		c.outer = &s
		c.each = &importer.Each{List: l.list, Parallel: inner.parallel}
		for _, item := range l.items {
			if text, ok := item[""]; ok {
				c.each.Items = append(c.each.Items, text)
			} else {
				c.each.Items = append(c.each.Items, item)
			}
		}
		d.limited = d.limited || inner.parallel > 0
		return d.conditional(c, inner, when)
	}
	if l.list != "" {
		return d.failed(c, "the items are known only at run time, and "+why, "write one task with foreach that does all the work for an item")
	}
	n := &node{params: map[string]importer.Text{}, maySkip: c.cond != "" || when != nil}
	if len(l.items) == 0 || len(l.items) > itemsMax {
		return d.failed(c, fmt.Sprintf("the loop has no items, or more than %d, and %s", itemsMax, why), "write one task with foreach that does all the work for an item")
	}
	for i, item := range l.items {
		s := *inner
		s.item = item
		one := c
		one.name, one.outer = c.name+"-"+strconv.Itoa(i), &s
		r := d.conditional(one, &s, when)
		n.ends = append(n.ends, r.ends...)
		n.maySkip = n.maySkip || r.maySkip
	}
	return n
}

// itemReference matches the beginning of {{item}} and {{item.x}}.
var itemReference = regexp.MustCompile(`\{\{\s*item\b`)

// noForeach says why a task cannot be a foreach. It returns "" if it can.
func (d *sheet) noForeach(c call, when *workflow.Value, l *loop) string {
	script := c.template.Get("script")
	one := script != nil || c.template.Get("container") != nil || c.template.Get("http") != nil || c.template.Get("resource") != nil
	switch {
	case !one:
		return "foreach repeats one task, but the template is no container, script, request or resource"
	case when != nil && itemReference.MatchString(when.Str()):
		return "when depends on the item, but the if of a foreach is evaluated once"
	case len(l.items) > 10_000 || l.list == "" && len(l.items) == 0:
		return "foreach has 1 to 10,000 items"
	case script != nil && strings.Contains(script.Get("source").Str(), "{{inputs."):
		if program := importer.Texts(script.Get("command")); len(program) > 0 && !importer.Shells(program[0]) {
			return "the program is no shell script, but contains values"
		}
	}
	for _, item := range l.items {
		for k, v := range item {
			if strings.Contains(k+v, "${{") {
				return "an item contains ${{"
			}
		}
	}
	return ""
}

// loop reads withItems, withParam and withSequence. It returns nil if the task runs once.
func (s *scope) loop(f *importer.Fields) (*loop, string) {
	list, param, sequence := f.Take("withItems"), f.Take("withParam"), f.Take("withSequence")
	switch {
	case list != nil:
		l := &loop{}
		for _, v := range list.Vals {
			item := map[string]string{}
			if v.Kind == workflow.ScalarValue {
				item[""] = v.Str()
			}
			for i, k := range v.Keys {
				item[k.Text] = v.Vals[i].Str()
			}
			l.items = append(l.items, item)
		}
		return l, ""
	case param != nil:
		return s.param(param)
	case sequence != nil:
		return s.sequence(sequence)
	}
	return nil, ""
}

// param converts withParam: a list in the file, or an expression that gives the list.
func (s *scope) param(v *workflow.Value) (*loop, string) {
	text, err := s.value(v.Str())
	if err != nil {
		return nil, "withParam: " + err.Error()
	}
	if c, known := text.Const(); known {
		var list []json.RawMessage
		if json.Unmarshal([]byte(c), &list) != nil {
			return nil, "withParam: " + strconv.Quote(importer.Clip(c, 40)) + " is not a JSON list"
		}
		l := &loop{}
		for _, raw := range list {
			l.items = append(l.items, jsonItem(raw))
		}
		return l, ""
	}
	if len(text) != 1 || s.lists[text[0].Expr] == nil {
		return nil, "withParam: the list is only a part of a parameter or an output"
	}
	expr, err := s.lists[text[0].Expr]()
	if err != nil {
		return nil, "withParam: " + err.Error()
	}
	return &loop{list: expr}, ""
}

// jsonItem returns an item of a JSON list as texts.
func jsonItem(raw json.RawMessage) map[string]string {
	plain := func(raw json.RawMessage) string {
		var text string
		if json.Unmarshal(raw, &text) == nil {
			return text
		}
		return string(raw)
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || m == nil {
		return map[string]string{"": plain(raw)}
	}
	item := map[string]string{}
	for k, v := range m {
		item[k] = plain(v)
	}
	return item
}

// numberFormat matches a format of one whole number with text around it.
var numberFormat = regexp.MustCompile(`^[^%]*%[-+0]?[0-9]{0,3}[dxXob][^%]*$`)

// sequence returns the numbers of withSequence. The file must give its end as a number.
func (s *scope) sequence(v *workflow.Value) (*loop, string) {
	bound := func(key string, other int64) (int64, bool) {
		v := v.Get(key)
		if v == nil {
			return other, true
		}
		text, err := s.value(v.Str())
		c, known := text.Const()
		n, bad := strconv.ParseInt(c, 10, 64)
		return n, err == nil && known && bad == nil && n > -1<<40 && n < 1<<40
	}
	from, ok1 := bound("start", 0)
	to, ok2 := bound("end", from-1)
	count, ok3 := bound("count", max(to-from+1, from-to+1))
	format := "%d"
	if f := v.Get("format"); f != nil {
		format = f.Str()
	}
	if !ok1 || !ok2 || !ok3 || v.Get("count") == nil && v.Get("end") == nil {
		return nil, "withSequence: its length is known only at run time"
	}
	if !numberFormat.MatchString(format) {
		return nil, "withSequence: the format " + strconv.Quote(importer.Clip(format, 40)) + " is not supported"
	}
	l := &loop{}
	for i := range min(count, 10_001) {
		if to < from && v.Get("count") == nil {
			i = -i
		}
		l.items = append(l.items, map[string]string{"": fmt.Sprintf(format, from+i)})
	}
	return l, ""
}

// parallelism reads the limit of a workflow or template. It becomes the limit of each foreach below that.
func (d *sheet) parallelism(v *workflow.Value, what string) int64 {
	n, ok := importer.Int(v)
	if !ok || n < 1 || n > 100_000 {
		d.Drop(v, what+": the value is not a literal number", "write parallel next to foreach")
		return 0
	}
	if !slices.ContainsFunc(d.limits, func(l limit) bool { return l.at == v }) {
		d.limits = append(d.limits, limit{v, what})
	}
	return n
}

// limit is a parallelism field of the file.
type limit struct {
	at   *workflow.Value
	what string
}

// limitsRead reports how each parallelism field was converted.
func (d *sheet) limitsRead() {
	for _, l := range d.limits {
		if d.limited {
			d.Approximate(l.at, l.what+": here it limits the instances of each foreach; only the slots of the nodes limit all tasks together")
		} else {
			d.Drop(l.at, l.what+": the number of concurrent tasks of one run has no limit here; the slots of the nodes limit all tasks", "")
		}
	}
}
