package engine

import (
	"maps"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// A run passes two gates before it begins: its trigger's max_concurrent_runs, then its
// workflow's. Who passed the first keeps that place while it waits at the second. What a
// gate counts is derived from the runs in memory; nothing of it is stored but that a run is
// waiting.

// How far a run is: dag.Run.Gate.
const (
	gateNone   uint8 = iota // not counted
	atTrigger               // waits at its trigger's gate
	atWorkflow              // is through that, waits at its workflow's
	atCommons               // is through both, waits for what it names: see claim.go
	through
)

// gate counts the runs of a trigger, or with an empty name of a workflow.
type gate struct {
	past    int // through it and unfinished
	waiting dag.Queue
	// members are the unfinished runs of a trigger, waiting or not.
	members map[dag.RunID]*dag.Run
}

type gates struct {
	of map[store.TriggerKey]*gate
	// open holds the limits where a run may get through that could not before.
	open map[store.TriggerKey]bool
}

func (g *gates) forget() {
	g.of, g.open = map[store.TriggerKey]*gate{}, map[store.TriggerKey]bool{}
}

// reopen marks all limits with waiting runs to be tried again. The transaction that tried them, and the
// limits that it read, are undone.
func (g *gates) reopen() {
	for k, is := range g.of {
		if is.waiting.Len() > 0 {
			g.open[k] = true
		}
	}
}

func (w *writer) gate(k store.TriggerKey) *gate {
	g := w.gates.of[k]
	if g == nil {
		g = &gate{waiting: dag.Queue{Ageing: w.e.cfg.Ageing}}
		if k.Name != "" {
			g.members = map[dag.RunID]*dag.Run{}
		}
		w.gates.of[k] = g
	}
	return g
}

func workflowGate(r *dag.Run) store.TriggerKey { return store.TriggerKey{Workflow: r.Workflow} }

// triggerGate is the gate of the trigger that started r. A backfill has a bound of its own.
func triggerGate(r *dag.Run) (store.TriggerKey, bool) {
	if r.Fire == nil || r.Fire.Trigger == "" || r.Fire.Backfill != 0 {
		return store.TriggerKey{}, false
	}
	return store.TriggerKey{Workflow: r.Workflow, Name: r.Fire.Trigger}, true
}

// limit is how many runs may be through a gate; 0: any number. The limit of a trigger that
// the workflow does not declare any more is none.
func (w *writer) limit(k store.TriggerKey) (int, error) {
	if k.Name == "" {
		wf, err := w.workflow(k.Workflow)
		return int(wf.MaxRuns), err
	}
	t, err := w.trigger(k)
	if err != nil || t == nil {
		return 0, err
	}
	return int(t.MaxRuns), nil
}

// enter takes a new run as far as its gates let it, and then to what it names; why says what it
// waits for.
func (w *writer) enter(r *dag.Run) (why string, d *denial, err error) {
	if k, ok := triggerGate(r); ok && r.Gate == gateNone {
		r.Gate = atTrigger
		g := w.gate(k)
		g.members[r.ID] = r
		if why, err = w.try(k, g, r); why != "" || err != nil {
			return why, nil, err
		}
	}
	k := workflowGate(r)
	r.Gate = atWorkflow
	if why, err = w.try(k, w.gate(k), r); why != "" || err != nil {
		return why, nil, err
	}
	r.Gate = atCommons
	if why, d, err = w.queueUp(r); why == "" && d == nil && err == nil {
		r.Gate = through
	}
	return why, d, err
}

// try lets r through a limit, or makes it wait there.
func (w *writer) try(k store.TriggerKey, g *gate, r *dag.Run) (why string, err error) {
	if why, err = w.closed(k, g); why != "" || err != nil {
		if err == nil {
			g.waiting.Put(r)
		}
		return why, err
	}
	g.past++
	return "", nil
}

// closed says why a limit lets no other run through now. It returns "" if it does.
func (w *writer) closed(k store.TriggerKey, g *gate) (why string, err error) {
	limit, err := w.limit(k)
	if err != nil || limit == 0 || g == nil || g.past < limit && g.waiting.Len() == 0 {
		return "", err
	}
	what := "the workflow"
	if k.Name != "" {
		what = "trigger " + k.Name
	}
	return lets(what, limit), nil
}

// shut says at which of its gates a run that comes back has to wait, "" if there is room at all of them.
func (w *writer) shut(r *dag.Run) (why string, err error) {
	if k, ok := triggerGate(r); ok {
		why, err = w.closed(k, w.gates.of[k])
	}
	if why == "" && err == nil {
		why, err = w.closed(workflowGate(r), w.gates.of[workflowGate(r)])
	}
	return why, err
}

// count takes up a run as its rows have it: a waiting run is at its first limit.
func (w *writer) count(r *dag.Run) {
	k, triggered := triggerGate(r)
	if triggered {
		w.gate(k).members[r.ID] = r
	}
	switch {
	case r.State == dag.RunSubmitted:
		if triggered {
			delete(w.gate(k).members, r.ID)
		}
	case r.State == dag.RunWaiting && r.Claim == nil && triggered:
		r.Gate = atTrigger
		w.gate(k).waiting.Put(r)
		w.gates.open[k] = true
	case r.State == dag.RunWaiting && r.Claim == nil:
		r.Gate = atWorkflow
		w.gate(workflowGate(r)).waiting.Put(r)
		w.gates.open[workflowGate(r)] = true
	default:
		if r.Gate = through; r.State == dag.RunWaiting {
			r.Gate = atCommons
		}
		w.gate(workflowGate(r)).past++
		if triggered {
			w.gate(k).past++
		}
	}
}

// exit takes a run off its gates: it ended, or memory of it is given up.
func (w *writer) exit(r *dag.Run) {
	if r.Gate == gateNone {
		return
	}
	k := workflowGate(r)
	switch g := w.gate(k); r.Gate {
	case atCommons, through:
		g.past--
		w.opened(k, g)
	case atWorkflow:
		g.waiting.Remove(r)
		w.opened(k, g)
	}
	if k, ok := triggerGate(r); ok {
		g := w.gate(k)
		delete(g.members, r.ID)
		if r.Gate == atTrigger {
			g.waiting.Remove(r)
		} else {
			g.past--
		}
		w.opened(k, g)
	}
	r.Gate = gateNone
}

// again makes the runs that wait at their workflow's limit pass their trigger's limit again, because that has
// changed. A reload does the same with all waiting runs.
func (w *writer) again(k store.TriggerKey) {
	w.gates.open[k] = true
	g := w.gates.of[k]
	if g == nil {
		return
	}
	for _, r := range g.members {
		if r.Gate == atWorkflow {
			w.gate(workflowGate(r)).waiting.Remove(r)
			g.past--
			r.Gate = atTrigger
			g.waiting.Put(r)
		}
	}
}

// opened notes that a run may get through a limit, and forgets a limit without runs.
func (w *writer) opened(k store.TriggerKey, g *gate) {
	switch {
	case g.waiting.Len() > 0:
		w.gates.open[k] = true
	case g.past == 0 && len(g.members) == 0:
		delete(w.gates.of, k)
		delete(w.gates.open, k)
	}
}

// letThrough has the runs begin for which there is room now, best first.
func (w *writer) letThrough() error {
	for len(w.gates.open) > 0 && w.tx.rows < takeMax*rowsPerItem {
		keys := slices.SortedFunc(maps.Keys(w.gates.open), compareKeys)
		for _, k := range keys {
			delete(w.gates.open, k)
			if err := w.letAt(k); err != nil {
				return err
			}
		}
	}
	return nil
}

func compareKeys(a, b store.TriggerKey) int {
	if a.Workflow != b.Workflow {
		if a.Workflow < b.Workflow {
			return -1
		}
		return 1
	}
	switch { // a trigger's gate comes before its workflow's
	case a.Name == b.Name:
		return 0
	case a.Name > b.Name:
		return -1
	}
	return 1
}

func (w *writer) letAt(k store.TriggerKey) error {
	g := w.gates.of[k]
	if g == nil {
		return nil
	}
	limit, err := w.limit(k)
	if err != nil {
		return err
	}
	for g.waiting.Len() > 0 && (limit == 0 || g.past < limit) {
		if w.tx.rows >= takeMax*rowsPerItem {
			w.gates.open[k] = true // the next transaction goes on
			return nil
		}
		r := g.waiting.Head(w.tx.now.Wall)
		g.waiting.Remove(r)
		g.past++
		if k.Name == "" {
			r.Gate = atCommons
			if err := w.askFor(r); err != nil {
				return err
			}
			continue
		}
		switch why, d, err := w.enter(r); {
		case err != nil:
			return err
		case d != nil:
			w.deny(r, d)
		case why == "":
			w.admit(r)
		case r.Gate == atCommons:
			w.stepSelf(r, &dag.Event{Kind: dag.EvAdmit, Wait: why})
		}
	}
	return nil
}

// admit begins a run that is through.
func (w *writer) admit(r *dag.Run) {
	w.tx.rows += rowsPerItem
	w.tx.current = r
	ev := dag.Event{Kind: dag.EvAdmit, Graph: w.e.graphs.peek(r.Workflow, r.Version), Handler: w.e.me().ID}
	r.Step(&ev, w.tx.now, &w.tx.fx)
	w.touch(r)
	w.tx.current = nil
}
