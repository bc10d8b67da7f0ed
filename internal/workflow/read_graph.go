package workflow

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/suggest"
)

// compiled is the result of compiling a text. Each text is compiled once for all tasks.
type compiled struct {
	refs   []ref
	faults []complaint
	out    string // the type of the result if the text is only one expression
}

// compile compiles a text with ${{ }}, or a condition.
func (r *reader) compile(text string, in scope) compiled {
	key := exprKey{text, in}
	if c, ok := r.compiled[key]; ok {
		return c
	}
	var c compiled
	if in == inIf || in == inWait || in == inWaitEvent {
		var x *expression
		if x, c.faults = r.declared.compile(text, in); x != nil {
			c.refs = x.refs
			if !isBoolean(x.out) {
				c.faults = []complaint{{message: "a condition must be true or false, but this is a " + typeWord(x.out.TypeName()),
					hint: "compare it with something, such as == or >"}}
			}
		}
	} else {
		var t *template
		if t, c.faults = r.declared.template(text, in); t != nil {
			c.refs = t.refs()
			if len(t.parts) == 1 && t.parts[0].expr != nil {
				c.out = t.parts[0].expr.out.TypeName()
			}
		}
	}
	if len(r.compiled) >= exprCacheMax {
		clear(r.compiled)
	}
	r.compiled[key] = c
	return c
}

// complain reports the faults of an expression inside of a scalar. from is the offset of the expression in
// the scalar's text.
func (r *reader) complain(n *node, at string, from int, faults []complaint) {
	for _, f := range faults {
		line, col := r.inside(n, from+f.offset)
		r.fail(line, col, at, f.message, f.hint)
	}
}

// inside returns the position in the file of the character at an offset of a scalar's text. For folded and
// escaped texts, whose characters cannot be matched with those of the file, it returns the beginning of the
// scalar.
func (r *reader) inside(n *node, offset int) (line, col int) {
	line, col = int(n.line), int(n.col)
	text := []rune(n.text)
	offset = min(offset, len(text))
	if n.block {
		before := string(text[:offset])
		row := strings.Count(before, "\n")
		indent := indentOf(r.lineText(line + 1))
		if begin := strings.LastIndexByte(before, '\n') + 1; r.matches(line+1+row, indent+utf8.RuneCountInString(before[begin:])+1, text[offset:]) {
			return line + 1 + row, indent + utf8.RuneCountInString(before[begin:]) + 1
		}
		return line, col
	}
	for quote := 0; quote < 2; quote++ {
		if r.matches(line, col+quote, text) && r.matches(line, col+quote+offset, text[offset:]) {
			return line, col + quote + offset
		}
	}
	return line, col
}

// matches reports whether the file contains the beginning of the text at a line and column.
func (r *reader) matches(line, col int, text []rune) bool {
	source := r.lineText(line)
	for range col - 1 {
		_, size := utf8.DecodeRuneInString(source)
		source = source[size:]
	}
	want := string(text[:min(len(text), 8)])
	if i := strings.IndexByte(want, '\n'); i >= 0 {
		want = want[:i]
	}
	return strings.HasPrefix(source, want)
}

// checkEnv checks the expressions of a table of variables, and passes their references to read.
func (r *reader) checkEnv(n *node, at string, in scope, read func(n *node, at string, refs []ref)) {
	if n == nil || n.kind != mapNode {
		return
	}
	for i, v := range n.vals {
		if !v.isText() || !hasTemplate(v.text) {
			continue
		}
		key := join(at, n.keys[i].text)
		c := r.compile(v.text, in)
		r.complain(v, key, 0, c.faults)
		if read != nil {
			read(v, key, c.refs)
		}
	}
}

// checkGraph checks needs and cycles. It also checks that expressions read only tasks that have ended before.
func (r *reader) checkGraph(w *Workflow, tasks *node) {
	if r.partial || r.full() { // tasks may be missing, so further errors would be misleading
		return
	}
	spec := dag.GraphSpec{Tasks: make([]dag.TaskSpec, len(w.Tasks)), TasksMax: r.tasksMax}
	at := make(map[string]int, len(w.Tasks))
	for i := range w.Tasks {
		spec.Tasks[i] = dag.TaskSpec{Name: w.Tasks[i].Name, Needs: w.Tasks[i].Needs}
		if _, twice := at[w.Tasks[i].Name]; !twice { // the graph also uses the first task with a name
			at[w.Tasks[i].Name] = i
		}
	}
	g, err := dag.NewGraph(spec)
	var faults dag.GraphErrors
	if errors.As(err, &faults) {
		for _, f := range faults {
			r.graphFault(f, tasks, at)
		}
	}
	reads := readCheck{reader: r, graph: g, tasks: keepsOf(w)}
	for i, v := range tasks.vals {
		if r.full() {
			return
		}
		reads.check(i, v, join("tasks", tasks.keys[i].text))
	}
}

// graphFault reports a fault of the graph at its position in the file.
func (r *reader) graphFault(f *dag.GraphError, tasks *node, at map[string]int) {
	switch f.Kind {
	case dag.EmptyGraph, dag.DuplicateTask: // other checks have reported them
		return
	case dag.Cycle:
		i := at[f.Path[0]]
		n := needNode(tasks.keys[i], tasks.vals[i], f.Path[1], 1)
		r.failNode(n, join("tasks", f.Path[0])+".needs", f.Error(), "remove one of these needs")
		return
	}
	i, ok := at[f.Task]
	if !ok {
		r.failNode(tasks, "tasks", f.Error(), "")
		return
	}
	k, v := tasks.keys[i], tasks.vals[i]
	key := join("tasks", f.Task) + ".needs"
	switch f.Kind {
	case dag.UnknownNeed:
		hint := "add the task, or remove the need"
		if near := suggest.Nearest(f.Other, maps.Keys(at)); near != "" {
			hint = "did you mean " + near + "?"
		}
		if f.Other != "" { // an item that is not a text was already refused
			r.failNode(needNode(k, v, f.Other, 1), key, f.Error(), hint)
		}
	case dag.SelfLoop:
		r.failNode(needNode(k, v, f.Task, 1), key, f.Error(), "remove the need")
	case dag.DuplicateNeed:
		r.failNode(needNode(k, v, f.Other, 2), key, f.Error(), "keep one of them")
	default:
		r.failNode(k, key, f.Error(), "")
	}
}

// needNode returns the node of the nth need of a task.
func needNode(k, v *node, name string, nth int) *node {
	needs := v.get("needs")
	if needs == nil {
		return k
	}
	for _, n := range needs.vals {
		if n.text == name {
			if nth--; nth == 0 {
				return n
			}
		}
	}
	return needs
}

// readCheck checks which tasks and values the expressions of tasks read.
type readCheck struct {
	*reader
	graph  *dag.Graph // nil if the graph has faults
	tasks  map[string]keeps
	walked int
}

func (c *readCheck) check(i int, n *node, at string) {
	if n.kind != mapNode {
		return
	}
	handles := false
	if v := n.get("if"); v != nil && v.isText() {
		text := conditionText(v.text)
		from := len([]rune(v.text[:max(strings.Index(v.text, text), 0)]))
		got := c.compile(text, inIf)
		c.complain(v, join(at, "if"), from, got.faults)
		for _, r := range got.refs {
			handles = handles || r.handles()
		}
		c.refs(i, v, join(at, "if"), got.refs, handles)
	}
	read := func(v *node, key string, refs []ref) { c.refs(i, v, key, refs, handles) }
	in := inTask
	if n.get("foreach") != nil {
		in = inForeach
	}
	c.checkEnv(n.get("env"), join(at, "env"), in|secretsToo, read)
	c.checkLogic(i, n, at, in, read)
	c.checkHTTP(n, at, in, read)
	c.checkInput(n, at, in, read)
	c.checkHouse(n, at, in, read)
	c.checkForeach(n, at, read)
	c.inputs(i, n, at)
	if v := n.get("dir"); v != nil && v.isText() && hasTemplate(v.text) {
		got := c.compile(v.text, in)
		c.complain(v, join(at, "dir"), 0, got.faults)
		read(v, join(at, "dir"), got.refs)
	}
}

// refs checks a rule of package dag: a task may read only the tasks that it needs, directly or not. A task
// that can run after a failure may read only the tasks that it needs directly, because only these have
// certainly ended.
func (c *readCheck) refs(i int, n *node, at string, refs []ref, handles bool) {
	if c.graph == nil {
		return
	}
	t := dag.TaskID(i)
	for _, r := range refs {
		id, ok := c.graph.Find(r.task)
		if !r.readsTask() || !ok || c.needs(t, id) {
			continue
		}
		offset := max(strings.Index(n.text, r.String()), 0)
		line, col := c.inside(n, len([]rune(n.text[:offset])))
		name := c.graph.Name(t)
		switch {
		case id == t:
			c.fail(line, col, at, fmt.Sprintf("the condition of task %q reads the task itself", name), "a task has no outputs and no state before it has run")
		case handles && c.ancestor(t, id):
			c.fail(line, col, at, fmt.Sprintf("task %q reads %q but does not need it directly, and because of its if it may run before %q has ended", name, r.task, r.task),
				fmt.Sprintf("add %s to its needs", r.task))
		case handles || !c.ancestor(t, id):
			c.fail(line, col, at, fmt.Sprintf("task %q reads %q but does not need it, so it may run first", name, r.task),
				fmt.Sprintf("add %s to its needs", r.task))
		}
	}
}

func (c *readCheck) needs(t, need dag.TaskID) bool {
	for _, n := range c.graph.Needs(t) {
		if n == need {
			return true
		}
	}
	return false
}

// stepsMax bounds the steps of the search over all tasks. If the search reaches the bound, an expression that
// reads a task counts as a fault, as in package dag.
const stepsMax = 20_000_000

func (c *readCheck) ancestor(t, of dag.TaskID) bool {
	seen := map[dag.TaskID]bool{t: true}
	stack := []dag.TaskID{t}
	for len(stack) > 0 && c.walked < stepsMax {
		c.walked++
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, need := range c.graph.Needs(at) {
			if need == of {
				return true
			}
			if !seen[need] {
				seen[need] = true
				stack = append(stack, need)
			}
		}
	}
	return false
}
