package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"skein.dev/skein/internal/dag"
)

// Level is one level of foreach. If there are several levels, the outermost comes first, and there is an
// instance for each combination of their items.
type Level struct {
	// Name is NAME in item.NAME, by which expressions read the item. It is "" if there is only this level;
	// expressions then read the item as item.
	Name  string          `json:"k,omitempty"`
	Value json.RawMessage `json:"v"` // a list, a text with an expression, or {from, to, step}
}

// levelsMax bounds the levels of one foreach.
const levelsMax = 5

// repeatable are the keys of which a task with foreach has exactly one.
var repeatable = []string{"run", "http", "kind", "workflow"}

// rangeKeys are the keys of a range. to is its last number.
var rangeKeys = []string{"from", "to", "step"}

// foreachScope returns the scope of the texts of a task.
func (t *Task) foreachScope() scope {
	if len(t.Foreach) > 0 {
		return inForeach
	}
	return inTask
}

// spread returns the rule of a task with foreach in the graph. does is the rule of an instance: what the task
// would do without foreach.
func (t *Task) spread(does *dag.Logic, read bool) *dag.Logic {
	return &dag.Logic{Kind: dag.Foreach, Parallel: t.Parallel, Collect: len(t.Outputs) > 0 && read, Each: does}
}

// Items evaluates the foreach of a task: the names of its instances, and the element of each.
func (w *Workflow) Items(task int, in Inputs) (*dag.Items, error) {
	t, it := &w.Tasks[task], &dag.Items{}
	from := w.valuesOf(&in)
	nested := len(t.Foreach) > 0 && t.Foreach[0].Name != ""
	size := 0
	var walk func(depth int, name string, outer map[string]json.RawMessage) error
	walk = func(depth int, name string, outer map[string]json.RawMessage) error {
		level := &t.Foreach[depth]
		if nested {
			raw, err := marshal(outer)
			if err != nil {
				return err
			}
			from.item = raw
		}
		list, err := w.levelItems(level, &from)
		if err != nil && level.Name != "" {
			return fmt.Errorf("foreach %s: %w", level.Name, err)
		} else if err != nil {
			return fmt.Errorf("foreach: %w", err)
		}
		for i, v := range list {
			path, value := name+strconv.Itoa(i), v
			if nested {
				outer[level.Name] = v
			}
			if depth < len(t.Foreach)-1 {
				if err := walk(depth+1, path+".", outer); err != nil {
					return err
				}
				continue
			}
			if nested {
				if value, err = marshal(outer); err != nil {
					return err
				}
			}
			if len(list) > dag.ItemsMax {
				return fmt.Errorf("foreach has %d items, at most %d are allowed; put several into one item", len(list), dag.ItemsMax)
			}
			if size += len(value); len(it.Values) >= dag.ItemsMax || size > dag.ItemBytesMax {
				return fmt.Errorf("foreach has more than %d items, or more than %s of them; put several into one item", dag.ItemsMax, sizeText(dag.ItemBytesMax))
			}
			it.Values = append(it.Values, value)
			if nested {
				it.Names = append(it.Names, path)
			}
		}
		delete(outer, level.Name)
		return nil
	}
	if err := walk(0, "", map[string]json.RawMessage{}); err != nil {
		return nil, err
	}
	if nested && it.Names == nil {
		it.Names = []string{}
	}
	return it, nil
}

// levelItems evaluates one level of foreach.
func (w *Workflow) levelItems(l *Level, from *values) ([]json.RawMessage, error) {
	raw := l.Value
	if text, ok := jsonString(raw); ok {
		t, err := w.exprs.get(foreachText(text), inForeach)
		if err != nil {
			return nil, err
		}
		v, err := t.value(from.lookup)
		if err != nil {
			return nil, err
		}
		if raw, err = marshal(v); err != nil {
			return nil, err
		}
	}
	var list []json.RawMessage
	var span map[string]int64
	switch {
	case len(raw) > 0 && raw[0] == '[':
		return list, json.Unmarshal(raw, &list)
	case len(raw) > 0 && raw[0] == '{' && json.Unmarshal(raw, &span) == nil && !slices.ContainsFunc(slices.Collect(maps.Keys(span)), noRangeKey):
		return numbersOf(span)
	}
	return nil, fmt.Errorf("%s is neither a list nor a range, {from, to, step}", quoteShort(string(raw)))
}

func noRangeKey(k string) bool { return !slices.Contains(rangeKeys, k) }

// foreachText adds ${{ }} to an expression without it.
func foreachText(text string) string {
	if hasTemplate(text) {
		return text
	}
	return "${{ " + text + " }}"
}

// numbersOf lists the numbers of a range, including the last.
func numbersOf(span map[string]int64) ([]json.RawMessage, error) {
	for k := range span {
		if !slices.Contains(rangeKeys, k) {
			return nil, errors.New("a range may only have the keys from, to and step")
		}
	}
	from, step := span["from"], int64(1)
	to, ok := span["to"]
	if s, given := span["step"]; given {
		step = s
	}
	const far = 1 << 52
	switch {
	case !ok:
		return nil, errors.New("a range needs the key to, its last number")
	case step == 0 || step > far || step < -far || from > far || from < -far || to > far || to < -far:
		return nil, errors.New("a range needs a step other than 0, and numbers within 2^52")
	}
	list := []json.RawMessage{}
	for at := from; step > 0 && at <= to || step < 0 && at >= to; at += step {
		if len(list) == dag.ItemsMax {
			return nil, fmt.Errorf("the range has more than %d numbers; use a larger step", dag.ItemsMax)
		}
		list = append(list, json.RawMessage(strconv.FormatInt(at, 10)))
	}
	return list, nil
}

// foreachTexts calls add for every expression in foreach.
func (t *Task) foreachTexts(add func(text string)) {
	for i := range t.Foreach {
		if text, ok := jsonString(t.Foreach[i].Value); ok {
			add(foreachText(text))
		}
	}
}

// foreach reads the key foreach.
func (r *reader) foreach(t *Task, n *node, at string) {
	v, most := n.get("foreach"), n.get("parallel")
	if v == nil {
		if most != nil {
			r.failNode(most, join(at, "parallel"), "parallel belongs to a task with foreach", "remove it, or add foreach")
		}
		return
	}
	if most != nil {
		p, _ := strconv.ParseInt(most.text, 10, 32)
		t.Parallel = int32(p)
	}
	here := join(at, "foreach")
	if houseOf(n) == nil && !slices.ContainsFunc(repeatable, func(k string) bool { return n.get(k) != nil }) {
		r.failNode(v, here, "foreach belongs to a task with run, http, kind or workflow", "repeat a task that does the work, and let this task need it")
		return
	}
	if v.kind != mapNode || isRange(v) {
		if r.level(t, "", v, here); v.kind == listNode && len(v.vals) > dag.ItemsMax {
			r.failNode(v, here, fmt.Sprintf("foreach has %d items, the limit is %d", len(v.vals), dag.ItemsMax), "let one item stand for several")
		}
		return
	}
	if len(v.keys) > levelsMax || len(v.keys) == 0 {
		r.failNode(v, here, fmt.Sprintf("foreach has %d levels; 1 to %d are allowed", len(v.keys), levelsMax), "give a list, an expression, or a mapping such as {region: [eu, us], day: [1, 2]}")
		return
	}
	for i, k := range v.keys {
		r.level(t, k.text, v.vals[i], join(here, k.text))
	}
}

func isRange(n *node) bool {
	return n.kind == mapNode && n.get("to") != nil && !slices.ContainsFunc(n.keys, func(k *node) bool { return !slices.Contains(rangeKeys, k.text) })
}

const foreachIs = "a list, an expression that gives one, or a range"

// foreachHint returns the hint for a foreach in another form. Each key of a mapping is a level, so parallel
// must not be among them.
func foreachHint(at string) string {
	if strings.HasSuffix(at, ".foreach.parallel") {
		return "write parallel: beside foreach:, as a key of the task"
	}
	return "write [a, b], ${{ tasks.NAME.outputs.KEY }} or {from: 1, to: 9}"
}

// level reads one level of foreach.
func (r *reader) level(t *Task, name string, n *node, at string) {
	switch {
	case n.kind == mapNode && !isRange(n), n.kind == scalarNode && !n.isText():
		r.failNode(n, at, at+" must be "+foreachIs, foreachHint(at))
		return
	case n.kind != scalarNode && holdsTemplate(n):
		r.failNode(n, at, "${{ }} is evaluated only in a text of its own, not inside a list or a mapping", "make one expression of it, such as ${{ [params.a, params.b] }}")
		return
	}
	raw, err := marshal(n.value())
	if err == nil && isRange(n) {
		var span map[string]int64
		if err = json.Unmarshal(raw, &span); err == nil {
			_, err = numbersOf(span)
		} else {
			err = errors.New("from, to and step of a range are whole numbers")
		}
	}
	if err != nil {
		r.failNode(n, at, err.Error(), "write {from: 1, to: 9}, for example")
		return
	}
	t.Foreach = append(t.Foreach, Level{Name: name, Value: raw})
}

// checkForeach checks the references in the expressions of foreach.
func (c *readCheck) checkForeach(n *node, at string, read func(n *node, at string, refs []ref)) {
	text := func(v *node, key string, in scope) {
		if v.isText() {
			got := c.compile(foreachText(v.text), in)
			c.complain(v, key, 0, got.faults)
			read(v, key, got.refs)
			if slices.Contains([]string{"int", "uint", "double", "bool", "null_type", "google.protobuf.Timestamp", "google.protobuf.Duration"}, got.out) {
				c.failNode(v, key, key+" must be "+foreachIs+"; this is of the type "+typeWord(got.out), foreachHint(key))
			}
		}
	}
	switch v := n.get("foreach"); {
	case v == nil:
	case v.kind != mapNode || isRange(v):
		text(v, join(at, "foreach"), inTask)
	default:
		for i, level := range v.vals {
			in := inForeach
			if i == 0 {
				in = inTask
			}
			text(level, join(join(at, "foreach"), v.keys[i].text), in)
		}
	}
}

// collects finds the tasks with foreach whose list of outputs is read by an expression.
func (w *Workflow) collects(spec *dag.GraphSpec) map[string]bool {
	if !slices.ContainsFunc(w.Tasks, func(t Task) bool { return len(t.Foreach) > 0 }) {
		return nil
	}
	read := map[string]bool{}
	note := func(names []string) {
		for _, name := range names {
			read[name] = true
		}
	}
	for i := range w.Tasks {
		note(w.ReadsOutputs(i))
		if c := spec.Tasks[i].If; c != nil {
			note(c.Reads().Tasks)
		}
		if l := spec.Tasks[i].Logic; l != nil {
			for _, b := range l.Branches {
				if b.If != nil {
					note(b.If.Reads().Tasks)
				}
			}
		}
	}
	return read
}
