package workflow

import (
	"fmt"
	"slices"
)

// A custom splitter is a kind whose task function makes the tasks of a run. A workflow that names a splitter
// has no tasks in its file, and two tasks in its graph. A worker that has registered the kind executes the
// first task, split. The second task, work, consists of the tasks that split has given as its output.

// The names of the tasks of a workflow with a splitter, and the name of the output that contains the tasks.
const (
	splitTask  = "split"
	workTask   = "work"
	splitTasks = "tasks"
)

// splitKeys are the keys of tasks that a splitter may have, too.
var splitKeys = []string{"timeout", "retry", "on_timeout", "on_lost", "start_deadline", "priority", "group", "labels", "node", "resources", "queue"}

func splitter() *shape {
	name := keyOrDash("default, or the name of a kind that makes the tasks")
	task := taskShape()
	kind, with := *task.find("kind"), *task.find("with")
	// a splitter is always a task function
	kind.shape = keyOrDash("the name of a kind, such as vm.create: letters, digits, _, . and -")
	kind.must, with.doc = true, "Further input of the splitter. Texts may hold ${{ }}."
	keys := []key{kind, with}
	for _, k := range splitKeys {
		keys = append(keys, *task.find(k))
	}
	is := "default, the name of a kind, or a mapping such as {kind: fleet.plan, retry: {max: 3}}"
	return forms(is, name, object(is, keys...))
}

// splits reports whether a workflow has a splitter.
func splits(n *node) bool {
	s := n.get("splitter")
	return s != nil && !s.isNull() && (s.kind == mapNode || s.text != "default")
}

// split makes the two tasks of a workflow that has a splitter.
func (r *reader) split(n *node) *node {
	s := n.get("splitter")
	if tasks := n.get("tasks"); tasks != nil {
		i := slices.Index(n.vals, tasks)
		r.failNode(n.keys[i], "tasks", fmt.Sprintf("the workflow has both the splitter %s, which makes its tasks, and the key tasks", quoteShort(kindOf(s))), "remove the splitter or the tasks; a task can also list further tasks in its outputs: tasks: ${{ tasks.NAME.outputs.tasks }}")
		return tasks
	}
	at := func(text string) *node { return &node{kind: scalarNode, text: text, line: s.line, col: s.col} }
	table := func(pairs ...any) *node {
		m := &node{kind: mapNode, line: s.line, col: s.col}
		for i := 0; i < len(pairs); i += 2 {
			m.keys, m.vals = append(m.keys, at(pairs[i].(string))), append(m.vals, pairs[i+1].(*node))
		}
		return m
	}
	input := table("params", at("${{ params }}"), "version", at("${{ run.version }}"))
	if with := s.get("with"); with != nil {
		input.keys, input.vals = append(input.keys, at("with")), append(input.vals, with)
	}
	split := table("kind", at(kindOf(s)), "with", input, "outputs", table(splitTasks, at(string(JSON))))
	for _, key := range splitKeys {
		if v := s.get(key); v != nil {
			split.keys, split.vals = append(split.keys, at(key)), append(split.vals, v)
		}
	}
	return table(splitTask, split, workTask, table("needs", at(splitTask), "tasks", at("${{ tasks."+splitTask+".outputs."+splitTasks+" }}")))
}

// kindOf returns the kind of a splitter.
func kindOf(s *node) string {
	if s.kind == mapNode {
		return s.get("kind").str()
	}
	return s.text
}
