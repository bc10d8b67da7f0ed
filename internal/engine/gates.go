package engine

import (
	"maps"
	"slices"
	"sort"

	"skein.dev/skein/internal/admission"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// A run passes two gates before it begins: first max_concurrent_runs of its trigger, then that of its
// workflow. A run that waits at the second gate still counts at the first gate. The counts of a gate are
// computed from the runs in memory. The store only records that a run is waiting.

// The progress of a run through its gates, in dag.Run.Gate.
const (
	gateNone   uint8 = iota // the run is not counted
	atTrigger               // the run waits at its trigger's gate
	atWorkflow              // the run has passed its trigger's gate, and waits at its workflow's gate
	atCommons               // the run has passed both gates, and waits for its queue or locks: see claim.go
	through
	beyond // the run ends at once, because a quota is used up; no gate counts the run
)

// gate counts the runs of a trigger or, if the name is empty, of a workflow. Invariant: no run is admitted
// while the count past has reached the limit. If this count is below the limit and a run waits, gates.open
// contains the gate.
type gate struct {
	past    int // unfinished runs that have passed the gate
	waiting dag.Queue
	// members are the unfinished runs of a trigger, waiting or not.
	members map[dag.RunID]*dag.Run
}

type gates struct {
	of map[store.TriggerKey]*gate
	// open holds the gates at which a run may now pass.
	open map[store.TriggerKey]bool
}

func (g *gates) forget() {
	g.of, g.open = map[store.TriggerKey]*gate{}, map[store.TriggerKey]bool{}
}

// reopen makes all waiting runs pass their gates again from the first gate on, as after a reload. It is
// called when a transaction is undone in which runs tried the gates, because that transaction may also have
// changed the limits of the gates. If that transaction moved a run from its trigger's gate to its workflow's
// gate, it did not change the run's row, so only the counts in memory have to be corrected.
func (g *gates) reopen() {
	for k, is := range g.of {
		if k.Name != "" {
			g.takeBack(is)
		}
		if is.waiting.Len() > 0 {
			g.open[k] = true
		}
	}
}

func (l *limits) gate(k store.TriggerKey) *gate {
	g := l.gates.of[k]
	if g == nil {
		g = &gate{waiting: dag.Queue{Ageing: l.ageing}}
		if k.Name != "" {
			g.members = map[dag.RunID]*dag.Run{}
		}
		l.gates.of[k] = g
	}
	return g
}

func workflowGate(r *dag.Run) store.TriggerKey { return store.TriggerKey{Workflow: r.Workflow} }

// triggerGate returns the gate of the trigger that started r. Runs of a backfill have no such gate, because a
// backfill has its own bound.
func triggerGate(r *dag.Run) (store.TriggerKey, bool) {
	if r.Fire == nil || r.Fire.Trigger == "" || r.Fire.Backfill != 0 {
		return store.TriggerKey{}, false
	}
	return store.TriggerKey{Workflow: r.Workflow, Name: r.Fire.Trigger}, true
}

// limit returns the largest number of unfinished runs that may have passed a gate. 0 means no bound. If the
// workflow no longer declares the trigger, there is no bound.
func (l *limits) limit(k store.TriggerKey) (int, error) {
	if k.Name == "" {
		wf, err := l.defs.workflow(k.Workflow)
		return int(wf.MaxRuns), err
	}
	t, err := l.trigger(k)
	if err != nil || t == nil {
		return 0, err
	}
	return int(t.MaxRuns), nil
}

// enter moves a new run through its gates as far as possible, and then to its claim. why is the reason if it
// has to wait.
func (l *limits) enter(r *dag.Run) (why string, d *admission.Denial, err error) {
	if r.Gate == gateNone {
		l.quotas.began(r)
	}
	if k, ok := triggerGate(r); ok && r.Gate == gateNone {
		r.Gate = atTrigger
		g := l.gate(k)
		g.members[r.ID] = r
		if why, err = l.try(k, g, r); why != "" || err != nil {
			return why, nil, err
		}
	}
	k := workflowGate(r)
	r.Gate = atWorkflow
	if why, err = l.try(k, l.gate(k), r); why != "" || err != nil {
		return why, nil, err
	}
	r.Gate = atCommons
	if why, d, err = l.queueUp(r); why == "" && d == nil && err == nil {
		r.Gate = through
	}
	return why, d, err
}

// try lets r pass a gate, or makes r wait there and returns the reason.
func (l *limits) try(k store.TriggerKey, g *gate, r *dag.Run) (why string, err error) {
	if why, err = l.closed(k, g); why != "" || err != nil {
		if err == nil {
			g.waiting.Put(r)
		}
		return why, err
	}
	g.past++
	return "", nil
}

// closed returns the reason why a gate lets no other run pass now, or "" if it lets one pass.
func (l *limits) closed(k store.TriggerKey, g *gate) (why string, err error) {
	limit, err := l.limit(k)
	if err != nil || limit == 0 || g == nil || g.past < limit && g.waiting.Len() == 0 {
		return "", err
	}
	what := "the workflow"
	if k.Name != "" {
		what = "trigger " + k.Name
	}
	return admission.Lets(what, limit), nil
}

// shut returns the reason of the first gate at which a returning run has to wait, or "" if the run can pass
// all its gates.
func (l *limits) shut(r *dag.Run) (why string, err error) {
	if k, ok := triggerGate(r); ok {
		why, err = l.closed(k, l.gates.of[k])
	}
	if why == "" && err == nil {
		why, err = l.closed(workflowGate(r), l.gates.of[workflowGate(r)])
	}
	return why, err
}

// count counts a loaded run according to its row: a waiting run is at its first gate.
func (l *limits) count(r *dag.Run) {
	k, triggered := triggerGate(r)
	if triggered {
		l.gate(k).members[r.ID] = r
	}
	switch {
	case r.State == dag.RunSubmitted:
		if triggered {
			delete(l.gate(k).members, r.ID)
		}
	case r.State == dag.RunWaiting && r.Claim == nil && triggered:
		r.Gate = atTrigger
		l.gate(k).waiting.Put(r)
		l.gates.open[k] = true
	case r.State == dag.RunWaiting && r.Claim == nil:
		r.Gate = atWorkflow
		l.gate(workflowGate(r)).waiting.Put(r)
		l.gates.open[workflowGate(r)] = true
	default:
		if r.Gate = through; r.State == dag.RunWaiting {
			r.Gate = atCommons
		}
		l.gate(workflowGate(r)).past++
		if triggered {
			l.gate(k).past++
		}
	}
}

// exit removes a run from its gates, because the run has ended, or leaves memory.
func (l *limits) exit(r *dag.Run) {
	if r.Gate == gateNone || r.Gate == beyond {
		r.Gate = gateNone
		return
	}
	k := workflowGate(r)
	switch g := l.gate(k); r.Gate {
	case atCommons, through:
		g.past--
		l.opened(k, g)
	case atWorkflow:
		g.waiting.Remove(r)
		l.opened(k, g)
	}
	if k, ok := triggerGate(r); ok {
		g := l.gate(k)
		delete(g.members, r.ID)
		if r.Gate == atTrigger {
			g.waiting.Remove(r)
		} else {
			g.past--
		}
		l.opened(k, g)
	}
	r.Gate = gateNone
}

// again moves the runs that wait at their workflow's gate back to their trigger's gate, because the limit of
// the trigger has changed. A reload does the same with all waiting runs.
func (l *limits) again(k store.TriggerKey) {
	l.gates.open[k] = true
	if g := l.gates.of[k]; g != nil {
		l.gates.takeBack(g)
	}
}

// takeBack moves the runs of a trigger that wait at their workflow's gate back to the trigger's gate.
func (g *gates) takeBack(at *gate) {
	for _, r := range at.members {
		if r.Gate != atWorkflow {
			continue
		}
		if of := g.of[workflowGate(r)]; of != nil { // after a failed read, r may be at no gate
			of.waiting.Remove(r)
		}
		at.past--
		r.Gate = atTrigger
		at.waiting.Put(r)
	}
}

// opened records that a run may pass a gate, and drops a gate without runs.
func (l *limits) opened(k store.TriggerKey, g *gate) {
	switch {
	case g.waiting.Len() > 0:
		l.gates.open[k] = true
	case g.past == 0 && len(g.members) == 0:
		delete(l.gates.of, k)
		delete(l.gates.open, k)
	}
}

// letThrough lets the runs pass that can pass their gates now, the best first.
func (l *limits) letThrough() error {
	for len(l.gates.open) > 0 && l.txn().rows < takeMax*rowsPerItem {
		keys := slices.Collect(maps.Keys(l.gates.open))
		sort.Slice(keys, func(i, j int) bool { return compareKeys(keys[i], keys[j]) < 0 })
		for _, k := range keys {
			delete(l.gates.open, k)
			if err := l.letAt(k, l.expr.full); err != nil || l.expr.full() {
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
	switch { // the gate of a trigger comes before the gate of its workflow
	case a.Name == b.Name:
		return 0
	case a.Name > b.Name:
		return -1
	}
	return 1
}

// letAt lets waiting runs pass a gate: at least one run, and further runs until the transaction is full.
func (l *limits) letAt(k store.TriggerKey, full func() bool) error {
	g := l.gates.of[k]
	if g == nil {
		return nil
	}
	limit, err := l.limit(k)
	if err != nil {
		return err
	}
	for n := 0; g.waiting.Len() > 0 && (limit == 0 || g.past < limit); n++ {
		if l.txn().rows >= takeMax*rowsPerItem || n > 0 && full() {
			l.gates.open[k] = true // the next transaction continues at this gate
			return nil
		}
		r := g.waiting.Head(l.txn().now.Wall)
		g.waiting.Remove(r)
		g.past++
		if k.Name == "" {
			r.Gate = atCommons
			if err := l.askFor(r); err != nil {
				return err
			}
			continue
		}
		switch why, d, err := l.enter(r); {
		case err != nil:
			return err
		case d != nil:
			l.deny(r, d)
		case why == "":
			l.admit(r)
		case r.Gate == atCommons:
			l.stepSelf(r, dag.Event{Kind: dag.EvAdmit, Wait: why})
		}
	}
	return nil
}

// cancelMembers stops the runs that a trigger has started. Waiting runs end at once.
func (l *limits) cancelMembers(g *gate, why string) {
	for _, r := range sortedRuns(g.members) {
		l.txn().rows += rowsPerItem
		l.stepSelf(r, dag.Event{Kind: dag.EvIntent, Intent: dag.IntentStop, Actor: "skein", Reason: why})
	}
}
