package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// In a world with handles, attempts begin work outside of their processes, and errands end that work. The
// world knows all work that exists outside. After each commit the witness checks that each piece of work has
// an attempt, an errand or an orphan.

// outside records the work that exists outside of the processes of attempts.
type outside struct {
	errands flow                  // the workflow of errands; its row is empty until it exists
	works   map[string]attemptKey // handle → the attempt that began the work
	made    int                   // number of handles made so far
	// early holds the handles whose release began before the workflow of errands existed, with the epoch of
	// that time.
	early map[attemptKey]int64
}

// errandTries bounds the attempts of an errand.
const errandTries = 100

// errandPlan returns the graph of an errand.
var errandPlan = sync.OnceValue(func() *plan {
	return newPlan([][]int{nil}, func(_ int, t *dag.TaskSpec, _ *plan) {
		t.Name, t.Policy.Retry.Max = engine.ReleaseTask, errandTries
	}, false, 0)
})

// handlePlans returns random graphs whose tasks have handles.
var handlePlans = sync.OnceValue(func() (all []*plan) {
	for r := rand.New(rand.NewPCG(11, 11)); len(all) < plansMax/2; {
		p := randomPlan(r)
		all = append(all, newPlan(p.needs, func(i int, t *dag.TaskSpec, made *plan) {
			made.ifs[i], t.Policy = p.ifs[i], p.policies[i]
			t.Policy.Release = r.IntN(4) > 0
			t.Policy.Adopts = t.Policy.Release && r.IntN(2) == 0
			if t.Policy.Release && r.IntN(3) == 0 {
				t.Policy.ReleaseTimeout = time.Duration(1+r.IntN(20)) * time.Second
			}
		}, p.endOnFailure, p.g.Timeout))
	}
	return all
})

// drawHandles adjusts the faults of a world with handles, so that attempts end in all possible ways.
func drawHandles(w *World) {
	if s := &w.swarm; w.stage.Handles {
		s.triggers, s.limit, s.crash = false, false, max(s.crash, 2)
		s.poison, s.badRuns = 0, 0 // no run is quarantined, because its handles would be quarantined, too
		s.verbs, s.long, s.fail, s.stray = 2, max(s.long, 30), max(s.fail, 20), max(s.stray, 5)
	}
}

// flowOf returns a workflow. Every workflow that the world did not make is that of the errands.
func flowOf(w *World, id dag.WorkflowID) *flow {
	if int(id) > len(w.flows) {
		return &w.outside.errands
	}
	return &w.flows[id-1]
}

// makeRelease returns a function that makes the workflow of errands, as package recovery does. If another
// node owns its shard, the function asks that node and returns ErrUnavailable.
func makeRelease(w *World, l *life) func(context.Context) error {
	const shard = dag.ShardID(0)
	return func(ctx context.Context) error {
		if l.dead || w.outage || l.cut {
			return errkind.ErrUnavailable
		}
		if errandsExist(w) {
			return nil
		}
		make := func(to *life) error {
			p, beside := errandPlan(), shard
			_, _, err := to.eng.Apply(ctx, engine.Definition{Namespace: engine.SystemNamespace, Name: engine.ReleaseName,
				Graph: p.packed, Digest: []byte{1}, User: "skein", Beside: &beside})
			return err
		}
		owner := w.shardOwner(shard)
		switch {
		case owner == nil || owner.eng == nil || owner.frozen:
			return errkind.ErrUnavailable
		case owner != l:
			w.spawn(owner, "apply", func() { _ = make(owner) })
			return errkind.ErrUnavailable // the workflow will exist soon
		}
		return make(l)
	}
}

func errandsExist(w *World) bool {
	w.aside++
	defer func() { w.aside-- }()
	_, err := w.st.Workflow(context.Background(), engine.SystemNamespace, engine.ReleaseName)
	return err == nil
}

// reaches decides at random what an attempt does outside of its process.
func (wk *worker) reaches(at *attempt, a *engine.Assignment) {
	w := wk.life.w
	switch {
	case !w.stage.Handles:
		return
	case int(a.Workflow) > len(w.flows):
		at.releases = releasedBy(w, a.Run)
		return
	case a.Graph == nil || !a.Graph.Policy(a.Task).Release:
		return
	}
	found := earlier(w, at)
	if at.found = found; w.chance(20) {
		return // this attempt begins no work outside of its process
	}
	if at.handle = ""; len(found) > 0 && !w.chance(20) {
		at.handle = found[w.rng.IntN(len(found))]
	}
	w.after(time.Duration(w.rng.IntN(30)+1)*time.Millisecond, func() { wk.life.do(func() { wk.names(at) }) })
}

// names begins work outside of the process, or continues earlier work, and sets the attempt's handle.
func (wk *worker) names(at *attempt) {
	w := wk.life.w
	if at.over {
		return
	}
	if at.handle == "" {
		w.outside.made++
		at.handle = fmt.Sprintf("job-%d", w.outside.made)
		w.outside.works[at.handle] = at.attemptKey
		w.count("work outside")
	} else {
		w.count("adopted work")
	}
	w.tell("%s: %s names %s", wk.life, w.name(at.attemptKey), at.handle)
	at.result.Handle, at.result.Adopts = at.handle, at.task%2 == 1 // Adopts is a constant of the task's kind
	if w.rng.IntN(3) > 0 {
		wk.life.eng.Report(engine.Report{Run: at.run, Task: at.task, Token: at.token, Started: wk.told(), Handle: at.handle, Adopts: at.result.Adopts})
	}
}

// overOutside ends the outside work of an attempt that succeeds.
func overOutside(w *World, at *attempt, s dag.AttemptState) {
	if s != dag.AttemptSucceeded || !w.stage.Handles {
		return
	}
	gone := []string{at.result.Handle, at.releases}
	if at.result.Handle == "" {
		gone = append(gone, at.found...)
	}
	for _, name := range gone {
		delete(w.outside.works, name)
	}
	if at.releases != "" {
		w.count("released work")
	}
}

// earlier returns the handles of earlier attempts of a task that are not released, as a real attempt gets
// them in $SKEIN_EARLIER.
func earlier(w *World, at *attempt) (names []string) {
	w.aside++
	defer func() { w.aside-- }()
	rows, err := w.st.Attempts(context.Background(), store.AttemptQuery{Run: at.run, Task: at.task, One: true, Outputs: true})
	must(err)
	for i := range rows {
		if h, ok := dag.HandleOf(&rows[i]); ok && rows[i].Token < at.token && h.State == dag.HandleHeld {
			names = append(names, h.Text)
		}
	}
	return names
}

// releasedBy returns the handle that an errand releases.
func releasedBy(w *World, id dag.RunID) string {
	row, _ := w.peekRun(id)
	return errandParams(&row).Handle
}

func errandParams(row *dag.RunRow) (p engine.ErrandParams) {
	if len(row.Params) > 0 {
		must(json.Unmarshal(row.Params, &p))
	}
	return p
}

// handles checks, after each commit, that each piece of outside work has an attempt, an errand or an orphan.
func (v *witness) handles() {
	w := v.w
	if !w.stage.Handles {
		return
	}
	named := map[string]bool{}
	for _, id := range v.order {
		sh := v.runs[id]
		if sh.row.Workflow > dag.WorkflowID(len(w.flows)) {
			for _, f := range judgeErrand(&sh.row, v.runs) {
				w.violate(f.rule, "errand %s: %s", w.runName(id), f.what)
			}
			continue
		}
		v.noteEarly(sh)
		for _, f := range judgeHandles(&sh.row, sh.attempts, named) {
			w.violate(f.rule, "run %s: %s", w.runName(id), f.what)
		}
	}
	for name := range named {
		v.named[name] = true
	}
	for _, name := range w.outside.sorted() {
		if v.named[name] && !named[name] {
			w.violate("work outside", "%s exists, and no attempt, errand or orphan has it", name)
		}
	}
}

// noteEarly records the handles whose release begins before the workflow of errands exists. If the owner of
// the run ends before it starts the errand, and the handle is an orphan by then, no errand is started.
func (v *witness) noteEarly(sh *shadow) {
	for i := range sh.attempts {
		a := &sh.attempts[i]
		k := attemptKey{a.Run, a.Task, a.Token}
		if _, known := v.w.outside.early[k]; known {
			continue
		}
		if h, ok := dag.HandleOf(a); ok && h.State != dag.HandleHeld && !errandsExist(v.w) {
			v.w.outside.early[k] = v.epoch[sh.row.Shard]
		}
	}
}

func (o *outside) sorted() (names []string) {
	for name := range o.works {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// judgeHandles checks the handles of a run, and adds them to named.
func judgeHandles(r *dag.RunRow, attempts []dag.AttemptRow, named map[string]bool) (fs findings) {
	live, holds := map[dag.TaskID]bool{}, map[string]bool{}
	for i := range attempts {
		a := &attempts[i]
		if a.State.Ended() || a.Handler == 0 {
			continue
		}
		live[a.Task] = true
		if h, ok := dag.HandleOf(a); ok {
			holds[h.Text] = true
		}
	}
	for i := range attempts {
		a := &attempts[i]
		h, ok := dag.HandleOf(a)
		if !ok {
			continue
		}
		named[h.Text] = true
		what := fmt.Sprintf("%s of attempt %d of task %d is %s", h.Text, a.Token, a.Task, h.State)
		switch {
		case !a.State.Ended() && h.State != dag.HandleHeld:
			fs.add("held", "%s, and the attempt is %s", what, a.State)
		case r.State.Terminal() && r.Cause != dag.CauseCorrupt && h.State != dag.HandleOrphan:
			fs.add("released before the end", "%s, and the run is %s", what, r.State)
		case a.State.Ended() && a.State != dag.AttemptLost && h.State == dag.HandleHeld:
			fs.add("held", "%s, and the attempt is %s", what, a.State)
		case h.State == dag.HandleReleasing && live[a.Task]:
			fs.add("released before the next", "%s, and the task is given away", what)
		case a.State.Ended() && h.State != dag.HandleHeld && holds[h.Text]:
			fs.add("held", "%s, and a live attempt holds it", what)
		}
	}
	return fs
}

// judgeErrand checks an unfinished errand: its handle must be in the state releasing, or be an orphan.
func judgeErrand(r *dag.RunRow, runs map[dag.RunID]*shadow) (fs findings) {
	if r.State.Terminal() {
		return nil
	}
	p := errandParams(r)
	if of := runs[p.Run]; of != nil {
		for i := range of.attempts {
			a := &of.attempts[i]
			if h, ok := dag.HandleOf(a); ok && a.Task == p.Task && a.Token == p.Token && h.Text == p.Handle && h.State != dag.HandleHeld {
				return nil
			}
		}
	}
	fs.add("errand", "it is %s, and %s of attempt %d of task %d is not to be released", r.State, p.Handle, p.Token, p.Task)
	return fs
}

// closeHandles checks the handles at the end of a history. An orphan may remain only if its errand has failed
// or was lost.
func (v *witness) closeHandles() {
	for _, id := range v.order {
		sh := v.runs[id]
		if !v.w.stage.Handles || sh.row.Cause == dag.CauseCorrupt {
			continue
		}
		for i := range sh.attempts {
			a := &sh.attempts[i]
			h, ok := dag.HandleOf(a)
			if !ok {
				continue
			}
			of := v.runs[dag.ChildID(a)]
			epoch, early := v.w.outside.early[attemptKey{id, a.Task, a.Token}]
			lost := of == nil && early && epoch != v.epoch[sh.row.Shard]
			if !lost && (of == nil || !of.row.State.Terminal() || of.row.State == dag.RunSucceeded) {
				v.w.violate("errand", "%s of attempt %s is %s, and no errand has failed: %+v", h.Text, v.w.name(attemptKey{id, a.Task, a.Token}), h.State, of)
			}
			v.w.count("orphan that stays")
		}
	}
}

// bare returns copies of attempts without their handles. Handles change even after the end of an attempt.
func bare(attempts []dag.AttemptRow) []dag.AttemptRow {
	out := slices.Clone(attempts)
	for i := range out {
		if _, ok := dag.HandleOf(&out[i]); ok {
			out[i].Outputs = nil
		}
	}
	return out
}

// handleOf returns the state of an attempt's handle in the store.
func (v *view) handleOf(of *dag.AttemptRow) dag.HandleState {
	if sh := v.l.w.witness.runs[of.Run]; sh != nil {
		for i := range sh.attempts {
			if a := &sh.attempts[i]; a.Task == of.Task && a.Token == of.Token {
				h, _ := dag.HandleOf(a)
				return h.State
			}
		}
	}
	return ""
}

// Run can play a mutant: an engine that never starts an errand for a handle that was stored earlier, because
// it believes that the errand's run exists.
func (v *view) Run(ctx context.Context, id dag.RunID) (dag.RunRow, error) {
	row, err := v.Store.Run(ctx, id)
	if !v.m.noErrand || err == nil {
		return row, err
	}
	for _, sh := range v.l.w.witness.runs {
		for i := range sh.attempts {
			if a := &sh.attempts[i]; dag.ChildID(a) == id && v.handleOf(a) == dag.HandleReleasing {
				return row, nil
			}
		}
	}
	return row, err
}
