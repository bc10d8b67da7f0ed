package workflow

import (
	"fmt"
	"slices"
	"strings"

	"skein.dev/skein/internal/dag"
)

// notLogical are the keys that have no meaning for a task that no worker runs.
var notLogical = []string{"env", "dir", "retry", "kill_grace", "on_lost", "start_deadline", "queue", "artifacts", "inputs", "access"}

// logic reads the action of a task that no worker runs.
func (r *reader) logic(t *Task, n *node, at string) {
	switch {
	case n.get("wait") != nil:
		r.wait(t, n.get("wait"), join(at, "wait"))
	case n.get("dependent") != nil:
		r.dependent(t, n, join(at, "dependent"))
	case n.get("notify") != nil:
		r.notify(t, n.get("notify"), join(at, "notify"))
	case n.get("approval") != nil:
		r.approval(t, n, join(at, "approval"))
	case n.get("switch") != nil:
		r.choice(t, n.get("switch"), join(at, "switch"))
	case n.get("workflow") != nil:
		t.Call = &Call{Workflow: n.get("workflow").str(), With: given(n.get("with"))}
		r.nestedTemplates(n.get("with"), join(at, "with"))
		if t.Outputs = outputsOf(n.get("outputs")); t.Call.Workflow == "" {
			t.Call = nil
		}
	case n.get("tasks") != nil:
		r.made(t, n)
	}
	if !t.Logical() {
		return
	}
	for _, k := range n.keys {
		wrong := slices.Contains(notLogical, k.text) || k.text == "outputs" && t.Call == nil && t.Made == nil ||
			(k.text == "timeout" || k.text == "on_timeout") && (t.Wait != nil && t.Wait.Condition == "" && t.Wait.Event == nil || len(t.Switch) > 0)
		if wrong {
			r.failNode(k, join(at, k.text), k.text+" does not belong to a task that runs on no worker", "remove the key, or move it to a task with run")
		}
	}
}

func (r *reader) nestedTemplates(n *node, at string) {
	if n != nil && n.kind == mapNode {
		for i, v := range n.vals {
			if v.kind != scalarNode && holdsTemplate(v) {
				r.failNode(v, join(at, n.keys[i].text), "${{ }} is evaluated only in a text of its own, not inside a list or a mapping",
					`make one expression of it, such as "${{ {'day': params.day} }}"`)
			}
		}
	}
}

func (r *reader) wait(t *Task, n *node, at string) {
	t.Wait = &Wait{}
	if n.kind == scalarNode {
		if t.Wait.For = durationOf(n); t.Wait.For <= 0 {
			t.Wait = nil // another check has reported the fault
		}
		return
	}
	if ev := n.get("event"); ev != nil {
		r.waitEvent(t, n, ev, at)
		return
	}
	until, cond := n.get("until"), n.get("condition")
	if cond != nil || until == nil {
		r.waitCondition(t, n, at)
		return
	}
	if every := n.get("every"); every != nil {
		r.failNode(every, join(at, "every"), "the key every belongs to the key condition", "remove it: an instant needs no checks")
	}
	if t.Wait.Until = until.str(); t.Wait.Until == "" {
		t.Wait = nil
		return
	}
	if !hasTemplate(t.Wait.Until) {
		if _, err := parseUntil(t.Wait.Until); err != nil {
			r.failNode(until, join(at, "until"), err.Error(), "give an instant with its offset, or an expression such as ${{ params.begin }}")
		}
	}
}

func (r *reader) approval(t *Task, n *node, at string) {
	a := n.get("approval")
	t.Approval = &Approval{By: texts(a.get("by")), Message: a.get("message").str()}
	if four := a.get("four_eyes"); four != nil {
		t.Approval.FourEyes, _ = four.bool()
	}
	var asked []Output
	t.Approval.Form, asked = r.form(a.get("form"), join(at, "form"))
	t.Outputs = slices.Concat(approvalOutputs, asked)
	r.unique(a.get("by"), join(at, "by"))
	if limit := a.get("timeout"); limit != nil {
		if n.get("timeout") != nil {
			r.failNode(limit, join(at, "timeout"), "the task has a timeout, too", "keep one of them")
		}
		t.Timeout = durationAt(limit)
	}
}

func (r *reader) choice(t *Task, n *node, at string) {
	if n.kind != listNode {
		return
	}
	t.Outputs = switchOutputs
	for i, b := range n.vals {
		here := fmt.Sprintf("%s[%d]", at, i)
		cond, then, other := b.get("if"), b.get("then"), b.get("else")
		switch {
		case b.kind != mapNode:
			continue
		case other != nil && (cond != nil || then != nil):
			r.failNode(other, here, "a branch has either if and then, or only else", "make two branches of it")
		case other != nil && i < len(n.vals)-1:
			r.failNode(other, here, "branches after else are never chosen", "put else last")
		case other == nil && (cond == nil || then == nil):
			r.failNode(b, here, "a branch needs if and then", "write {if: EXPRESSION, then: TASK} or {else: TASK}")
		case other != nil:
			t.Switch = append(t.Switch, Branch{Then: other.str()})
		default:
			t.Switch = append(t.Switch, Branch{If: conditionText(cond.str()), Then: then.str()})
		}
	}
}

// given reads the parameters of a call.
func given(n *node) []Given {
	if n == nil || n.kind != mapNode {
		return nil
	}
	var all []Given
	for i, k := range n.keys {
		raw, err := marshal(n.vals[i].value())
		if err == nil {
			all = append(all, Given{Name: k.text, Value: raw})
		}
	}
	return all
}

// checkLogic checks what the expressions of a logical task read, and the targets of a switch.
func (c *readCheck) checkLogic(i int, n *node, at string, in scope, read func(n *node, at string, refs []ref)) {
	text := func(v *node, key string) {
		if v != nil && v.isText() && hasTemplate(v.text) {
			got := c.compile(v.text, in)
			c.complain(v, key, 0, got.faults)
			read(v, key, got.refs)
		}
	}
	if w := n.get("wait"); w != nil && w.kind == mapNode {
		c.checkWaitCondition(w, join(join(at, "wait"), "condition"), read)
		c.checkWaitEvent(w.get("event"), join(join(at, "wait"), "event"), read)
		text(w.get("until"), join(join(at, "wait"), "until"))
	}
	text(n.get("notify").get("text"), join(join(at, "notify"), "text"))
	if with := n.get("with"); with != nil && with.kind == mapNode && n.get("kind") == nil {
		for j, v := range with.vals {
			text(v, join(join(at, "with"), with.keys[j].text))
		}
	}
	c.checkMade(n.get("tasks"), join(at, "tasks"), read)
	sw := n.get("switch")
	if sw == nil || sw.kind != listNode {
		return
	}
	for j, b := range sw.vals {
		here := fmt.Sprintf("%s[%d]", join(at, "switch"), j)
		if v := b.get("if"); v != nil && v.isText() {
			cond := conditionText(v.text)
			from := len([]rune(v.text[:max(strings.Index(v.text, cond), 0)]))
			got := c.compile(cond, inIf)
			c.complain(v, join(here, "if"), from, got.faults)
			read(v, join(here, "if"), got.refs)
		}
		for _, key := range []string{"then", "else"} {
			if v := b.get(key); v != nil && v.isText() {
				c.leads(i, v, join(here, key))
			}
		}
	}
}

// leads reports the tasks that a switch chooses although they do not need the switch.
func (c *readCheck) leads(i int, v *node, at string) {
	if c.graph == nil {
		return
	}
	s := c.graph.Name(dag.TaskID(i))
	t, ok := c.graph.Find(v.text)
	switch {
	case !ok:
		c.failNode(v, at, "there is no task "+quoteShort(v.text), c.declared.nearTask(v.text))
	case !c.needs(t, dag.TaskID(i)):
		c.failNode(v, at, fmt.Sprintf("task %q does not need the switch %q, so it would not wait for it", v.text, s), fmt.Sprintf("add %s to the needs of %s", s, v.text))
	}
}
