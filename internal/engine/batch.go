package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// Bounds of a batch of events.
const (
	BatchEventsMax = 500
	BatchBytesMax  = 1 << 20 // bytes of the keys, values and reasons together
	CursorBytesMax = 16 << 10
)

// LostKey begins the key of the ledger line that counts lost events.
const LostKey = "lost/"

var (
	// ErrStale says that the batch does not follow the last batch that the trigger has taken. Another source
	// of this trigger runs, or a person has moved its cursor. The source has to begin again from the stored
	// cursor.
	ErrStale = errors.New("the batch does not follow the stored cursor")
	// ErrGateFull says that the trigger has overlap: wait and already has its maximum of unfinished runs. The
	// source keeps the batch and offers it again later.
	ErrGateFull = fmt.Errorf("%w: the trigger has reached its limit of unfinished runs", errkind.ErrUnavailable)
)

// Batch is what a source has read after a position. A source holds one batch at a time, and continues to read
// from Cursor once the batch is taken. A Batch without Events but with another Cursor only moves the cursor.
type Batch struct {
	// After is the cursor from which the source has read, equal to the cursor in the trigger's row. It is nil
	// if no batch was taken before, or if a person has moved the cursor to the beginning or to now (see
	// Position.From).
	After []byte
	// Since is the Position.Since that the source has used. It distinguishes positions without a cursor. It
	// is 0 if the source does not say.
	Since dag.Micros
	// Cursor is the position after the last event: an opaque text of the source.
	Cursor []byte
	Events []Event
	// Lost is the number of events between After and Cursor that no longer exist. A batch with Lost has no
	// Events.
	Lost int64
	Why  string // the reason for Lost
}

// Event is an event that a source has read.
type Event struct {
	Key string    // the key of the event: if the key has fired before, the event starts nothing
	At  time.Time // the time of the event, which is trigger.time; the zero time means now
	// Value is trigger.event, a JSON value. If the source could not read the event, Value is nil.
	Value json.RawMessage
	// Reason describes the event in a few words. If Value is nil, it says why the event cannot be used.
	Reason string
}

// Size returns the bytes that an event adds to the size of a batch.
func (ev *Event) Size() int { return len(ev.Key) + len(ev.Value) + len(ev.Reason) }

// Taken counts the outcomes of the events of a batch.
type Taken struct {
	Fired    int  // runs that were started
	Existing int  // events whose keys have fired before
	Filtered int  // events that the filter, start or end of the trigger rejects; they have no ledger line
	Missed   int  // events that cannot be evaluated; each has a ledger line
	Skipped  int  // events for which a rule of the trigger allowed no run
	Paused   bool // events were lost, and the trigger is paused because of lost: pause
}

// Hearing is the reaction of a trigger to the events of a batch.
type Hearing struct {
	Starts   []Start // the runs to start, with the keys of their events
	Missed   []Start // events that cannot be evaluated, with their keys and reasons
	Filtered int
	// PauseLost says that lost events pause the trigger.
	PauseLost bool
}

// Position is the position of a trigger in the source that it reads.
type Position struct {
	Cursor []byte // nil if no batch was taken since From was set
	// From says where a source without a cursor begins: now or beginning.
	From string
	// Since is the instant that "now" in From means: the time at which the trigger was declared for this
	// source, or at which its cursor was moved.
	Since    dag.Micros
	Taken    dag.Micros // the time at which the last batch with events was taken; 0 means never
	Filtered int64      // events that the filter has rejected since the trigger was declared
	Lost     int64      // events that were lost since the trigger was declared
}

func (b *Batch) check() error {
	size := len(b.Why)
	for i := range b.Events {
		ev := &b.Events[i]
		size += ev.Size()
		if ev.Key == "" {
			return fmt.Errorf("%w: event %d of the batch has no key", errkind.ErrInvalid, i)
		}
		if err := checkTexts("event id", ev.Key); err != nil {
			return err
		}
	}
	switch {
	case len(b.Events) > BatchEventsMax:
		return fmt.Errorf("%w: the batch has %d events; a batch may have at most %d", errkind.ErrInvalid, len(b.Events), BatchEventsMax)
	case size > BatchBytesMax && len(b.Events) > 1:
		return fmt.Errorf("%w: the batch has %d bytes; a batch may have at most %d", errkind.ErrInvalid, size, BatchBytesMax)
	case len(b.Cursor) > CursorBytesMax || len(b.Cursor) == 0:
		return fmt.Errorf("%w: the cursor has %d bytes; it must have 1 to %d", errkind.ErrInvalid, len(b.Cursor), CursorBytesMax)
	case b.Lost < 0 || b.Lost > 0 && len(b.Events) > 0:
		return fmt.Errorf("%w: a batch that reports %d lost events also has %d events; send these in the next batch", errkind.ErrInvalid, b.Lost, len(b.Events))
	}
	return nil
}

// Intake gives the events of sources to triggers.
type Intake struct{ e *Engine }

// IntakeOf returns the intake of an engine with a Planner.
func IntakeOf(e *Engine) Intake { return Intake{e} }

// Position returns the position of a trigger that a source feeds, according to its row.
func (in Intake) Position(t *store.Trigger) (Position, error) { return in.e.cfg.Planner.Position(t) }

// Take takes a batch of a trigger's source. One transaction writes the runs, the lines of the ledger and the
// moved cursor. So if the outcome of a call is not known, the source can offer the batch again: only one of
// the calls takes it, and the other gets ErrStale. It returns
//
//   - ErrStale if the batch does not follow the stored cursor,
//   - ErrGateFull while the trigger has overlap: wait and no room,
//   - errkind.ErrConflict if the trigger or its workflow is paused: the source ends,
//   - errkind.Elsewhere if another node owns the trigger,
//   - errkind.ErrInvalid if the batch is beyond its bounds.
func (in Intake) Take(ctx context.Context, k store.TriggerKey, b Batch) (Taken, error) {
	e := in.e
	if err := b.check(); err != nil {
		return Taken{}, err
	}
	t, err := e.store.Trigger(ctx, k.Workflow, k.Name)
	if err != nil {
		return Taken{}, errkind.FromStore("read trigger "+k.Name, err)
	}
	// Filters are evaluated here, not on the writer's goroutine.
	h, err := e.cfg.Planner.Hears(&t, &b, dag.Micro(e.host.Now()))
	if err != nil {
		return Taken{}, err
	}
	spec := t.Spec
	a, err := e.operated(ctx, nil, func(w *writer) answer { return w.schedule.takeBatch(k, &b, &h, spec) })
	return a.result().taken, err
}

// takeBatch applies a batch. h was computed for the declaration spec.
func (s *schedule) takeBatch(k store.TriggerKey, b *Batch, h *Hearing, spec []byte) answer {
	t, pos, err := s.fed(k)
	if err != nil {
		return answer{err: err}
	}
	if !bytes.Equal(pos.Cursor, b.After) || b.After == nil && b.Since != 0 && b.Since != pos.Since {
		return answer{err: fmt.Errorf("trigger %s: %w", k.Name, ErrStale)}
	}
	pol, err := s.planner.Policy(t)
	if err == nil && !bytes.Equal(t.Spec, spec) { // the trigger was edited in between
		var anew Hearing
		anew, err = s.planner.Hears(t, b, s.dueNow())
		h = &anew
	}
	if err != nil {
		return answer{err: err}
	}
	f := firing{s: s, t: t, pol: &pol}
	if err := f.roomForBatch(h); err != nil {
		return answer{err: err}
	}
	a, err := f.batch(b, h, pos)
	if err != nil {
		s.broken(err)
		return answer{err: err}
	}
	return answer{more: &result{taken: a}}
}

// fed returns a trigger that takes batches now, and its position.
func (s *schedule) fed(k store.TriggerKey) (*store.Trigger, Position, error) {
	t, err := s.owned(k)
	switch {
	case err != nil:
		return nil, Position{}, err
	case t.State != store.TriggerActive:
		return nil, Position{}, fmt.Errorf("%w: trigger %s is %s", errkind.ErrConflict, k.Name, t.State)
	}
	wf, err := s.defs.workflow(k.Workflow)
	if err != nil {
		return nil, Position{}, err
	}
	if wf.State != store.WorkflowActive {
		return nil, Position{}, fmt.Errorf("%w: the workflow of trigger %s is %s", errkind.ErrConflict, k.Name, wf.State)
	}
	pos, err := s.planner.Position(t)
	return t, pos, err
}

// roomForBatch returns ErrGateFull if the trigger has the policy wait and no room now. A batch is never
// divided. If there is any room, all runs of the batch are made, and the runs above the trigger's limit wait.
func (f *firing) roomForBatch(h *Hearing) error {
	if f.pol.Overlap != OverlapWait || len(h.Starts) == 0 {
		return nil
	}
	wf, err := f.s.defs.workflow(f.t.Workflow)
	if err != nil {
		return err
	}
	if err := f.s.limits.quotas.roomAbout(&wf); err != nil {
		return fmt.Errorf("%w: %w", ErrGateFull, err)
	}
	_, full, err := f.full()
	switch {
	case err != nil:
		f.s.broken(err)
		return err
	case full:
		return fmt.Errorf("trigger %s: %w", f.t.Name, ErrGateFull)
	}
	return nil
}

// batch writes the decisions about a batch, and the cursor after it.
func (f *firing) batch(b *Batch, h *Hearing, pos Position) (Taken, error) {
	done := Taken{Filtered: h.Filtered}
	for i := range h.Starts {
		o, err := f.start(&h.Starts[i])
		if err != nil {
			return done, fmt.Errorf("trigger %s: %w", f.t.Name, err)
		}
		switch {
		case o.Existing:
			done.Existing++
		case o.Outcome == store.OutcomeMissed:
			done.Missed++
		case o.Run.IsZero():
			done.Skipped++
		default:
			done.Fired++
		}
	}
	for i := range h.Missed {
		is := &h.Missed[i]
		wrote, err := f.missed(is.Instant, 1, is.Key, is.Reason)
		if err != nil {
			return done, err
		}
		if wrote {
			done.Missed++
		} else {
			done.Existing++
		}
	}
	if b.Lost > 0 {
		after := sha256.Sum256(b.After)
		if _, err := f.missed(0, b.Lost, LostKey+hex.EncodeToString(after[:8]), store.Because("events_lost", b.Why)); err != nil {
			return done, err
		}
	}
	return done, f.move(b, h, pos, &done)
}

// missed writes a ledger line for events that start nothing, unless the ledger already has a line for the
// key.
func (f *firing) missed(at dag.Micros, count int64, key string, reason store.Reason) (bool, error) {
	was, err := f.s.firedBefore(keyOfTrigger(f.t), key)
	if err != nil || was != nil {
		return false, err
	}
	if at == 0 {
		at = f.s.dueNow()
	}
	f.s.txn().rows++
	return true, f.s.line(store.Fire{Workflow: f.t.Workflow, Trigger: f.t.Name, At: at, Last: at, Key: key, Count: count,
		Outcome: store.OutcomeMissed, Reason: reason})
}

// move writes the trigger's row after a batch. A start in this transaction may have changed the row, too.
func (f *firing) move(b *Batch, h *Hearing, pos Position, done *Taken) error {
	pos.Cursor = b.Cursor
	pos.Filtered += int64(h.Filtered)
	pos.Lost += b.Lost
	if len(b.Events) > 0 {
		pos.Taken = f.s.txn().now.Wall
	}
	t, err := f.s.trigger(keyOfTrigger(f.t))
	if err != nil {
		return err
	}
	next := *t
	next.Fired += int64(done.Fired)
	if next.Data, err = f.s.planner.Placed(t, pos); err != nil {
		return err
	}
	if b.Lost > 0 && h.PauseLost {
		done.Paused = true
		next.State, next.Actor = store.TriggerPaused, ""
		next.Reason = clean(fmt.Sprintf("%d events were lost before they could be read; resume it to go on with the oldest event that is left", b.Lost))
		f.s.txn().declared = true
	}
	f.s.putTrigger(next)
	return nil
}

// Seek is a new position for the source of a trigger: after a cursor or, without a cursor, as From says.
type Seek struct {
	Cursor []byte
	From   string // now or beginning
}

// Seek moves the cursor of a trigger that a source feeds. The running source gets ErrStale for its next
// batch. Events before the new position that have already fired do not fire again, as long as the ledger has
// their lines. once is as in SetState.
func (in Intake) Seek(ctx context.Context, k store.TriggerKey, to Seek, once *store.Request) (Position, error) {
	if len(to.Cursor) > CursorBytesMax {
		return Position{}, fmt.Errorf("%w: the cursor has %d bytes; it may have at most %d", errkind.ErrInvalid, len(to.Cursor), CursorBytesMax)
	}
	var got Position
	err := in.e.operate(ctx, once, func(w *writer) answer {
		s := &w.schedule
		t, err := s.owned(k)
		if err != nil {
			return answer{err: err}
		}
		pos, err := s.planner.Position(t)
		if err != nil {
			return answer{err: err}
		}
		pos.Cursor, pos.From, pos.Since = to.Cursor, to.From, s.dueNow()
		next := *t
		if next.Data, err = s.planner.Placed(t, pos); err != nil {
			return answer{err: err}
		}
		s.putTrigger(next)
		s.txn().declared = true
		got = pos
		return answer{}
	})
	return got, err
}
