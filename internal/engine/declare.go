package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// triggers are the rows of triggers as this owner knows them; nil: there is none of that
// key. As it alone changes them, what is here is exact.
type triggers struct {
	known map[store.TriggerKey]*store.Trigger
	// touched are those written, or given up, since the look under way began: what it has
	// read of any other is how the row is.
	touched map[store.TriggerKey]bool
	// heard says of workflows whether a trigger listens to the ends of their runs.
	heard      map[dag.WorkflowID]bool
	heardSince time.Time
}

// triggersMax bounds the triggers in memory. A dropped one is read again when needed.
const triggersMax = 10_000

func (t *triggers) forget() {
	t.known, t.heard = map[store.TriggerKey]*store.Trigger{}, map[dag.WorkflowID]bool{}
}

func (t *triggers) touch(k store.TriggerKey) {
	if t.touched != nil {
		t.touched[k] = true
	}
}

func (t *triggers) trim() {
	if len(t.known) > triggersMax || len(t.heard) > triggersMax {
		t.forget()
	}
}

// trigger gives a trigger as it is in the transaction being made, or nil.
func (w *writer) trigger(k store.TriggerKey) (*store.Trigger, error) {
	if t, ok := w.triggers.known[k]; ok {
		return t, nil
	}
	t, err := w.e.store.Trigger(context.Background(), k.Workflow, k.Name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		w.triggers.known[k] = nil
		return nil, nil
	case err != nil:
		return nil, fromStore("read trigger "+k.Name, err)
	}
	w.triggers.known[k] = &t
	return &t, nil
}

func keyOfTrigger(t *store.Trigger) store.TriggerKey {
	return store.TriggerKey{Workflow: t.Workflow, Name: t.Name}
}

// putTrigger writes a changed row. A second change in one transaction goes into the row of
// the first: an engine may apply a batch as sets.
func (w *writer) putTrigger(t store.Trigger) {
	k := keyOfTrigger(&t)
	t.Modified = w.tx.now.Wall
	b := &w.tx.batch
	same := func(o store.Trigger) bool { return o.Workflow == t.Workflow && o.Name == t.Name }
	if w.tx.written[k] {
		if is := w.triggers.known[k]; is != nil {
			t.Revision = is.Revision // the caller's copy may be from before
		}
		if i := slices.IndexFunc(b.TriggerInserts, same); i >= 0 {
			b.TriggerInserts[i] = t
		} else if i := slices.IndexFunc(b.TriggerUpdates, same); i >= 0 {
			b.TriggerUpdates[i] = t
		}
	} else {
		t.Revision++
		b.TriggerUpdates = append(b.TriggerUpdates, t)
		w.tx.written[k] = true
	}
	w.triggers.known[k] = &t
	w.triggers.touch(k)
	w.due.sooner(t.Next)
}

func (w *writer) insertTrigger(t store.Trigger) {
	k := keyOfTrigger(&t)
	t.Revision, t.Created, t.Modified = 1, w.tx.now.Wall, w.tx.now.Wall
	w.tx.declared = true
	w.again(k) // runs of one of that name may be waiting
	if w.restored(t) {
		return
	}
	w.tx.batch.TriggerInserts = append(w.tx.batch.TriggerInserts, t)
	w.tx.written[k] = true
	w.triggers.known[k] = &t
	w.due.sooner(t.Next)
}

// restored makes a row that was deleted in this transaction, and is declared again in it, one
// that is changed: an engine inserts before it deletes.
func (w *writer) restored(t store.Trigger) bool {
	b := &w.tx.batch
	i := slices.IndexFunc(b.TriggerDeletes, func(o store.Trigger) bool { return o.Workflow == t.Workflow && o.Name == t.Name })
	if i < 0 {
		return false
	}
	t.Revision, t.Created = b.TriggerDeletes[i].Revision, b.TriggerDeletes[i].Created
	b.TriggerDeletes = slices.Delete(b.TriggerDeletes, i, i+1)
	w.putTrigger(t)
	return true
}

func (w *writer) deleteTrigger(t *store.Trigger) {
	w.tx.batch.TriggerDeletes = append(w.tx.batch.TriggerDeletes, *t)
	w.tx.declared = true
	w.triggers.known[keyOfTrigger(t)] = nil
	w.triggers.touch(keyOfTrigger(t))
	w.gates.open[keyOfTrigger(t)] = true // it has no limit any more
}

// settleChanged decides what the triggers that a declaration changes or drops owe by now, with
// what they were: an edit neither fires the past nor swallows it.
func (w *writer) settleChanged(wf *store.Workflow, d *Declaration) error {
	is, err := w.triggersOf(wf.ID)
	if err != nil {
		return err
	}
	for i := range d.Triggers {
		if t := is[d.Triggers[i].Name]; t != nil && sameTrigger(t, &d.Triggers[i]) {
			delete(is, t.Name)
		}
	}
	now := w.dueNow()
	for _, name := range sortedNames(is) {
		if _, err := w.settled(is[name], now); err != nil {
			return fmt.Errorf("trigger %s: %w", name, err)
		}
	}
	return nil
}

func sameTrigger(a, b *store.Trigger) bool { return a.Kind == b.Kind && bytes.Equal(a.Spec, b.Spec) }

// declare makes the rows of a workflow's triggers what its current version says, once those
// that change are settled.
func (w *writer) declare(wf *store.Workflow, d *Declaration) error {
	is, err := w.triggersOf(wf.ID)
	if err != nil {
		return err
	}
	now := w.dueNow()
	for i := range d.Triggers {
		t := d.Triggers[i]
		t.Workflow, t.Shard, t.Version = wf.ID, wf.Shard, wf.Version
		if err := w.declareOne(is[t.Name], t, now); err != nil {
			return fmt.Errorf("trigger %s: %w", t.Name, err)
		}
		delete(is, t.Name)
	}
	for _, name := range sortedNames(is) {
		w.deleteTrigger(is[name])
	}
	clear(w.triggers.heard)
	return nil
}

func (w *writer) declareOne(was *store.Trigger, t store.Trigger, now dag.Micros) error {
	w.tx.rows++
	switch {
	case was == nil:
		if err := w.e.cfg.Planner.Begin(&t, now); err != nil {
			return err
		}
		w.insertTrigger(t)
		return nil
	case sameTrigger(was, &t):
		return nil
	}
	t.Revision, t.Created, t.Fired = was.Revision, was.Created, 0
	if t.Kind == was.Kind {
		t.Data, t.Since = was.Data, was.Since // Begin keeps of it what outlives an edit
	}
	if err := w.e.cfg.Planner.Begin(&t, now); err != nil {
		return err
	}
	if was.State == store.TriggerPaused && was.Actor != "" && t.State == store.TriggerActive { // a person paused it
		t.State, t.Actor, t.Reason, t.Next = store.TriggerPaused, was.Actor, was.Reason, 0
	}
	w.putTrigger(t)
	w.tx.declared = true
	w.again(keyOfTrigger(&t))
	return nil
}

// settled decides what a trigger owes by now, or let pass while it was paused, and gives its
// row after that.
func (w *writer) settled(t *store.Trigger, now dag.Micros) (*store.Trigger, error) {
	for t.State != store.TriggerEnded {
		var plan Plan
		var err error
		switch {
		case t.State == store.TriggerPaused:
			plan, err = w.e.cfg.Planner.Passed(t, now, pausedReason(t))
		case t.Next != 0 && t.Next <= now && w.byHand():
			plan, err = w.e.cfg.Planner.Passed(t, now, "no server ran to start it, and then the trigger was changed")
		case w.tx.rows >= takeMax*rowsPerItem: // more is due than one transaction can start
			plan, err = w.e.cfg.Planner.Passed(t, now, "the trigger was changed when more was due than is started at once")
		default:
			plan, err = w.e.cfg.Planner.Plan(t, now)
		}
		if err != nil { // a damaged row: its due instants cannot be computed, and it must be possible to replace it
			return t, w.undecided(t, now, err)
		}
		was := *t
		if err := w.carryOut(t, &plan); err != nil {
			return nil, err
		}
		if t, err = w.trigger(keyOfTrigger(t)); err != nil {
			return nil, err
		}
		if t.State != store.TriggerActive || t.Next == 0 || t.Next > now || t.Next == was.Next && t.Decided == was.Decided {
			break
		}
	}
	return t, nil
}

// undecided says in the ledger that a trigger whose row cannot be understood had something
// due.
func (w *writer) undecided(t *store.Trigger, now dag.Micros, cause error) error {
	w.e.log.Error("the due fires of a trigger cannot be computed", "code", "trigger_plan_failed", "trigger", t.Name, "workflow", int64(t.Workflow), "err", cause)
	if t.Next == 0 || t.Next > now {
		return nil
	}
	return w.line(store.Fire{Workflow: t.Workflow, Trigger: t.Name, At: t.Next, Last: t.Next, Count: 1,
		Outcome: store.OutcomeMissed, Reason: "its declaration cannot be read: " + cause.Error()})
}

func pausedReason(t *store.Trigger) string {
	switch {
	case t.Actor == "" && t.Reason != "":
		return t.Reason
	case t.Actor == "":
		return "the trigger is declared paused"
	case t.Reason == "":
		return "paused by " + t.Actor
	}
	return "paused by " + t.Actor + ": " + t.Reason
}

// triggersOf reads the rows of a workflow's triggers, as they are in this transaction.
func (w *writer) triggersOf(id dag.WorkflowID) (map[string]*store.Trigger, error) {
	all := map[string]*store.Trigger{}
	if id == 0 {
		return all, nil
	}
	for k, t := range w.triggers.known {
		if k.Workflow == id && t != nil {
			all[k.Name] = t
		}
	}
	after := store.TriggerKey{Workflow: id}
	for {
		page, err := w.e.store.Triggers(context.Background(), store.TriggerQuery{Workflow: id, After: after, Limit: loadPage})
		if err != nil {
			return nil, fromStore("read the workflow's triggers", err)
		}
		for i := range page {
			t := &page[i]
			after = keyOfTrigger(t)
			if is, known := w.triggers.known[after]; known && is == nil {
				continue // deleted in this transaction
			} else if known {
				t = is
			}
			all[t.Name] = t
		}
		if len(page) < loadPage {
			return all, nil
		}
	}
}

func sortedNames(m map[string]*store.Trigger) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// PauseTrigger stops a trigger from firing, or lets it fire again. The instants that pass meanwhile are
// recorded as skipped, in one line. once is as in SetState.
func (e *Engine) PauseTrigger(ctx context.Context, k store.TriggerKey, p Pause, once *store.Request) error {
	if err := checkTexts("reason", p.Reason, "actor", p.Actor); err != nil {
		return err
	}
	clock, err := e.readClock(ctx)
	if err != nil {
		return err
	}
	return e.operate(ctx, once, func(w *writer) answer {
		w.goBy(clock)
		return answer{err: w.pauseTrigger(k, p)}
	})
}

// Pause says who pauses or resumes a trigger, and why.
type Pause struct {
	Resume bool
	Actor  string
	Reason string
}

func (w *writer) pauseTrigger(k store.TriggerKey, p Pause) error {
	t, err := w.trigger(k)
	switch {
	case err != nil:
		return err
	case t == nil:
		return fmt.Errorf("trigger %s: %w", k.Name, ErrNotFound)
	case w.held(t.Shard) == nil:
		return w.here(t.Shard)
	case t.State == store.TriggerEnded:
		return fmt.Errorf("%w: trigger %s has ended: %s", ErrConflict, k.Name, t.Reason)
	case p.Resume == (t.State == store.TriggerActive):
		return nil // it is so already
	}
	if _, err := w.e.cfg.Planner.Policy(t); p.Resume && err != nil {
		return fmt.Errorf("%w: its declaration cannot be read: %w", ErrConflict, err)
	}
	now := w.dueNow()
	if t, err = w.settled(t, now); err != nil {
		w.broken(err) // some of what was due may be decided in this transaction by now
		return err
	}
	next := *t
	switch {
	case t.State == store.TriggerEnded: // its last instant was due just now
		return nil
	case !p.Resume:
		next.State, next.Actor, next.Reason, next.Next = store.TriggerPaused, firstOf(p.Actor, "an operator"), p.Reason, 0
	default:
		next.State, next.Actor, next.Reason = store.TriggerActive, "", ""
		if t.Kind == kindFile {
			next.Since = now // a file that arrived during the pause counts as present before
		}
		clear(w.triggers.heard) // it listens again
	}
	w.putTrigger(next)
	w.tx.declared = true
	return nil
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// operate has the writer change triggers or backfills in its next transaction.
func (e *Engine) operate(ctx context.Context, once *store.Request, op func(w *writer) answer) error {
	_, err := e.operated(ctx, once, op)
	return err
}

func (e *Engine) operated(ctx context.Context, once *store.Request, op func(w *writer) answer) (answer, error) {
	if err := e.Accepting(); err != nil {
		return answer{}, err
	}
	it := item{op: op}
	if once != nil {
		req := *once
		if err := checkTexts("scope", req.Scope, "idempotency key", req.Key); err != nil {
			return answer{}, err
		}
		it.req = &req
	}
	return e.writer.inbox.send(ctx, it)
}
