package inspect

import (
	"context"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// explainErrands explains which tasks wait until an errand has released the handle of an earlier attempt. It
// returns these tasks.
func (x *explaining) explainErrands(ctx context.Context, of ...dag.TaskID) (waiting []dag.TaskID, err error) {
	for _, t := range of {
		if !x.Graph.Policy(t).Handles() || x.Views[t].Token == 0 || len(x.Reasons) >= goingMax {
			continue
		}
		rows := x.Errands
		if x.rows {
			if rows, err = x.rd.store.Attempts(ctx, store.AttemptQuery{Run: x.run.ID, Task: t, One: true, Outputs: true, Sparing: true}); err != nil {
				return nil, errkind.FromStore("read the attempts of task "+x.Graph.Name(t), err)
			}
		}
		for i := range rows {
			if h, _ := dag.HandleOf(&rows[i]); rows[i].Task == t && h.State == dag.HandleReleasing {
				x.add(x.errandReason(&rows[i], &h))
				waiting = append(waiting, t)
			}
		}
	}
	return slices.Compact(waiting), nil
}

func (x *explaining) errandReason(a *dag.AttemptRow, h *dag.Handle) Reason {
	most := x.Graph.Policy(a.Task).ReleaseTimeout
	if most == 0 {
		most = dag.ReleaseTimeoutDefault
	}
	errand, name := dag.ChildID(a).String(), x.Graph.Name(a.Task)
	return Reason{Kind: "wait", Code: "wait_release", Holder: errand, Since: h.Since, Expected: h.Since + dag.Micros(most.Microseconds()),
		Args: args{"task": name, "attempt": int64(a.Token.Number()), "run": errand},
		What: fmt.Sprintf("attempt %d of task %s has left work outside of its process, which run %s releases", a.Token.Number(), name, errand),
		Unblocks: "the end of that run; at the expected time the work counts as an orphan, and this run goes on. skein explain " + errand +
			" says what the release waits for"}
}

// tasks lists all tasks of the run.
func (x *explaining) tasks() []dag.TaskID {
	all := make([]dag.TaskID, len(x.Views))
	for t := range all {
		all[t] = dag.TaskID(t)
	}
	return all
}
