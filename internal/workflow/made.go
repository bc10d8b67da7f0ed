package workflow

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"skein.dev/skein/internal/dag"
)

// A task may consist of tasks that an expression gives at run time, for example from the output of an earlier
// task or of a task function that plans. These tasks are written in the grammar of this package. They form a
// separate workflow, which the task calls.

// Made is a task that consists of tasks made at run time.
type Made struct {
	From string `json:"from"` // an expression
	// Head holds those parts of the workflow that also apply to the made tasks: parameters, env, defaults.
	Head json.RawMessage `json:"head,omitempty"`
}

// Bounds of tasks that are made at run time.
const (
	MadeTasksMax = 10_000
	MadeBytesMax = 1 << 20
)

// headKeys are the keys of Made.Head.
var headKeys = []string{"params", "env", "defaults", "on_failure"}

// made reads the key "tasks" of a task that makes tasks at run time.
func (r *reader) made(t *Task, n *node) {
	text := n.get("tasks").str()
	if text == "" {
		return // another check has reported the fault
	}
	t.Made = &Made{From: text}
	if raw, err := marshal(r.head); err == nil && len(r.head) > 0 {
		t.Made.Head = raw
	}
}

// headOf returns the parts of a workflow that also apply to tasks that are made at run time.
func headOf(n *node) map[string]any {
	head := map[string]any{}
	for _, key := range headKeys {
		if v := n.get(key); v != nil {
			head[key] = v.value()
		}
	}
	return head
}

// headClass replaces the resource class of the defaults by the present values of the class. So tasks that are
// made later use as much as the tasks of the version, even if the class has changed since.
func (r *reader) headClass(d *Defaults) {
	given, ok := r.head["defaults"].(map[string]any)
	if !ok || len(r.named) == 0 || d.Resources == nil {
		return
	}
	takes := map[string]any{}
	if cpu := d.Resources.CPU; cpu > 0 {
		takes["cpu"] = json.Number(strconv.FormatFloat(float64(cpu)/1000, 'f', -1, 64))
	}
	if memory := d.Resources.Memory; memory > 0 {
		takes["memory"] = strconv.FormatInt(memory, 10)
	}
	given["resources"] = takes
}

// MadeName returns the name of the workflow that a task makes. parent must be unique.
func (w *Workflow) MadeName(task int, parent string) string {
	sum := sha256.Sum256([]byte(parent + "/" + w.Tasks[task].Name))
	name := w.Name
	if len(name) > 50 {
		name = name[:50]
	}
	return strings.TrimRight(name, "-") + "-" + hex.EncodeToString(sum[:4])
}

// MadeSource evaluates the expression for the tasks of which a task consists. It returns them as a workflow
// file with the given name, or nil if there are none.
func (w *Workflow) MadeSource(task int, in Inputs, name string) ([]byte, error) {
	t := &w.Tasks[task]
	compiled, err := w.exprs.get(foreachText(t.Made.From), inTask)
	if err != nil {
		return nil, err
	}
	from := w.valuesOf(&in)
	v, err := compiled.value(from.lookup)
	if err != nil {
		return nil, fmt.Errorf("tasks: %w", err)
	}
	raw, err := marshal(v)
	if err != nil {
		return nil, err
	}
	if len(raw) > MadeBytesMax {
		return nil, fmt.Errorf("tasks: its tasks have %s, the limit is %s: let a task have foreach", sizeText(len(raw)), sizeText(MadeBytesMax))
	}
	tasks, err := madeTasks(raw)
	if err != nil || len(tasks) == 0 {
		return nil, err
	}
	var b bytes.Buffer
	line := func(key string, value any) {
		text, bad := marshal(value)
		err = errors.Join(err, bad)
		fmt.Fprintf(&b, "%s: %s\n", key, text)
	}
	line("namespace", w.Namespace)
	line("name", name)
	line("description", fmt.Sprintf("Made at run time by task %s of workflow %s/%s.", t.Name, w.Namespace, w.Name))
	var head map[string]json.RawMessage
	if len(t.Made.Head) > 0 {
		if err := json.Unmarshal(t.Made.Head, &head); err != nil {
			return nil, fmt.Errorf("the keys for all tasks: %w", err)
		}
	}
	for _, key := range headKeys {
		if v, ok := head[key]; ok {
			line(key, v)
		}
	}
	b.WriteString("tasks:\n")
	for _, m := range tasks {
		name, bad := marshal(m.name)
		err = errors.Join(err, bad)
		fmt.Fprintf(&b, "  %s: %s\n", name, m.text)
	}
	return b.Bytes(), err
}

// madeTask is a task with its text, which is JSON.
type madeTask struct {
	name string
	text json.RawMessage
}

// madeTasks reads a list of tasks that have names, or a mapping from names to tasks.
func madeTasks(raw json.RawMessage) (all []madeTask, err error) {
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		dec := json.NewDecoder(bytes.NewReader(raw)) // a decoder keeps the order of the input
		if open, err := dec.Token(); err != nil || open != json.Delim('{') {
			return nil, fmt.Errorf("tasks: %.60s is neither a list of tasks nor a mapping of tasks by name", raw)
		}
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, fmt.Errorf("tasks: %w", err)
			}
			m := madeTask{name: key.(string)}
			if err := dec.Decode(&m.text); err != nil {
				return nil, fmt.Errorf("tasks.%s: %w", m.name, err)
			}
			all = append(all, m)
		}
	}
	for i, fields := range list {
		m := madeTask{}
		if json.Unmarshal(fields["name"], &m.name) != nil || m.name == "" {
			return nil, fmt.Errorf("tasks[%d] has no name; write {\"name\": \"a\", \"run\": \"echo a\"}", i)
		}
		delete(fields, "name")
		if m.text, err = marshal(fields); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	if len(all) > MadeTasksMax {
		return nil, fmt.Errorf("tasks: it has %d tasks, the limit is %d: let a task have foreach", len(all), MadeTasksMax)
	}
	return all, nil
}

// madeFaultsShown bounds how many faulty tasks the message names.
const madeFaultsShown = 3

// ParseMade checks the result of MadeSource. own is Options.Classes.
func ParseMade(source []byte, own func(namespace string) map[string]dag.Need) (*Workflow, error) {
	all, faults := Parse(source, Options{File: "tasks", TasksMax: MadeTasksMax, Classes: own})
	if len(faults) > 0 {
		var texts []string
		for i := range faults[:min(len(faults), madeFaultsShown)] {
			f := &faults[i]
			text := f.Message
			if f.Key != "" && !strings.Contains(f.Message, f.Key) {
				text = f.Key + ": " + text
			}
			if f.Hint != "" {
				text += " (" + f.Hint + ")"
			}
			texts = append(texts, text)
		}
		if more := len(faults) - len(texts); more > 0 {
			texts = append(texts, fmt.Sprintf("and %d more", more))
		}
		return nil, fmt.Errorf("its tasks cannot be run: %s", strings.Join(texts, "; "))
	}
	all[0].Emitted = true
	return all[0], nil
}

// checkMade checks the expression.
func (c *readCheck) checkMade(v *node, at string, read func(n *node, at string, refs []ref)) {
	if v == nil || !v.isText() {
		return
	}
	got := c.compile(foreachText(v.text), inTask)
	c.complain(v, at, 0, got.faults)
	read(v, at, got.refs)
}
