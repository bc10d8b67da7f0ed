package workflow

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/glob"
	"skein.dev/skein/internal/suggest"
)

// The inputs of a task are files that earlier tasks have stored as artifacts. They are put into the working
// folder of the task before it starts.

// Input names files that a task gets from another task.
type Input struct {
	Task string `json:"task"` // the task that stores the files
	Name string `json:"name"` // the name of the file, or a pattern
	// To is the name in the working folder, or a folder if it ends with a slash; "" means the same name.
	To string `json:"to,omitempty"`
}

// inputsMax bounds the names and patterns of one task.
const inputsMax = 100

var inputTask = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

func inputs() *shape {
	one := scalar(`TASK/NAME, such as validate/report.html or "validate/out/**"`, map[string]any{"type": "string", "pattern": "^[A-Za-z0-9_-]{1,100}/."}, takesInput)
	to := scalar(`a name such as data/in.html, or a folder such as data/, inside the working folder`, map[string]any{"type": "string"}, takesPlace)
	return forms("a list of TASK/NAME, or a mapping such as {data/in.html: validate/report.html}", one, list("a list of TASK/NAME", one),
		table("a mapping such as {data/in.html: validate/report.html}", to, one))
}

func takesInput(n *node) bool {
	task, name, ok := strings.Cut(n.text, "/")
	return n.isText() && ok && inputTask.MatchString(task) && isInside(name) && path.Clean(name) != "." && validGlob(name) && !hasTemplate(name)
}

func takesPlace(n *node) bool {
	return n.kind == scalarNode && isInside(n.text) && !hasTemplate(n.text) && (path.Clean(n.text) != "." || strings.HasSuffix(n.text, "/"))
}

func inputsOf(n *node) []Input {
	if n == nil {
		return nil
	}
	var all []Input
	for i, v := range inputNodes(n) {
		task, name, _ := strings.Cut(v.str(), "/")
		in := Input{Task: task, Name: path.Clean(name)}
		if n.kind == mapNode {
			in.To = cleanTo(n.keys[i].text)
		}
		all = append(all, in)
	}
	return all
}

func cleanTo(to string) string {
	clean := path.Clean(to)
	if strings.HasSuffix(to, "/") {
		clean += "/"
	}
	return clean
}

func inputNodes(n *node) []*node {
	if n.kind == scalarNode {
		return []*node{n}
	}
	return n.vals
}

// At returns the path of another task's file in the working folder. instance is the name of the instance that
// has stored the file, or "" if that task has no foreach.
func (in *Input) At(instance, file string) string {
	switch {
	case in.To == "":
		return path.Join(instance, file)
	case strings.HasSuffix(in.To, "/"):
		return path.Join(in.To, instance, file)
	}
	return in.To
}

// inputs checks the inputs of a task against the tasks before it.
func (c *readCheck) inputs(i int, n *node, at string) {
	v := n.get("inputs")
	if v == nil {
		return
	}
	at = join(at, "inputs")
	nodes := inputNodes(v)
	if len(nodes) > inputsMax {
		c.failNode(v, at, fmt.Sprintf("%d names and patterns are more than the %d that a task may have", len(nodes), inputsMax), "use patterns")
		return
	}
	taken := map[string]bool{}
	for k, in := range inputsOf(v) {
		if c.full() {
			return
		}
		where := nodes[k]
		if !takesInput(where) || v.kind == mapNode && !takesPlace(v.keys[k]) { // an earlier error was reported
			continue
		}
		if fault, hint := c.input(i, &in); fault != "" {
			c.failNode(where, at, fault, hint)
			continue
		}
		if of := c.tasks[in.Task]; of.each && in.To != "" && !strings.HasSuffix(in.To, "/") {
			c.failNode(v.keys[k], at, fmt.Sprintf("task %s has instances, and the file of each would have the path %s", in.Task, in.To), "name a folder for them: "+in.To+"/")
		} else if glob.Wild(in.Name) {
			if in.To != "" && !strings.HasSuffix(in.To, "/") {
				c.failNode(v.keys[k], at, fmt.Sprintf("%s can be several files, and each would have the path %s", in.Name, in.To), "name a folder for them: "+in.To+"/")
			}
		} else if !of.each {
			c.meets(where, at, in.At("", in.Name), taken)
		}
	}
}

// meets reports a name that another input already has, or that another input uses as a folder.
func (c *readCheck) meets(n *node, at, name string, taken map[string]bool) {
	clash := ""
	for other := range taken {
		if other == name || strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/") {
			clash = max(clash, other)
		}
	}
	taken[name] = true
	switch {
	case clash == name:
		c.failNode(n, at, "two inputs would have the path "+name, "give one of them another name, such as {other/"+name+": "+n.text+"}")
	case clash != "":
		c.failNode(n, at, fmt.Sprintf("the inputs %s and %s need the same name for a file and a folder", clash, name), "give one of them another name")
	}
}

// keeps holds what a task stores as artifacts.
type keeps struct {
	artifacts []string
	each      bool // whether the task has instances
}

func keepsOf(w *Workflow) map[string]keeps {
	all := make(map[string]keeps, len(w.Tasks))
	for i := range w.Tasks {
		all[w.Tasks[i].Name] = keeps{w.Tasks[i].Artifacts, len(w.Tasks[i].Foreach) > 0}
	}
	return all
}

// input returns the fault of an input and its remedy, or "".
func (c *readCheck) input(i int, in *Input) (fault, hint string) {
	if c.graph == nil { // the fault of the graph was already reported
		return "", ""
	}
	t := dag.TaskID(i)
	self := c.graph.Name(t)
	of, known := c.tasks[in.Task]
	id, _ := c.graph.Find(in.Task)
	switch {
	case !known:
		hint = "the part before the first slash is the task that keeps the file"
		if near := suggest.Nearest(in.Task, maps.Keys(c.tasks)); near != "" {
			hint = "did you mean " + near + "?"
		}
		return fmt.Sprintf("there is no task %q to get files of", in.Task), hint
	case id == t:
		return fmt.Sprintf("task %q gets files of itself", self), "remove it: a task has the files that it writes"
	case !c.needs(t, id) && !c.ancestor(t, id):
		return fmt.Sprintf("task %q gets files of %q but does not need it, so it may run first", self, in.Task), fmt.Sprintf("add %s to its needs", in.Task)
	case len(of.artifacts) == 0:
		return fmt.Sprintf("task %q keeps no artifacts", in.Task), fmt.Sprintf("give it artifacts: [%q]", in.Name)
	}
	for _, kept := range of.artifacts {
		if glob.Meet(kept, in.Name) {
			return "", ""
		}
	}
	return fmt.Sprintf("task %q keeps no artifact %s; it keeps %s", in.Task, quoteShort(in.Name), quoteShort(strings.Join(of.artifacts, ", "))),
		fmt.Sprintf("add %s to its artifacts, or name what it keeps", quoteShort(in.Name))
}
