package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Workers register functions for kinds of tasks, and get the tasks of these kinds. A function gets the task's
// input, a JSON object. Extensions add kinds whose tasks run as processes. A workflow file does not say which
// of the two a kind is. So keys about processes are allowed in the file, and are refused when such a task is
// assigned to a function.

// inputBytesMax bounds the input of an attempt, after its expressions are evaluated.
const inputBytesMax = 256 << 10

// notOfKinds are the keys that have no meaning for a task function.
var notOfKinds = []string{"env", "dir", "artifacts", "inputs", "access"}

// kind reads a task of a kind.
func (r *reader) kind(t *Task, n *node, at string) {
	k := n.get("kind")
	if k == nil {
		return
	}
	t.Kind, t.With = k.str(), given(n.get("with"))
	r.suits(t, k, n.get("with"), at)
	if codes := n.get("retry").get("on_exit"); codes != nil {
		r.failNode(codes, join(at, "retry.on_exit"), "a task of a kind has no exit code", "remove on_exit; the task function decides which errors are not retried")
	}
}

// suits checks the input of a kind that is known here.
func (r *reader) suits(t *Task, k, with *node, at string) {
	if r.opt.Input == nil || with != nil && with.kind != mapNode {
		return
	}
	all := make(map[string]json.RawMessage, len(t.With))
	for _, g := range t.With {
		all[g.Name] = g.Value
	}
	raw, err := marshal(all)
	if err != nil {
		return
	}
	if err := r.opt.Input(t.Kind, raw); err != nil {
		if with == nil {
			with = k
		}
		r.failNode(with, join(at, "with"), "the input does not suit kind "+t.Kind+": "+err.Error(), "skein extension list shows the folder with the declaration of the kind")
	}
}

// checkInput checks the expressions of the input of a kind, at any depth.
func (c *readCheck) checkInput(n *node, at string, in scope, read func(n *node, at string, refs []ref)) {
	if n.get("kind") == nil {
		return
	}
	if with := n.get("with"); with != nil {
		c.checkTexts(with, join(at, "with"), in|secretsToo, read)
	}
}

// checkTexts checks the expressions in the texts of a value, at any depth.
func (c *readCheck) checkTexts(v *node, at string, in scope, read func(n *node, at string, refs []ref)) {
	if v.isText() && hasTemplate(v.text) {
		got := c.compile(v.text, in)
		c.complain(v, at, 0, got.faults)
		read(v, at, got.refs)
	}
	for i, part := range v.vals {
		if v.kind == mapNode {
			c.checkTexts(part, join(at, v.keys[i].text), in, read)
		} else {
			c.checkTexts(part, fmt.Sprintf("%s[%d]", at, i), in, read)
		}
	}
}

// input evaluates the input of the task function of a kind.
func (w *Workflow) input(t *Task, from *values) (json.RawMessage, error) {
	return w.object("with", t.With, "pass large values by reference", t.foreachScope()|secretsToo, from)
}

// object evaluates the values of a key of a task, and returns them as one JSON object. If the object is too
// large, the error contains remedy.
func (w *Workflow) object(key string, given []Given, remedy string, in scope, from *values) (json.RawMessage, error) {
	all := make(map[string]any, len(given))
	for _, g := range given {
		v, err := exact(g.Value)
		if err == nil {
			v, err = w.evaluated(v, in, from)
		}
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", key, g.Name, err)
		}
		all[g.Name] = v
	}
	raw, err := marshal(all)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", key, err)
	case len(raw) > inputBytesMax:
		return nil, errors.New(key + " is larger than " + sizeText(inputBytesMax) + ": " + remedy)
	}
	return raw, nil
}

// evaluated returns a value with the expressions in its texts evaluated. A text that consists of one
// expression becomes the value of this expression; any other text stays a text.
func (w *Workflow) evaluated(v any, in scope, from *values) (any, error) {
	var err error
	switch v := v.(type) {
	case string:
		if !hasTemplate(v) {
			return v, nil
		}
		t, err := w.exprs.get(v, in)
		if err != nil {
			return nil, err
		}
		return t.value(from.lookup)
	case []any:
		for i := range v {
			if v[i], err = w.evaluated(v[i], in, from); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = w.evaluated(v[k], in, from); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// exact decodes JSON and keeps numbers as they are written.
func exact(raw json.RawMessage) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return v, dec.Decode(&v)
}

// ProcessKeys returns the keys of a task that only a process can obey.
func (t *Task) ProcessKeys() (keys []string) {
	for _, k := range notOfKinds {
		if has := map[string]bool{"env": len(t.Env) > 0, "dir": t.Dir != "", "artifacts": len(t.Artifacts) > 0,
			"inputs": len(t.Inputs) > 0, "access": t.Access != nil}; has[k] {
			keys = append(keys, k)
		}
	}
	return keys
}

// inputTexts calls add for every text in a value.
func inputTexts(raw json.RawMessage, add func(string)) {
	if !bytes.Contains(raw, []byte("${{")) {
		return
	}
	v, err := exact(raw)
	if err != nil {
		return
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			add(v)
		case []any:
			for _, part := range v {
				walk(part)
			}
		case map[string]any:
			for _, part := range v {
				walk(part)
			}
		}
	}
	walk(v)
}
