package engine

import (
	"context"

	"skein.dev/skein/internal/dag"
)

// explainIntent covers the state of the whole run, whatever its tasks do: it has ended, or a person has
// paused or stopped it. The reason names the person, the time and the given reason.
func (e *Engine) explainIntent(ctx context.Context, v *RunView, x *explaining) (complete bool, err error) {
	terminal := v.State.Terminal()
	if v.Intent == dag.IntentRun && v.State != dag.RunPaused && !terminal {
		return false, nil
	}
	var said told
	if v.Intent != dag.IntentRun {
		if said, err = e.lastIntent(ctx, v); err != nil {
			return false, err
		}
	}
	since := said.at
	if since == 0 {
		since = v.Modified
	}
	switch id := v.ID.String(); {
	case terminal:
		what := "it has ended: " + v.State.String()
		if v.State == dag.RunStopped {
			what += said.words()
		}
		if v.Message != "" && (v.State != dag.RunStopped || v.Message != said.reason) {
			what += " (" + v.Message + ")"
		}
		unblocks, verbs := "skein run rerun "+id+" starts it as a new run", []string{"rerun"}
		if v.State != dag.RunSucceeded && v.State != dag.RunSkipped && v.SplitAt != 0 && v.Cause != dag.CauseCorrupt {
			unblocks = "skein run recover " + id + " repeats what failed; skein run rerun starts it as a new run"
			verbs = []string{"recover", "rerun"}
		}
		x.add(Reason{Kind: "ended", Code: "run_ended",
			Args: args{"state": v.State.String(), "message": v.Message}, Actions: on(v.ID, "", verbs...),
			What: what, Since: v.FinishedAt, Unblocks: unblocks})
		return true, nil
	case v.State == dag.RunPaused:
		x.add(Reason{Kind: "paused", Code: "run_paused", Args: args{"by": said.actor, "reason": said.reason},
			Actions: on(v.ID, "", "resume"),
			What:    "it is paused" + said.words() + ": no attempt runs or starts", Holder: said.actor,
			Since: since, Unblocks: "skein run resume " + id})
		return true, nil
	case v.Intent == dag.IntentPause:
		x.add(Reason{Kind: "paused", Code: "run_pausing", Args: args{"by": said.actor, "reason": said.reason},
			Actions: on(v.ID, "", "resume"),
			What:    "it is being paused" + said.words() + ": running attempts finish, and no new ones start",
			Holder:  said.actor, Since: since, Unblocks: "skein run resume " + id})
	case v.Intent >= dag.IntentStop:
		unblocks := "the end of the attempts that still run"
		if e.reads() {
			unblocks = startServer
		}
		x.add(Reason{Kind: "stopping", Code: "run_stopping",
			Args: args{"by": said.actor, "reason": said.reason}, Actions: on(v.ID, "", "kill"),
			What:   "it is being ended (" + v.Intent.String() + ")" + said.words() + ": nothing new starts",
			Holder: said.actor, Since: since, Unblocks: unblocks})
	}
	return false, nil
}

// told is an order that a person gave to a run.
type told struct {
	at            dag.Micros
	actor, reason string
}

func (t *told) words() string {
	by := ""
	if t.actor != "" {
		by = " by " + t.actor
	}
	return by + because(t.reason)
}

// intentPagesMax bounds the history that is looked through for who paused or stopped a run, in pages of
// causeScanMax transactions.
const intentPagesMax = 20

// lastIntent finds what a run was told last.
func (e *Engine) lastIntent(ctx context.Context, v *RunView) (last told, err error) {
	after := int64(0)
	for range intentPagesMax {
		rows, err := e.store.Events(ctx, v.ID, after, causeScanMax)
		if err != nil {
			return last, fromStore("read the run's history", err)
		}
		for i := range rows {
			after = rows[i].Seq
			recs, err := dag.UnpackRecords(rows[i].Records)
			if err != nil {
				return last, err
			}
			for j := range recs {
				if recs[j].Kind == dag.RecIntent {
					last = told{rows[i].At, recs[j].Actor, recs[j].Reason}
				}
			}
		}
		if len(rows) < causeScanMax {
			break
		}
	}
	return last, nil
}

// declares reports whether a run that has no tasks yet will have one of that name.
func (e *Engine) declares(r *dag.RunRow, task string) bool {
	g, err := e.graphOf(r)
	if err != nil {
		return false
	}
	_, ok := g.Find(task)
	return ok
}
