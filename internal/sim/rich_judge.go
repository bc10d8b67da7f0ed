package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// judgeRich checks one change of a run in a rich world. Its rules hold whatever the operators decide.
func judgeRich(was *shadow, is *store.RunRecord, said map[attemptKey]dag.AttemptState) (fs findings) {
	r := &is.Run
	same := r.Generation == was.row.Generation
	switch {
	case r.Cause == dag.CauseCorrupt:
		fs.add("quarantine", "%s", r.Message)
		return fs
	case r.Generation < was.row.Generation:
		fs.add("generation", "goes back from %d to %d", was.row.Generation, r.Generation)
	case same && was.row.State.Terminal() && (r.State != was.row.State || len(is.Attempts) != len(was.attempts)):
		fs.add("terminal is absorbing", "it was %s, and changes to %s with %d attempts", was.row.State, r.State, len(is.Attempts))
	case same && r.Intent < was.row.Intent && !(was.row.Intent == dag.IntentPause && r.Intent == dag.IntentRun):
		fs.add("intent", "goes back from %s to %s", was.row.Intent, r.Intent)
	}
	judgeAttempts(was, is, said, &fs)
	if c := r.Claim; c != nil {
		switch {
		case r.State.Terminal() && (c.Holds() || c.InLine()):
			fs.add("claims end with the run", "it is %s, its claim of %s is %s", r.State, c.What(), c.Stage)
		case r.State == dag.RunSuspended && c.Slot():
			fs.add("suspended", "it only waits, and has a place in %s", c.Line())
		case !r.State.Terminal() && r.SplitAt != 0 && r.State != dag.RunWaiting && !c.Holds():
			fs.add("claims", "it is %s without %s: its claim is %s", r.State, c.What(), c.Stage)
		}
	}
	if r.SplitAt == 0 {
		return fs
	}
	views, err := dag.Derive(was.graph, r, is.Attempts)
	if err != nil {
		fs.add("derive", "%v", err)
		return fs
	}
	open := 0
	for t := range views {
		if !views[t].State.Terminal() {
			open++
		}
	}
	late := was.beside && open == 0
	// An operator has decided, but the run does not hold its claims yet.
	if (open == 0) != r.State.Terminal() && r.State != dag.RunWaiting && !late {
		fs.add("finalised at once", "%d tasks have not ended, and it is %s", open, r.State)
	}
	return fs
}

// commons checks that no commit grants more queue slots than exist, and that two families never hold one
// lock.
func (v *witness) commons() {
	w := v.w
	if w.rich == nil || !w.rich.named && !w.rich.tasks {
		return
	}
	held, err := w.st.Holding(context.Background(), dag.RunID{}, 1000)
	must(err)
	used := 0
	for _, id := range v.order {
		used += queueUse(v.runs[id])
	}
	for _, q := range w.rich.queues {
		if q.Name == "tasks" && used > int(q.Limit) {
			w.violate("limit of a queue", "%d tasks that name %s are with handlers, it has %d places", used, q.Name, q.Limit)
		}
	}
	for _, f := range judgeCommons(held, w.rich.queues) {
		w.violate(f.rule, "%s", f.what)
	}
}

// queueUse counts the assigned attempts of a run that need a queue slot.
func queueUse(sh *shadow) (n int) {
	if sh.row.State.Terminal() || sh.graph == nil {
		return 0
	}
	for i := range sh.attempts {
		if a := &sh.attempts[i]; !a.State.Ended() && a.State != dag.AttemptDeferred && a.Task >= 0 && sh.graph.Policy(a.Task).Queue != "" {
			n++
		}
	}
	return n
}

func judgeCommons(held []store.Claimant, queues []store.Queue) (fs findings) {
	taken, tasks, locks := map[string]int{}, map[string]int64{}, map[string]dag.RunID{}
	for i := range held {
		c := held[i].Claim
		for _, s := range held[i].Shares {
			tasks[s.Queue] += s.Has()
		}
		if !c.Holds() {
			continue
		}
		if c.Slot() {
			taken[c.Queue]++
		}
		family := c.Family
		if family.IsZero() {
			family = held[i].Run
		}
		for _, name := range c.Locks {
			if other, two := locks[name]; two && other != family {
				fs.add("one holder of a lock", "lock %s is %s's and %s's", name, other, family)
			}
			locks[name] = family
		}
	}
	for _, q := range queues {
		if n := taken[q.Name]; n > int(q.Limit) {
			fs.add("limit of a queue", "%d runs have a place in %s, it has %d", n, q.Name, q.Limit)
		}
		if n := tasks[q.Name]; n > int64(q.Limit) {
			fs.add("limit of a queue", "tasks have %d places in %s, it has %d", n, q.Name, q.Limit)
		}
	}
	return fs
}

// closeRich checks the end of a rich history. No lock or slot is held, families agree, and a decision that
// was sent twice with one key took effect once.
func (v *witness) closeRich(ctx context.Context) {
	w := v.w
	if w.rich == nil {
		return
	}
	held, err := w.st.Holding(ctx, dag.RunID{}, 1000)
	must(err)
	lines, err := w.st.Lines(ctx)
	must(err)
	if len(held)+len(lines) > 0 {
		w.violate("at rest", "everything has ended, %d runs hold something, %d lines are not empty", len(held), len(lines))
	}
	if l := w.shardOwner(store.GateShard); l != nil && l.eng != nil {
		if diff, err := l.eng.MirrorGate(ctx); diff != "" || err != nil {
			w.violate("memory", "of %s: %s %v", l, diff, err)
		}
	}
	for _, f := range judgeFamilies(v.order, v.runs) {
		w.violate(f.rule, "%s", f.what)
	}
	v.saidOnce(ctx)
}

// judgeFamilies checks calls. The run that a call names exists and ended in the same state as the call. A
// child run has the call that started it.
func judgeFamilies(order []dag.RunID, runs map[dag.RunID]*shadow) (fs findings) {
	for _, id := range order {
		sh := runs[id]
		for i := range sh.attempts {
			a := &sh.attempts[i]
			child, ok := dag.ChildOf(a)
			if !ok {
				continue
			}
			is := runs[child.Run]
			switch {
			case is == nil && a.State == dag.AttemptSucceeded:
				fs.add("families", "call %d#%d of run %s succeeded, its run was never there", a.Task, a.Token, id)
			case is != nil && is.row.Generation == child.Generation && a.State == dag.AttemptSucceeded && a.Cause != dag.CauseMarked && is.row.State != dag.RunSucceeded:
				fs.add("families", "call %d#%d of run %s succeeded, its run is %s", a.Task, a.Token, id, is.row.State)
			}
		}
		if p := sh.row.Parent(); p != nil {
			up := runs[p.Up().Run]
			named := up != nil && slices.ContainsFunc(up.attempts, func(a dag.AttemptRow) bool {
				child, ok := dag.ChildOf(&a)
				return ok && child.Run == id
			})
			if !named {
				fs.add("families", "no call of run %s names run %s", p.Up().Run, id)
			}
		}
	}
	return fs
}

// saidOnce checks that the histories of runs have each decision with a key only once.
func (v *witness) saidOnce(ctx context.Context) {
	done := map[string]int{}
	err := v.w.st.Scan(ctx, func(_ store.RunRecord, events []dag.EventRow) error {
		for i := range events {
			records, err := dag.UnpackRecords(events[i].Records)
			if err != nil {
				return err
			}
			one := map[string]bool{} // one decision may have several records in its transaction
			for _, r := range records {
				if r.Actor != "" {
					one[r.Actor] = true
				}
			}
			for actor := range one {
				done[actor]++
			}
		}
		return nil
	})
	must(err)
	for _, actor := range slices.Sorted(maps.Keys(done)) {
		if v.once[actor] && done[actor] > 1 {
			v.w.violate("said twice", "what %s said under one key was done %d times", actor, done[actor])
		}
	}
}

// runGraph returns the graph that a run's row holds.
func runGraph(p *plan, row *dag.RunRow) *dag.Graph {
	if len(row.Graph) == 0 {
		return p.g
	}
	g, err := dag.RunGraph(p.g, row.Graph, compile)
	if err != nil {
		panic(fmt.Sprintf("sim: the graph of run %s: %v", row.ID, err))
	}
	return g
}

var _ engine.Preparer = preparer{}
