package inspect

import (
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Sights gives facts about triggers that are not in the columns of their rows.
type Sights struct {
	// Away says since when the source of a trigger does not reach the other system, and why. since is 0 if the
	// source reaches it, or if no node says otherwise.
	Away func(t *store.Trigger) (since dag.Micros, why string)
	// Pause returns the end of the planned pause that holds a trigger now. until is 0 if there is none.
	Pause func(t *store.Trigger) (until dag.Micros, actor, reason string)
}

// Idle returns the reasons why a workflow starts no runs. Reasons that hold a trigger up come first, before
// instants that are to come.
func Idle(w *store.Workflow, ts []store.Trigger, is Sights) (all []Reason) {
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
		switch r := idleTrigger(w, &ts[i], name+"/"+ts[i].Name, is); {
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
func idleTrigger(w *store.Workflow, t *store.Trigger, name string, is Sights) Reason {
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
	if until, actor, reason := is.Pause(t); until != 0 {
		end := until.Time().Format(time.RFC3339)
		r.Code, r.What, r.Unblocks = "trigger_pause_planned", "trigger "+t.Name+" is paused until "+end, "that instant, or skein schedule resume "+name+" --until "+end
		if actor != "" {
			r.What += " by " + actor
		}
		r.What, r.Args["until"], r.Args["user"], r.Args["reason"] = because(r.What, reason), end, actor, reason
		return r
	}
	if since, why := is.Away(t); since != 0 {
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
