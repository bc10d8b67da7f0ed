package engine

import (
	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
)

// noteEvents are the events that rules watch, by the notes of the domain.
var noteEvents = map[dag.NoteKind]alert.Event{
	dag.NoteFailed: alert.TaskFailed, dag.NotePoison: alert.Poison, dag.NoteRetrying: alert.Retrying, dag.NoteLost: alert.Lost,
	dag.NoteApproval: alert.Approval, dag.NoteDecided: alert.Decided,
}

// burying returns the event for the quarantine of a run.
func burying(r *dag.RunRow) *alert.Happening {
	h := course(&r.Header, r.FinishedAt)
	h.Event, h.Cause, h.Message = alert.Quarantined, string(r.Cause), clean(r.Message)
	return h
}

// tasked applies the alert rules of a workflow to something that happened to a task.
func tasked(a *alerts, n *dag.Note) error {
	r := a.inMemory()[n.Run]
	if a.read == nil || r == nil {
		return nil
	}
	if unwatched, err := a.unwatched(r.Workflow); unwatched || err != nil { // most runs have no rules, so no event is made
		return err
	}
	h := course(&r.Header, a.txn().now.Wall)
	h.Event, h.Message = noteEvents[n.Kind], clean(n.Message)
	if n.Task != dag.LeaderTask {
		h.Task = r.Graph.Name(n.Task)
	}
	return a.happenedTo(r.Workflow, h, (*alert.Rule).Any)
}
