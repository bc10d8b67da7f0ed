package storetest

import (
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// standing checks that a sweep reads the fields of a run that it needs, and the run's open attempts.
func standing(b *bed) {
	child, plain := b.run(dag.RunSuspended), b.run(dag.RunRunning)
	child.Origin, child.Intent, child.SplitAt, child.StartedAt = dag.OriginParent, dag.IntentPause, child.Created+40, child.Created+5000
	child.Fire = &dag.Fire{Parent: &dag.Parent{Task: 1, Line: []dag.Ancestor{{Run: runID(70), Workflow: 1}, {Run: runID(71), Workflow: 1}}}}
	child.Claim = &dag.Claim{Queue: "q", Locks: []string{"a"}, Stage: dag.ClaimLent, Asked: 7, Grant: 8, Granted: 9, Family: runID(70)}
	child.Shares = []dag.Share{{Queue: "tool", Life: 1, Rev: 2, Got: 1, Need: 3, Asked: 10}}
	plain.Fire, plain.Shares = &dag.Fire{Instant: 5, Trigger: "t"}, child.Shares
	ended := b.run(dag.RunFailed)
	b.add(child, plain, ended)
	held, began, over, waits := b.attempt(plain.ID, dag.LeaderTask, 1), b.attempt(plain.ID, 0, 2), b.attempt(plain.ID, 0, 1), b.attempt(child.ID, 0, 1)
	at := plain.Created // earlier than both runs
	held.Assigned, began.Assigned, over.Assigned, waits.Assigned = at+1000, at+1100, at+1050, at+900
	began.State, began.Started = dag.AttemptRunning, at+1400
	over.State, over.Started, over.Finished, over.RetryAt = dag.AttemptFailed, at+1060, at+1300, at+9000
	waits.State, waits.Handler, waits.RetryAt = dag.AttemptDeferred, 0, at+8000
	b.put(func(x *store.Batch) { x.AttemptInserts = []dag.AttemptRow{held, began, over, waits} })
	live := func(a dag.AttemptRow) store.Live {
		return store.Live{Task: a.Task, Token: a.Token, Handler: a.Handler, State: a.State, Assigned: a.Assigned}
	}
	got, err := b.s.Standing(b.ctx, 0, dag.RunID{}, 10)
	b.ok(err)
	b.same(got, []store.Standing{
		{Run: child.ID, Workflow: child.Workflow, State: child.State, Intent: dag.IntentPause, Created: child.Created,
			Moved: child.StartedAt, Later: at + 8000, Claim: child.Claim, Parent: runID(71)},
		{Run: plain.ID, Workflow: plain.Workflow, State: plain.State, Created: plain.Created, Moved: at + 1400, Later: at + 9000,
			Live: []store.Live{live(held), live(began)}},
	}, "how they stand")
	last := b.fences[len(b.fences)-1].Shard
	got, err = b.s.Standing(b.ctx, last+1, dag.RunID{}, 10)
	b.ok(err)
	b.same(len(got), 0, "runs of a shard that is not there")
}

func standingPages(b *bed) {
	var want []dag.RunID
	var rows []dag.RunRow
	for n := range 23 {
		r := b.run(dag.RunState(n) % (dag.RunSkipped + 1))
		rows = append(rows, r)
		if !r.State.Terminal() {
			want = append(want, r.ID)
		}
	}
	b.add(rows...)
	for _, limit := range []int{1, 5, len(want), 0} {
		var got []dag.RunID
		for after := (dag.RunID{}); ; {
			page, err := b.s.Standing(b.ctx, 0, after, limit)
			b.ok(err)
			for i := range page {
				after = page[i].Run
				got = append(got, after)
			}
			if len(page) == 0 {
				break
			}
		}
		b.same(got, want, "runs by pages")
	}
}
