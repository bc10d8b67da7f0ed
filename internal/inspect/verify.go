package inspect

import (
	"context"
	"fmt"
	"slices"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/tally"
)

// Violation is a row, or a set of rows, that breaks an invariant.
type Violation struct {
	Run  string `json:"run,omitempty"`
	Task string `json:"task,omitempty"`
	Rule string `json:"rule"`
	What string `json:"what"`
}

// violationsMax bounds a report, because one bug can affect every row.
const violationsMax = 1000

// Verify checks every invariant from the base tables, in one read snapshot, while nodes run. If it can
// compute a derived value itself, it does not use the stored one.
func Verify(ctx context.Context, st store.Store, compile dag.Compiler) ([]Violation, error) {
	v := verifier{graphs: NewGraphs(st, compile),
		claims: claimCount{places: map[string]*places{}, tasks: map[string]*places{}, locks: map[string]locked{}}}
	var err error
	if v.tally, err = tally.NewCheck(ctx, st); err != nil {
		return nil, errkind.FromStore("read the tally", err)
	}
	logs, err := newLogCheck(ctx, st)
	if err != nil {
		return nil, errkind.FromStore("read the counts of logs", err)
	}
	err = st.Scan(ctx, func(rec store.RunRecord, events []dag.EventRow) error {
		if len(v.found) < violationsMax {
			v.run(&rec, events)
		}
		v.recount(&rec, events)
		logs.run(&rec)
		return ctx.Err()
	})
	if err != nil {
		return v.found, errkind.FromStore("scan", err)
	}
	v.limits()
	counts, err := logs.differences(ctx, st)
	if err != nil {
		return v.found, errkind.FromStore("read the counts of deleted runs", err)
	}
	for _, line := range counts {
		v.found = append(v.found, Violation{Rule: "quota", What: line})
	}
	incidents, err := alert.Verify(ctx, st)
	if err != nil {
		return v.found, errkind.FromStore("read incidents", err)
	}
	for _, line := range incidents {
		v.found = append(v.found, Violation{Rule: "alerts", What: line})
	}
	if incidents, err = v.tally.Differences(ctx); err != nil {
		return v.found, errkind.FromStore("read the tally", err)
	}
	for _, line := range incidents {
		v.found = append(v.found, Violation{Rule: "tally", What: line})
	}
	if c := store.Can(st).Checker; c != nil {
		lines, err := c.Check(ctx)
		if err != nil {
			return v.found, errkind.FromStore("check the store", err)
		}
		for _, line := range lines {
			v.found = append(v.found, Violation{Rule: "store", What: line})
		}
	}
	return v.found, nil
}

type verifier struct {
	graphs *Graphs
	found  []Violation
	rec    *store.RunRecord
	g      *dag.Graph
	// given and ended hold the transactions that assigned and ended each attempt, from the run's history.
	given, ended map[attemptOf]int64
	marked       map[dag.TaskID][]int64 // the transactions in which an operator decided about a task
	// claims counts the claims on shared things in all runs.
	claims claimCount
	tally  *tally.Check
}

// recount passes a run to the check of the tally, which counts the run again.
func (v *verifier) recount(rec *store.RunRecord, events []dag.EventRow) {
	g, err := v.graphs.Get(rec.Run.Workflow, rec.Run.Version)
	if rec.Bad != nil || err != nil || g.Len() > tally.GraphMax {
		v.tally.Run(rec, events, nil)
		return
	}
	g, _ = v.graphs.Of(&rec.Run)
	v.tally.Run(rec, events, g)
}

func (v *verifier) fail(rule string, t dag.TaskID, format string, args ...any) {
	f := Violation{Run: v.rec.Run.ID.String(), Rule: rule, What: fmt.Sprintf(format, args...)}
	if v.g != nil && t >= 0 && int(t) < v.g.Len() {
		f.Task = v.g.Name(t)
	}
	v.found = append(v.found, f)
}

func (v *verifier) run(rec *store.RunRecord, events []dag.EventRow) {
	v.rec, v.g = rec, nil
	r := &rec.Run
	if r.Cause == dag.CauseCorrupt {
		return // the run is quarantined, and its row has that state
	}
	if rec.Bad != nil {
		v.fail("readable", dag.LeaderTask, "%v", rec.Bad)
		return
	}
	if r.State.Terminal() != (r.FinishedAt != 0) {
		v.fail("finished", dag.LeaderTask, "the run is %s, but its row has the end %d (0 means none)", r.State, r.FinishedAt)
	}
	v.claim(rec)
	v.attempts()
	v.kept()
	v.history(events)
	if r.SplitAt == 0 {
		return
	}
	var err error
	if v.g, err = v.graphs.Of(r); err != nil {
		v.fail("graph", dag.LeaderTask, "%v", err)
		return
	}
	v.states()
	v.order()
}

// attempts checks the attempts of each task. The numbers of a task's attempts are 1, 2, 3 and so on, and eras
// do not decrease. Only the newest attempt may be unfinished. In an ended run, no attempt is unfinished. In a
// generation, at most one attempt succeeded, and it is the last one.
func (v *verifier) attempts() {
	all := v.rec.Attempts
	for i := range all {
		a := &all[i]
		first := i == 0 || all[i-1].Task != a.Task
		last := i == len(all)-1 || all[i+1].Task != a.Task
		before := dag.Token(0)
		if !first {
			before = all[i-1].Token
		}
		if want := before.Next(a.Token.Era()); a.Token != want {
			v.fail("tokens", a.Task, "the attempt has the token %d, but the next token was %d", a.Token, want)
		}
		if !a.State.Ended() && (!last || v.rec.Run.State.Terminal()) {
			v.fail("one holder", a.Task, "attempt %d is %s, but it is not the newest attempt of an active run", a.Token, a.State)
		}
		if a.State == dag.AttemptSucceeded && !last && all[i+1].Generation == a.Generation {
			v.fail("terminal is absorbing", a.Task, "attempt %d was made after a successful one", all[i+1].Token)
		}
		if a.State.Ended() != (a.Finished != 0) {
			v.fail("finished", a.Task, "attempt %d is %s, but its row has the end %d (0 means none)", a.Token, a.State, a.Finished)
		}
		if a.Generation > v.rec.Run.Generation || a.Generation < 1 {
			v.fail("generation", a.Task, "attempt %d has the generation %d, but the run has %d", a.Token, a.Generation, v.rec.Run.Generation)
		}
	}
}

// kept checks that an ended run adds at least the bytes of its rows to the stock of its namespace. A run that
// ended under an earlier version adds 0. While nodes of an earlier version run, the rows do not tell all
// bytes.
func (v *verifier) kept() {
	r := &v.rec.Run
	if n := dag.WeightOf(r, v.rec.Attempts); r.State.Terminal() && r.Kept != 0 && r.Kept < n {
		v.fail("kept", dag.LeaderTask, "the run counts %d bytes, but its rows have %d", r.Kept, n)
	}
}

// states checks that the states in the rows equal those of a new derivation, and that the outcome follows
// from them. The derivation refuses an ended run with an unfinished task.
func (v *verifier) states() {
	r := v.rec.Run
	views, err := dag.Derive(v.g, &r, v.rec.Attempts)
	if err != nil {
		v.fail("derivable", dag.LeaderTask, "%v", err)
		return
	}
	if !r.State.Terminal() {
		if r.State != dag.RunWaiting { // a recovered run may have no work left; it ends when it gets a slot
			v.unsettled(views)
		}
		v.shares(views)
		return
	}
	r.Final = nil
	natural, err := dag.Derive(v.g, &r, v.rec.Attempts)
	if err != nil {
		v.fail("derivable", dag.LeaderTask, "%v", err)
		return
	}
	failed, stopped, halted := 0, 0, 0
	for t := range views {
		switch s := views[t].State; {
		case s == dag.Failed || s == dag.UpstreamFailed:
			failed++
		case s == dag.Stopped:
			stopped++
			if views[t].Halted {
				halted++
			}
		}
		if n := natural[t].State; n != views[t].State && views[t].State != dag.Stopped {
			v.fail("derived state", dag.TaskID(t), "the stored state is %s, but the rows of its attempts give %s", views[t].State, n)
		}
	}
	switch {
	case r.State == dag.RunSucceeded && failed+stopped > 0:
		v.fail("outcome", dag.LeaderTask, "the run has succeeded, but %d of its tasks have failed and %d were stopped", failed, stopped)
	case r.State == dag.RunFailed && failed+halted == 0 && r.Intent < dag.IntentStop && !r.Denied():
		v.fail("outcome", dag.LeaderTask, "the run has failed, but none of its tasks has failed")
	case r.State == dag.RunStopped && r.Intent < dag.IntentStop:
		v.fail("outcome", dag.LeaderTask, "the run is stopped, but no stop was ordered")
	}
}

// unsettled checks that an unfinished run has work left.
func (v *verifier) unsettled(views []dag.TaskView) {
	for t := range views {
		if !views[t].State.Terminal() {
			return
		}
	}
	if dag.AnyReleasing(v.rec.Attempts) {
		return // the run ends after its errands
	}
	v.fail("finalised", dag.LeaderTask, "every task has ended, but the run is %s", v.rec.Run.State)
}

// order checks that no attempt was assigned before every need of its task had ended. If a task runs on
// success, no attempt was assigned before the success of each need was accepted. The check uses the order of
// the shard's transactions, because the clock may differ between two owners.
func (v *verifier) order() {
	done := make([]int64, v.g.Len()) // the transaction that accepted the success
	for i := range v.rec.Attempts {
		if a := &v.rec.Attempts[i]; a.State == dag.AttemptSucceeded && a.Task >= 0 && int(a.Task) < v.g.Len() {
			done[a.Task] = v.ended[attemptOf{a.Task, a.Token}]
		}
	}
	for i := range v.rec.Attempts {
		a := &v.rec.Attempts[i]
		given, known := v.given[attemptOf{a.Task, a.Token}]
		if a.Task < 0 || int(a.Task) >= v.g.Len() || a.Generation != v.rec.Run.Generation || !known {
			continue
		}
		for _, n := range v.g.Needs(a.Task) {
			if done[n] > given && !v.redone(n, a) {
				v.fail("order", a.Task, "attempt %d was assigned by transaction %d, but the needed task %s ended in transaction %d", a.Token, given, v.g.Name(n), done[n])
			}
		}
	}
}

// redone reports whether an operator repeated or marked task n, an instance of n or a need of n after the
// task of attempt a had begun. Such a repetition may change the end of n, but the task that has begun
// continues.
func (v *verifier) redone(n dag.TaskID, a *dag.AttemptRow) bool {
	begun, known := v.given[attemptOf{a.Task, 1}]
	until := v.given[attemptOf{a.Task, a.Token}]
	if !known || len(v.marked) == 0 {
		return false
	}
	told := map[dag.TaskID]bool{}
	for t, marked := range v.marked {
		if slices.ContainsFunc(marked, func(seq int64) bool { return begun < seq && seq <= until }) {
			told[t] = true
			if of, ok := v.g.InstanceOf(t); ok {
				told[of] = true
			}
		}
	}
	seen := map[dag.TaskID]bool{n: true}
	for next := []dag.TaskID{n}; len(next) > 0; {
		t := next[len(next)-1]
		if next = next[:len(next)-1]; told[t] {
			return true
		}
		for _, need := range v.g.Needs(t) {
			if !seen[need] {
				seen[need] = true
				next = append(next, need)
			}
		}
	}
	return false
}

// attemptOf names an attempt of the run that is being checked.
type attemptOf struct {
	task  dag.TaskID
	token dag.Token
}

// history checks that the numbers of events rise, and that every attempt has exactly one assignment. An ended
// attempt also has exactly one end under its token. The loss of an attempt may be recorded together with the
// end of its task.
func (v *verifier) history(events []dag.EventRow) {
	given, ended, lost := map[attemptOf]int{}, map[attemptOf]int{}, map[attemptOf]int{}
	v.given, v.ended, v.marked = map[attemptOf]int64{}, map[attemptOf]int64{}, map[dag.TaskID][]int64{}
	seq := int64(-1)
	for i := range events {
		if events[i].Seq <= seq {
			v.fail("history order", dag.LeaderTask, "the event %d comes after the event %d", events[i].Seq, seq)
		}
		seq = events[i].Seq
		records, err := dag.UnpackRecords(events[i].Records)
		if err != nil {
			v.fail("history readable", dag.LeaderTask, "the event %d: %v", seq, err)
			return
		}
		for _, rec := range records {
			switch rec.Kind {
			case dag.RecAssigned, dag.RecDeferred:
				given[attemptOf{rec.Task, rec.Token}]++
				v.given[attemptOf{rec.Task, rec.Token}] = seq
			case dag.RecMarked: // a decision has an attempt row of its own, and no holder
				v.marked[rec.Task] = append(v.marked[rec.Task], seq)
				given[attemptOf{rec.Task, rec.Token}]++
				ended[attemptOf{rec.Task, rec.Token}]++
			case dag.RecRecovered: // the record is about a task that an operator has repeated, which may have no attempt row
				if rec.Text == dag.MarkRetry.String() {
					v.marked[rec.Task] = append(v.marked[rec.Task], seq)
				}
			case dag.RecLost:
				lost[attemptOf{rec.Task, rec.Token}]++
			case dag.RecEnded:
				if rec.Token != 0 {
					ended[attemptOf{rec.Task, rec.Token}]++
					v.ended[attemptOf{rec.Task, rec.Token}] = seq
				}
			}
		}
	}
	for i := range v.rec.Attempts {
		a := &v.rec.Attempts[i]
		k := attemptOf{a.Task, a.Token}
		if given[k] != 1 {
			v.fail("one hand-over", a.Task, "attempt %d was assigned %d times in its history", a.Token, given[k])
		}
		if a.State == dag.AttemptLost && ended[k] <= 1 {
			ended[k] = lost[k]
		} else {
			ended[k] += lost[k]
		}
		if a.Task >= 0 && ended[k] > 1 || a.Task >= 0 && a.State.Ended() != (ended[k] == 1) {
			v.fail("one end", a.Task, "attempt %d is %s, but ended %d times in its history", a.Token, a.State, ended[k])
		}
		delete(given, k)
	}
	for k := range given {
		v.fail("one hand-over", k.task, "attempt %d is in the history but has no row", k.token)
	}
}
