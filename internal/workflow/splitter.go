package workflow

import (
	"fmt"
	"slices"
)

// A custom splitter is a kind whose handler makes the tasks of a run. A workflow that names one has no tasks
// in its file, but two in its graph: split, which a worker that has registered the kind executes, and work,
// which consists of the tasks that split has given as its output.

// The names of the tasks of a workflow with a splitter, and of the output that passes the tasks on.
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
	kind.shape = keyOrDash("the name of a kind, such as vm.create: letters, digits, _, . and -") // a splitter is a function
	kind.must, with.doc = true, "Further input of the splitter. Texts may hold ${{ }}."
	keys := []key{kind, with}
	for _, k := range splitKeys {
		keys = append(keys, *task.find(k))
	}
	is := "default, the name of a kind, or a mapping such as {kind: fleet.plan, retry: {max: 3}}"
	return forms(is, name, object(is, keys...))
}

// splits reports whether a splitter makes the tasks of a workflow.
func splits(n *node) bool {
	s := n.get("splitter")
	return s != nil && !s.isNull() && (s.kind == mapNode || s.text != "default")
}

// split gives the tasks of a workflow that has a splitter.
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
