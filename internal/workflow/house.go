package workflow

import (
	"iter"
	"slices"

	"skein.dev/skein/internal/dag"
)

// house is a kind of task that is part of this program. A task names it by a key of its own, such as
// `name: {…}`. The value of the key is the input of the kind.
type house struct {
	name  string // the name of the key and of the kind in package kind
	doc   string
	shape func() *shape
	// keys are the keys of notOfKinds that a task of this kind may have.
	keys []string
	// exits reports whether retry.on_exit may name exit codes of the kind.
	exits bool
	// plain are the keys of the input that must not contain ${{ }}, because their values are code.
	plain []string
	// outputs returns the outputs that every task with this input has. If it is nil, the task declares its
	// outputs.
	outputs func(n *node) []Output
	// artifacts returns the files that the kind makes and that are stored as artifacts. It is nil if there
	// are none.
	artifacts func(n *node) []string
	// check reports faults that the shape does not find. It is nil if there are no further checks.
	check func(r *reader, n *node, at string)
	// given returns the input. It is nil if the input is the value of the key.
	given func(r *reader, n *node, at string) []Given
	// boxed says that the kind itself isolates the command of the task. The environment of the task is then
	// part of the input, and the folder is always a fresh one.
	boxed bool
}

// houses are the kinds of this program.
var houses = []house{containerHouse(), hadoopHouse(), pythonHouse(), sparkHouse(), sqlHouse(), sshHouse()}

// HouseKinds yields the names of the kinds of this program.
func HouseKinds() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range houses {
			if !yield(houses[i].name) {
				return
			}
		}
	}
}

// houseKeys returns the keys of the kinds of this program.
func houseKeys() (keys []key) {
	for i := range houses {
		keys = append(keys, key{name: houses[i].name, doc: houses[i].doc, shape: houses[i].shape()})
	}
	return keys
}

// houseOf returns the kind of this program that a task has, or nil if there is none.
func houseOf(n *node) *house {
	for i := range houses {
		if n.get(houses[i].name) != nil {
			return &houses[i]
		}
	}
	return nil
}

// house reads a task of a kind of this program.
func (r *reader) house(t *Task, n *node, at string) {
	h := houseOf(n)
	if h == nil || n.get(h.name).kind != mapNode {
		return
	}
	in := n.get(h.name)
	t.Kind, t.House, t.With = h.name, true, given(in)
	if h.given != nil {
		t.With = h.given(r, in, join(at, h.name))
	}
	for _, key := range n.keys {
		switch {
		case slices.Contains(notOfKinds, key.text) && !slices.Contains(h.keys, key.text):
			r.failNode(key, join(at, key.text), key.text+" does not belong to "+h.name, "remove it, or use run")
		case key.text == "outputs" && h.outputs != nil:
			r.failNode(key, join(at, key.text), "the outputs of "+h.name+" are not declared", "remove outputs")
		}
	}
	if codes := n.get("retry").get("on_exit"); codes != nil && !h.exits {
		r.failNode(codes, join(at, "retry.on_exit"), h.name+" has no exit codes of its own", "remove on_exit")
	}
	for _, name := range h.plain {
		if v := in.get(name); v != nil && h.given == nil {
			r.noTemplates(v, join(join(at, h.name), name))
		}
	}
	if h.outputs != nil {
		t.Outputs = h.outputs(in)
	}
	if h.artifacts != nil {
		t.Artifacts = append(t.Artifacts, h.artifacts(in)...)
	}
	if h.check != nil {
		h.check(r, in, join(at, h.name))
	}
}

// Boxed reports whether the kind of a task itself isolates the command, for example in a container. The
// folder of such a task is always a fresh one, and never a folder of the machine.
func (t *Task) Boxed() bool {
	return t.House && slices.ContainsFunc(houses, func(h house) bool { return h.name == t.Kind && h.boxed })
}

// decidesOutputs reports whether the kind of the task, and not its author, determines the outputs.
func (t *Task) decidesOutputs() bool {
	return t.House && slices.ContainsFunc(houses, func(h house) bool { return h.name == t.Kind && h.outputs != nil })
}

// exits reports whether a task of a kind has exit codes that retry.on_exit can name.
func (t *Task) exits() bool {
	return t.House && slices.ContainsFunc(houses, func(h house) bool { return h.name == t.Kind && h.exits })
}

// PlaceKind returns the kind in the placement of the task, or "" if the task has no kind.
func (t *Task) PlaceKind() string {
	if t.House {
		return dag.HousePrefix + t.Kind
	}
	return t.Kind
}

// checkHouse checks the expressions in the input of a kind of this program.
func (c *readCheck) checkHouse(n *node, at string, in scope, read func(n *node, at string, refs []ref)) {
	h := houseOf(n)
	if h == nil || n.get(h.name).kind != mapNode {
		return
	}
	v := n.get(h.name)
	for i, k := range v.keys {
		if !slices.Contains(h.plain, k.text) {
			c.checkTexts(v.vals[i], join(join(at, h.name), k.text), in|secretsToo, read)
		}
	}
}
