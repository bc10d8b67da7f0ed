package inspect

import (
	"context"

	"skein.dev/skein/internal/admission"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
)

// explainIntent explains why the whole run does not continue, independent of its tasks: the run has ended, or
// a person has paused or stopped it. The reason names the person, the time and the reason that the person
// gave.
func (x *explaining) explainIntent(ctx context.Context) (complete bool, err error) {
	terminal := x.run.State.Terminal()
	if x.run.Intent == dag.IntentRun && x.run.State != dag.RunPaused && !terminal {
		return false, nil
	}
	var said told
	if x.run.Intent != dag.IntentRun {
		if said, err = x.lastIntent(ctx); err != nil {
			return false, err
		}
	}
	since := said.at
	if since == 0 {
		since = x.run.Modified
	}
	switch id := x.run.ID.String(); {
	case terminal:
		what := "it has ended: " + x.run.State.String()
		if x.run.State == dag.RunStopped {
			what += said.words()
		}
		if x.run.Message != "" && (x.run.State != dag.RunStopped || x.run.Message != said.reason) {
			what += " (" + x.run.Message + ")"
		}
		unblocks, verbs := "skein run rerun "+id+" starts it as a new run", []string{"rerun"}
		if x.run.State != dag.RunSucceeded && x.run.State != dag.RunSkipped && x.run.SplitAt != 0 && x.run.Cause != dag.CauseCorrupt {
			unblocks = "skein run recover " + id + " runs the failed tasks again; skein run rerun starts it as a new run"
			verbs = []string{"recover", "rerun"}
		}
		r := Reason{Kind: "ended", Code: "run_ended",
			Args: args{"state": x.run.State.String(), "message": x.run.Message}, Actions: on(x.run.ID, "", verbs...),
			What: what, Since: x.run.FinishedAt, Unblocks: unblocks}
		if x.run.Cause == dag.CauseQuota {
			r.Code = "run_over_quota"
			r.Unblocks += "; skein namespace list shows the quotas, and what is used of them"
		}
		x.add(r)
		return true, nil
	case x.run.State == dag.RunPaused:
		x.add(Reason{Kind: "paused", Code: "run_paused", Args: args{"by": said.actor, "reason": said.reason},
			Actions: on(x.run.ID, "", "resume"),
			What:    "the run is paused" + said.words() + ": no attempt runs or starts", Holder: said.actor,
			Since: since, Unblocks: "skein run resume " + id})
		return true, nil
	case x.run.Intent == dag.IntentPause:
		x.add(Reason{Kind: "paused", Code: "run_pausing", Args: args{"by": said.actor, "reason": said.reason},
			Actions: on(x.run.ID, "", "resume"),
			What:    "the run is being paused" + said.words() + ": running attempts finish, and no new ones start",
			Holder:  said.actor, Since: since, Unblocks: "skein run resume " + id})
	case x.run.Intent >= dag.IntentStop:
		unblocks := "the end of the attempts that still run"
		if x.rd.unserved() {
			unblocks = startServer
		}
		x.add(Reason{Kind: "stopping", Code: "run_stopping",
			Args: args{"by": said.actor, "reason": said.reason}, Actions: on(x.run.ID, "", "kill"),
			What:   "the run is being ended (" + x.run.Intent.String() + ")" + said.words() + ": no task starts any more",
			Holder: said.actor, Since: since, Unblocks: unblocks})
	}
	return false, nil
}

// told is an order of a person about a run.
type told struct {
	at            dag.Micros
	actor, reason string
}

func (t *told) words() string {
	by := ""
	if t.actor != "" {
		by = " by " + t.actor
	}
	return by + admission.Because(t.reason)
}

// intentPagesMax bounds the search in the history for the person who paused or stopped a run, in pages of
// causeScanMax transactions.
const intentPagesMax = 20

// lastIntent finds the last order of a person about a run.
func (x *explaining) lastIntent(ctx context.Context) (last told, err error) {
	after := int64(0)
	for range intentPagesMax {
		rows, err := x.rd.store.Events(ctx, x.run.ID, after, causeScanMax)
		if err != nil {
			return last, errkind.FromStore("read the run's history", err)
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

// declares reports whether a run without tasks will have a task of a given name.
func (x *explaining) declares(task string) bool {
	g, err := x.rd.RunGraph(&x.run.RunRow)
	if err != nil {
		return false
	}
	_, ok := g.Find(task)
	return ok
}
