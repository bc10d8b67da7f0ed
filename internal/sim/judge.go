package sim

import (
	"context"
	"fmt"
	"reflect"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
)

// judge checks the change of a run since its last commit.
func (v *witness) judge(l *life, rec *store.RunRecord) {
	id := rec.Run.ID
	sh := v.runs[id]
	if sh == nil {
		sh = &shadow{name: fmt.Sprintf("R%d", len(v.order)+1), plan: flowOf(v.w, rec.Run.Workflow).plan, row: rec.Run, beside: v.w.swarm.beside}
		sh.row.State, sh.row.Intent, sh.row.Generation = dag.RunSubmitted, dag.IntentRun, rec.Run.Generation
		v.runs[id] = sh
		v.order = append(v.order, id)
	}
	sh.graph = runGraph(sh.plan, &rec.Run)
	v.losses(sh, rec)
	judge := judgeRun
	if v.w.rich != nil {
		judge = judgeRich
	}
	for _, f := range judge(sh, rec, v.said) {
		v.w.violate(f.rule, "run %s (%s):%s", v.w.runName(id), f.what, sh.plan.text)
	}
	sh.row, sh.attempts = rec.Run, rec.Attempts
	sh.ended = sh.ended || sh.row.State.Terminal() && sh.row.State != dag.RunSkipped
}

// losses checks that an attempt is lost only if its holder has died, was reborn, or gave up the attempt.
func (v *witness) losses(was *shadow, is *store.RunRecord) {
	for i := range is.Attempts {
		a := &is.Attempts[i]
		if a.State != dag.AttemptLost || a.Task < 0 || a.Token.Era() < store.FloorOf(v.marks()) || sameAttempt(was.attempts, a) {
			continue
		}
		h := v.w.byHandler[a.Handler]
		_, listed := v.members[a.Handler]
		if h != nil && !h.dead && h.handler == a.Handler && (listed || v.w.swarm.nodes == 1) && v.said[attemptKey{a.Run, a.Task, a.Token}] != dag.AttemptStopped {
			v.w.violate("false loss", "attempt %s is lost, and %s holds it", v.w.name(attemptKey{a.Run, a.Task, a.Token}), h)
		}
	}
}

// sameAttempt reports whether an attempt was the same before.
func sameAttempt(was []dag.AttemptRow, a *dag.AttemptRow) bool {
	for i := range was {
		if b := &was[i]; b.Task == a.Task && b.Token == a.Token {
			return b.State == a.State
		}
	}
	return false
}

// finding is a violation of a rule.
type finding struct{ rule, what string }

type findings []finding

func (fs *findings) add(rule, format string, args ...any) {
	*fs = append(*fs, finding{rule, fmt.Sprintf(format, args...)})
}

// judgeRun checks one change of a run, from its earlier to its present state. The parameter said holds the
// reports that the holders of attempts have sent. It is a pure function, so that tests can judge hand-made
// histories.
func judgeRun(was *shadow, is *store.RunRecord, said map[attemptKey]dag.AttemptState) (fs findings) {
	r := &is.Run
	if r.Cause == dag.CauseCorrupt {
		fs.add("quarantine", "%s", r.Message)
		return fs
	}
	if was.row.State.Terminal() && (!reflect.DeepEqual(was.row, *r) || !reflect.DeepEqual(bare(was.attempts), bare(is.Attempts))) {
		fs.add("terminal is absorbing", "it was %s, and changes to %s with %d attempts", was.row.State, r.State, len(is.Attempts))
	}
	if r.Intent < was.row.Intent && !(was.row.Intent == dag.IntentPause && r.Intent == dag.IntentRun) {
		fs.add("intent", "goes back from %s to %s", was.row.Intent, r.Intent)
	}
	judgeAttempts(was, is, said, &fs)
	if r.SplitAt == 0 {
		return fs
	}
	if r.State == dag.RunSkipped {
		judgeSkipped(is, &fs)
		return fs
	}
	states := was.plan.naive(is.Attempts)
	if r.State.Terminal() {
		if err := was.plan.ended(r, is.Attempts); err != nil {
			fs.add("outcome", "it ended %s: %v", r.State, err)
		}
	} else if r.Intent == dag.IntentRun && r.State == dag.RunRunning {
		over := !was.beside && !dag.AnyReleasing(is.Attempts)
		for _, s := range states {
			over = over && ends(s)
		}
		if over {
			fs.add("finalised at once", "nothing is left of it, and it is %s: %v", r.State, states)
		}
	}
	views, err := dag.Derive(was.plan.g, r, is.Attempts)
	if err != nil {
		fs.add("derive", "%v", err)
		return fs
	}
	for t, s := range states {
		stopped := r.State.Terminal() && r.Intent >= dag.IntentStop && (!ends(s) || was.beside && views[t].State == dag.Stopped)
		if views[t].State != s && !stopped {
			fs.add("closure", "task %d is %s for readers, by the rules it is %s", t, views[t].State, s)
		}
	}
	return fs
}

// judgeSkipped checks that a run is skipped only if it missed the instant by which it had to begin.
func judgeSkipped(is *store.RunRecord, fs *findings) {
	if r := &is.Run; r.Cause != dag.CauseMissed || r.Fire == nil || r.Fire.StartBy == 0 {
		fs.add("outcome", "it ended skipped for %s", r.Cause)
	}
	for i := range is.Attempts {
		if a := &is.Attempts[i]; a.Task >= 0 {
			fs.add("outcome", "it ended skipped, and task %d had begun", a.Task)
		}
	}
}

// judgeAttempts checks that tokens rise by one, that an attempt has one holder at a time, that an ended
// attempt does not change, and that no forbidden attempt begins.
func judgeAttempts(was *shadow, is *store.RunRecord, said map[attemptKey]dag.AttemptState, fs *findings) {
	old := map[attemptKey]*dag.AttemptRow{}
	for i := range was.attempts {
		a := &was.attempts[i]
		old[attemptKey{a.Run, a.Task, a.Token}] = a
	}
	held := map[dag.TaskID]dag.Token{}
	last := map[dag.TaskID]dag.Token{}
	failures := map[dag.TaskID]int32{}
	losses := map[dag.TaskID]int{}
	for i := range is.Attempts {
		a := &is.Attempts[i]
		k := attemptKey{a.Run, a.Task, a.Token}
		if a.Token != last[a.Task].Next(a.Token.Era()) {
			fs.add("tokens", "task %d has token %d after %d", a.Task, a.Token, last[a.Task])
		}
		last[a.Task] = a.Token
		if h, two := held[a.Task]; two {
			fs.add("one holder", "task %d is held under token %d and given away under %d", a.Task, h, a.Token)
		}
		if !a.State.Ended() {
			held[a.Task] = a.Token
			if is.Run.State.Terminal() {
				fs.add("outcome", "attempt %d of task %d is %s in an ended run", a.Token, a.Task, a.State)
			}
		}
		if a.State == dag.AttemptFailed && a.RetryAt != 0 {
			failures[a.Task]++
		}
		if a.State == dag.AttemptLost {
			losses[a.Task]++
		}
		b := old[k]
		delete(old, k)
		switch {
		case b == nil:
			judgeStart(was, is, a, fs)
		case b.State.Ended() && !reflect.DeepEqual(bare([]dag.AttemptRow{*a}), bare([]dag.AttemptRow{*b})):
			fs.add("one end", "attempt %d of task %d was %s and becomes %s", a.Token, a.Task, b.State, a.State)
		case b.Handler != a.Handler:
			fs.add("one holder", "attempt %d of task %d goes from handler %d to %d", a.Token, a.Task, b.Handler, a.Handler)
		}
		if a.State == dag.AttemptSucceeded && a.Task >= 0 && a.Handler != 0 && (b == nil || !b.State.Ended()) {
			if s, heard := said[k]; !heard || s != dag.AttemptSucceeded {
				fs.add("token", "attempt %d of task %d counts as succeeded, its holder did not say so", a.Token, a.Task)
			}
		}
	}
	for k := range old {
		fs.add("none lost", "attempt %d of task %d is gone", k.token, k.task)
	}
	if was.plan.rich {
		return
	}
	for t, n := range failures {
		if t >= 0 && n > was.plan.retries[t] {
			fs.add("retries", "task %d is tried again %d times, at most %d", t, n, was.plan.retries[t])
		}
	}
	for t, n := range losses {
		if n > lossesMax {
			fs.add("poison", "task %d was lost %d times", t, n)
		}
	}
}

// lossesMax bounds the losses of a task in one generation. The sixth loss fails the task.
const lossesMax = 6

// judgeStart checks a new attempt: the tasks that its task needs are settled, its run is not stopped, and the
// previous attempt has ended.
func judgeStart(was *shadow, is *store.RunRecord, a *dag.AttemptRow, fs *findings) {
	if was.row.Intent > dag.IntentRun && is.Run.Intent > dag.IntentRun && was.row.Generation == is.Run.Generation && a.Handler != 0 {
		fs.add("stopped", "task %d starts, and the run is told to %s", a.Task, was.row.Intent)
	}
	if a.Task < 0 || int(a.Task) >= len(was.plan.needs) || was.plan.rich {
		return // another check reports this
	}
	before := make([]dag.AttemptRow, 0, len(is.Attempts))
	for i := range is.Attempts {
		b := &is.Attempts[i]
		if b.Task == a.Task && b.Token >= a.Token {
			continue
		}
		before = append(before, *b)
	}
	s := was.plan.naive(before)[a.Task]
	if s != dag.Ready && s != dag.RetryWait {
		fs.add("order", "task %d starts, it is %s", a.Task, s)
	}
}

// close checks the state at the end of a history.
func (v *witness) close() {
	w := v.w
	w.aside++
	defer func() { w.aside-- }()
	v.closeAudit()
	ctx := context.Background()
	found, err := inspect.Verify(ctx, w.st, compile)
	must(err)
	for _, f := range found {
		w.violate("verify", "%+v", f)
	}
	for _, a := range w.client.asked {
		if !a.acked.IsZero() {
			v.promised(a)
		}
	}
	for _, l := range w.lives {
		if l == nil || l.dead || l.eng == nil || l.frozen {
			continue
		}
		if _, busy := l.eng.Slots(); busy != 0 {
			w.violate("slots", "everything has ended, %s has %d slots taken", l, busy)
		}
		for _, s := range w.allShards() {
			if w.shardOwner(s) == l {
				if diff, err := l.eng.MirrorShard(ctx, s); diff != "" || err != nil {
					w.violate("memory", "of %s: %s %v", l, diff, err)
				}
			}
		}
	}
	v.logged(ctx)
	v.closeHandles()
	v.closeRich(ctx)
	v.alerts(ctx)
	v.oneEach(ctx)
	if w.planner != nil {
		v.ledger(ctx)
	}
	if w.timed != nil {
		v.walk(ctx)
	}
}

// ledger checks that every instant has one outcome, and that every end of a run was followed up once.
func (v *witness) ledger(ctx context.Context) {
	w := v.w
	all, err := w.st.Triggers(ctx, store.TriggerQuery{Limit: 1000})
	must(err)
	for i := range all {
		t := &all[i]
		lines, err := w.st.Fires(ctx, store.FireQuery{Workflow: t.Workflow, Trigger: t.Name, Limit: 1000})
		must(err)
		for _, f := range trigger.Verify(t, lines, 0) {
			w.violate("ledger", "%+v", f)
		}
		if t.Name != "heard" {
			continue
		}
		heard, ended := 0, 0
		for _, f := range lines {
			if f.Key != "" {
				heard++
			}
		}
		for _, id := range v.order {
			if sh := v.runs[id]; sh.row.Workflow == t.Workflow-1 && sh.ended {
				ended++
			}
		}
		if heard != ended {
			w.violate("heard", "trigger heard of workflow %d heard of %d ends of runs, there were %d", t.Workflow, heard, ended)
		}
	}
}

// limits checks that no run becomes active beyond the concurrency limit of its workflow. Runs that were
// active before the limit was lowered may continue.
func (v *witness) limits() {
	if !v.w.swarm.limit {
		return
	}
	active := map[dag.WorkflowID]int32{}
	for _, id := range v.order {
		if r := &v.runs[id].row; r.State > dag.RunWaiting && !r.State.Terminal() {
			active[r.Workflow]++
		}
	}
	for i := range v.w.flows {
		row, err := v.w.st.WorkflowByID(context.Background(), v.w.flows[i].row.ID)
		must(err)
		n, was := active[row.ID], v.active[row.ID]
		if n > was[0] && row.MaxRuns > 0 && n > row.MaxRuns && was[1] > 0 && n > was[1] {
			v.w.violate("limit of a workflow", "%d runs of %s are active, at most %d may be", n, row.Name, row.MaxRuns)
		}
		v.active[row.ID] = [2]int32{n, row.MaxRuns}
	}
}
