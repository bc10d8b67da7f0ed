package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// triggers holds the rows of triggers as this owner knows them; a nil entry means that there is no row with
// that key. Only the owner changes the rows, so the memory is exact.
type triggers struct {
	known map[store.TriggerKey]*store.Trigger
	// touched are the triggers that were written or dropped since the current read of due rows began. For
	// any other trigger, the row of that read is current.
	touched map[store.TriggerKey]bool
	// heard holds, by workflow, whether a trigger reacts to the ends of its runs.
	heard      map[dag.WorkflowID]bool
	heardSince time.Time
}

// triggersMax bounds the triggers in memory. A trigger that was dropped is read again when it is needed.
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

// trigger returns a trigger as the transaction being made leaves it, or nil.
func (s *schedule) trigger(k store.TriggerKey) (*store.Trigger, error) {
	if t, ok := s.triggers.known[k]; ok {
		return t, nil
	}
	t, err := s.store.Trigger(context.Background(), k.Workflow, k.Name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		s.triggers.known[k] = nil
		return nil, nil
	case err != nil:
		return nil, errkind.FromStore("read trigger "+k.Name, err)
	}
	s.triggers.known[k] = &t
	return &t, nil
}

// owned does the same as trigger, but returns an error if there is no trigger, or if another node owns it.
func (s *schedule) owned(k store.TriggerKey) (*store.Trigger, error) {
	t, err := s.trigger(k)
	switch {
	case err != nil:
		return nil, err
	case t == nil:
		return nil, fmt.Errorf("trigger %s: %w", k.Name, errkind.ErrNotFound)
	}
	return t, s.here(t.Shard)
}

func keyOfTrigger(t *store.Trigger) store.TriggerKey {
	return store.TriggerKey{Workflow: t.Workflow, Name: t.Name}
}

// putTrigger writes a changed row. If the transaction changes a trigger twice, the second change goes into
// the same row, because a store may apply the rows of a batch in any order.
func (s *schedule) putTrigger(t store.Trigger) {
	k := keyOfTrigger(&t)
	t.Modified = s.txn().now.Wall
	b := &s.txn().batch
	same := func(o store.Trigger) bool { return o.Workflow == t.Workflow && o.Name == t.Name }
	if s.txn().written[k] {
		if is := s.triggers.known[k]; is != nil {
			t.Revision = is.Revision // the caller's copy may be out of date
		}
		if i := slices.IndexFunc(b.TriggerInserts, same); i >= 0 {
			b.TriggerInserts[i] = t
		} else if i := slices.IndexFunc(b.TriggerUpdates, same); i >= 0 {
			b.TriggerUpdates[i] = t
		}
	} else {
		t.Revision++
		b.TriggerUpdates = append(b.TriggerUpdates, t)
		s.txn().written[k] = true
	}
	s.triggers.known[k] = &t
	s.triggers.touch(k)
	s.due.sooner(t.Next)
}

func (s *schedule) insertTrigger(t store.Trigger) {
	k := keyOfTrigger(&t)
	t.Revision, t.Created, t.Modified = 1, s.txn().now.Wall, s.txn().now.Wall
	s.txn().declared = true
	s.limits.again(k) // runs of an earlier trigger with this name may be waiting at its gate
	if s.restored(t) {
		return
	}
	s.txn().batch.TriggerInserts = append(s.txn().batch.TriggerInserts, t)
	s.txn().written[k] = true
	s.triggers.known[k] = &t
	s.due.sooner(t.Next)
}

// restored handles a trigger that is deleted and declared again in one transaction. It turns the two changes
// into an update, because a store inserts before it deletes.
func (s *schedule) restored(t store.Trigger) bool {
	b := &s.txn().batch
	i := slices.IndexFunc(b.TriggerDeletes, func(o store.Trigger) bool { return o.Workflow == t.Workflow && o.Name == t.Name })
	if i < 0 {
		return false
	}
	t.Revision, t.Created = b.TriggerDeletes[i].Revision, b.TriggerDeletes[i].Created
	b.TriggerDeletes = slices.Delete(b.TriggerDeletes, i, i+1)
	s.putTrigger(t)
	return true
}

func (s *schedule) deleteTrigger(t *store.Trigger) {
	s.txn().batch.TriggerDeletes = append(s.txn().batch.TriggerDeletes, *t)
	s.txn().declared = true
	s.triggers.known[keyOfTrigger(t)] = nil
	s.triggers.touch(keyOfTrigger(t))
	s.limits.gates.open[keyOfTrigger(t)] = true // the trigger has no limit any more
}

// settleChanged decides the due instants of triggers that a declaration changes or drops. It uses their old
// declaration. So an edit neither fires past instants nor loses due ones.
func (s *schedule) settleChanged(wf *store.Workflow, d *Declaration) error {
	is, err := s.triggersOf(wf.ID)
	if err != nil {
		return err
	}
	for i := range d.Triggers {
		if t := is[d.Triggers[i].Name]; t != nil && sameTrigger(t, &d.Triggers[i]) {
			delete(is, t.Name)
		}
	}
	now := s.dueNow()
	for _, name := range sortedNames(is) {
		if _, err := s.settled(is[name], now); err != nil {
			return fmt.Errorf("trigger %s: %w", name, err)
		}
	}
	return nil
}

func sameTrigger(a, b *store.Trigger) bool { return a.Kind == b.Kind && bytes.Equal(a.Spec, b.Spec) }

// declare makes the rows of a workflow's triggers equal to its current version. The caller must have settled
// the changed triggers before (settleChanged).
func (s *schedule) declare(wf *store.Workflow, d *Declaration) error {
	is, err := s.triggersOf(wf.ID)
	if err != nil {
		return err
	}
	now := s.dueNow()
	for i := range d.Triggers {
		t := d.Triggers[i]
		t.Workflow, t.Shard, t.Version = wf.ID, wf.Shard, wf.Version
		if err := s.declareOne(is[t.Name], t, now); err != nil {
			return fmt.Errorf("trigger %s: %w", t.Name, err)
		}
		delete(is, t.Name)
	}
	for _, name := range sortedNames(is) {
		s.deleteTrigger(is[name])
	}
	clear(s.triggers.heard)
	return nil
}

func (s *schedule) declareOne(was *store.Trigger, t store.Trigger, now dag.Micros) error {
	s.txn().rows++
	switch {
	case was == nil:
		if err := s.planner.Begin(&t, now); err != nil {
			return err
		}
		s.insertTrigger(t)
		return nil
	case sameTrigger(was, &t):
		return nil
	}
	t.Revision, t.Created, t.Fired = was.Revision, was.Created, 0
	t.Data = was.Data // Begin keeps the part of Data and Since that survives an edit
	if t.Kind == was.Kind {
		t.Since = was.Since
	}
	if err := s.planner.Begin(&t, now); err != nil {
		return err
	}
	// a person paused the trigger, so it stays paused
	if was.State == store.TriggerPaused && was.Actor != "" && t.State == store.TriggerActive {
		t.State, t.Actor, t.Reason, t.Next = store.TriggerPaused, was.Actor, was.Reason, 0
	}
	s.putTrigger(t)
	s.txn().declared = true
	s.limits.again(keyOfTrigger(&t))
	return nil
}

// settled decides the due instants of a trigger, and those that passed while it was paused. It returns the
// trigger's row with these decisions.
func (s *schedule) settled(t *store.Trigger, now dag.Micros) (*store.Trigger, error) {
	for t.State != store.TriggerEnded {
		var plan Plan
		var err error
		switch {
		case t.State == store.TriggerPaused:
			plan, err = s.planner.Passed(t, now, pausedReason(t))
		case t.Next != 0 && t.Next <= now && s.byHand():
			plan, err = s.planner.Passed(t, now, store.Because("changed_unstarted"))
		case s.txn().rows >= takeMax*rowsPerItem: // more instants are due than one transaction can start
			plan, err = s.planner.Passed(t, now, store.Because("changed_due"))
		default:
			plan, err = s.planner.Plan(t, now)
		}
		if err != nil { // the row is damaged; a person must still be able to replace the trigger
			return t, s.undecided(t, now, err)
		}
		was := *t
		if err := s.carryOut(t, &plan); err != nil {
			return nil, err
		}
		if t, err = s.trigger(keyOfTrigger(t)); err != nil {
			return nil, err
		}
		if t.State != store.TriggerActive || t.Next == 0 || t.Next > now || t.Next == was.Next && t.Decided == was.Decided {
			break
		}
	}
	return t, nil
}

// undecided writes to the ledger that instants of a trigger with an unreadable row were due.
func (s *schedule) undecided(t *store.Trigger, now dag.Micros, cause error) error {
	s.log.Error("the due fires of a trigger cannot be computed; correct the trigger, and apply its workflow again", "code", "trigger_plan_failed", "trigger", t.Name, "workflow", int64(t.Workflow), "err", cause)
	if t.Next == 0 || t.Next > now {
		return nil
	}
	return s.line(store.Fire{Workflow: t.Workflow, Trigger: t.Name, At: t.Next, Last: t.Next, Count: 1,
		Outcome: store.OutcomeMissed, Reason: store.Because("declaration", cause.Error())})
}

// DeclaredPaused is the reason of a trigger that its workflow file declares as paused.
const DeclaredPaused = "declared as paused"

func pausedReason(t *store.Trigger) store.Reason {
	switch {
	case t.Actor != "":
		return store.Because("paused", t.Actor, t.Reason)
	case t.Reason == "" || t.Reason == DeclaredPaused:
		return store.Because("paused_declared")
	}
	return store.Because("paused_itself", t.Reason)
}

// triggersOf reads the rows of a workflow's triggers, as the transaction being made leaves them.
func (s *schedule) triggersOf(id dag.WorkflowID) (map[string]*store.Trigger, error) {
	all := map[string]*store.Trigger{}
	if id == 0 {
		return all, nil
	}
	for k, t := range s.triggers.known {
		if k.Workflow == id && t != nil {
			all[k.Name] = t
		}
	}
	after := store.TriggerKey{Workflow: id}
	for {
		page, err := s.store.Triggers(context.Background(), store.TriggerQuery{Workflow: id, After: after, Limit: loadPage})
		if err != nil {
			return nil, errkind.FromStore("read the workflow's triggers", err)
		}
		for i := range page {
			t := &page[i]
			after = keyOfTrigger(t)
			if is, known := s.triggers.known[after]; known && is == nil {
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

// PauseTrigger stops a trigger from firing, or lets it fire again. The instants during the pause are recorded
// as skipped, in one line of the ledger. A planned pause does the same for a range of time. For once, see
// SetState.
func (e *Engine) PauseTrigger(ctx context.Context, k store.TriggerKey, p Pause, once *store.Request) error {
	if err := checkTexts("reason", p.Reason, "actor", p.Actor); err != nil {
		return err
	}
	clock, err := e.readClock(ctx)
	if err != nil {
		return err
	}
	return e.operate(ctx, once, func(w *writer) answer {
		w.schedule.goBy(clock)
		if p.Until != 0 {
			return answer{err: w.schedule.planPause(k, p)}
		}
		return answer{err: w.schedule.pauseTrigger(k, p)}
	})
}

// Pause says which person pauses or resumes a trigger, and why. With Until, it is a planned pause of the
// instants in [From, Until), or with Resume the end of that planned pause. From 0 means now.
type Pause struct {
	Resume      bool
	Actor       string
	Reason      string
	From, Until dag.Micros
}

// living refuses a trigger that has ended. It takes the results of schedule.owned, and returns them with an
// error if the trigger has ended.
func living(t *store.Trigger, err error) (*store.Trigger, error) {
	if err == nil && t.State == store.TriggerEnded {
		err = fmt.Errorf("%w: trigger %s has ended: %s", errkind.ErrConflict, t.Name, t.Reason)
	}
	return t, err
}

func (s *schedule) pauseTrigger(k store.TriggerKey, p Pause) error {
	t, err := living(s.owned(k))
	switch {
	case err != nil:
		return err
	case p.Resume == (t.State == store.TriggerActive):
		return nil // the trigger is in that state already
	}
	if _, err := s.planner.Policy(t); p.Resume && err != nil {
		return fmt.Errorf("%w: its declaration cannot be read: %w", errkind.ErrConflict, err)
	}
	now := s.dueNow()
	if t, err = s.settled(t, now); err != nil {
		s.broken(err) // the trigger fails, but this transaction may already have decided some of its due instants
		return err
	}
	next := *t
	switch {
	case t.State == store.TriggerEnded: // the trigger's last instant was just decided
		return nil
	case !p.Resume:
		next.State, next.Actor, next.Reason, next.Next = store.TriggerPaused, firstOf(p.Actor, "an operator"), p.Reason, 0
	default:
		next.State, next.Actor, next.Reason = store.TriggerActive, "", ""
		if t.Kind == kindFile {
			next.Since = now // files that arrived during the pause do not fire
		}
		clear(s.triggers.heard) // the trigger reacts to ends of runs again
	}
	s.putTrigger(next)
	s.txn().declared = true
	return nil
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// operate makes the writer change triggers or backfills in its next transaction.
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
