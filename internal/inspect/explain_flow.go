package inspect

import (
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Absence says since when the source of a trigger does not reach the other system, and why. since is 0 if the
// source reaches it, or if no node says otherwise.
type Absence func(t *store.Trigger) (since dag.Micros, why string)

// Idle returns the reasons why a workflow starts no runs. What holds a trigger up comes first, before the
// instants that are to come.
func Idle(w *store.Workflow, ts []store.Trigger, away Absence) (all []Reason) {
	name := w.Namespace + "/" + w.Name
	if w.Namespace == "default" {
		name = w.Name
	}
	if w.State == store.WorkflowPaused {
		all = append(all, Reason{Kind: "paused", Code: "workflow_paused", What: "the workflow is paused: its triggers start no runs",
			Unblocks: "skein workflow resume " + name, Args: args{"workflow": name}, Actions: []Action{{Verb: "resume", Workflow: w}}})
	}
	if len(ts) == 0 {
		all = append(all, Reason{Kind: "trigger", Code: "no_trigger", Unblocks: "skein run " + name,
			What: "the workflow has no triggers: it runs when a person, a program or another workflow starts it"})
	}
	var due []Reason
	for i := range ts {
		switch r := idleTrigger(w, &ts[i], name+"/"+ts[i].Name, away); {
		case r.Code == "":
		case r.Expected != 0:
			due = append(due, r)
		default:
			all = append(all, r)
		}
	}
	return append(all, due...)
}

// idleTrigger returns the reason why a trigger starts no run now. Code is "" if a sensor waits for its event.
func idleTrigger(w *store.Workflow, t *store.Trigger, name string, away Absence) Reason {
	r := Reason{Args: args{"trigger": t.Name}}
	r.Kind = "trigger"
	switch t.State {
	case store.TriggerPaused:
		r.Code, r.What, r.Unblocks = "trigger_paused", "trigger "+t.Name+" is paused", "skein schedule resume "+name
		if t.Actor != "" {
			r.What += " by " + t.Actor
		}
		r.What, r.Args["user"], r.Args["reason"] = because(r.What, t.Reason), t.Actor, t.Reason
		r.Actions = []Action{{Verb: "resume", Workflow: w, Trigger: t.Name}}
		return r
	case store.TriggerEnded:
		r.Code, r.What = "trigger_ended", because("trigger "+t.Name+" has ended", t.Reason)
		r.Args["reason"], r.Unblocks = t.Reason, "a file with another rule: skein apply"
		return r
	}
	if since, why := away(t); since != 0 {
		r.Code, r.Since, r.Args["why"] = "source_away", since, why
		r.What = because("the source of trigger "+t.Name+" does not reach the other system", why)
		r.Unblocks = "the other system; the node tries again by itself"
		return r
	}
	if t.Next != 0 && w.State == store.WorkflowActive {
		r.Code, r.Expected = "trigger_due", t.Next
		r.What, r.Unblocks = "trigger "+t.Name+" waits for its next instant", "that instant, or skein run "+name[:len(name)-len(t.Name)-1]
	}
	return r
}

func because(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ": " + reason
}
