package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

const (
	feedEvery  = time.Second            // events that arrived at other nodes are noticed after this time
	feedSoon   = 200 * time.Millisecond // the pause while a trigger has no room, or collects a batch
	feedPage   = 200                    // triggers that are read at once
	feedRounds = 20                     // pages of events that one trigger reads before the next trigger has its turn
	// feedMoveGap is the number of unwanted events after which a trigger's cursor is moved past them.
	feedMoveGap = 5000
	// feedMoveAge is the time after which the cursor is moved past any number of unwanted events.
	feedMoveAge = time.Minute
	feedFullMax = 5 * time.Second // the longest pause before a trigger without room is tried again
)

// FeederConfig holds the dependencies of a Feeder.
type FeederConfig struct {
	Events store.SentEvents
	// Triggers lists the active triggers of some kinds that this process owns.
	Triggers func(ctx context.Context, kinds []string, after store.TriggerKey, limit int) ([]store.Trigger, error)
	// Namespace returns the namespace of a workflow.
	Namespace func(ctx context.Context, w dag.WorkflowID) (string, error)
	Intake    engine.Intake
	Grown     func() // called when events were added to the log by this process
	Log       *slog.Logger
	Host      host.Host // nil is the real machine
}

// Feeder passes the events of the log to the triggers of kind event that this process owns. Senders of events
// use it as the log, so that it reads new events at once.
type Feeder struct {
	store.SentEvents
	cfg  FeederConfig
	wake chan struct{} // cap 1
	// places is used only by the goroutine of Run.
	places map[store.TriggerKey]*place
	told   map[string]time.Time // messages in the log, and their times
}

// place is the position in the log up to which a trigger has read beyond its stored cursor, because it wanted
// none of the events in between. The place is a cache: without it, these events are read again.
type place struct {
	of        string // the stored position to which seq belongs
	spec      string // the declaration by which events were read
	namespace string
	seq       int64
	since     time.Time     // when the cursor was moved last
	first     int64         // the Seq of the event since which a batch is collected
	firstAt   time.Time     // when this process found it
	pause     time.Duration // how long a trigger without room waits; 0 if it had room
	until     time.Time     // the time of the next attempt
}

// placeOf returns a text that identifies a stored position.
func placeOf(cursor []byte, pos *engine.Position) string {
	if cursor != nil {
		return string(cursor)
	}
	return fmt.Sprintf("%s since %d", pos.From, pos.Since)
}

// NewFeeder makes a Feeder.
func NewFeeder(cfg FeederConfig) *Feeder {
	cfg.Host = host.Or(cfg.Host)
	return &Feeder{SentEvents: cfg.Events, cfg: cfg, wake: make(chan struct{}, 1), places: map[store.TriggerKey]*place{}, told: map[string]time.Time{}}
}

// AddEvents implements store.SentEvents.
func (f *Feeder) AddEvents(ctx context.Context, events []store.SentEvent) ([]store.EventAdded, error) {
	added, err := f.SentEvents.AddEvents(ctx, events)
	if err == nil {
		f.Wake()
		if f.cfg.Grown != nil {
			f.cfg.Grown()
		}
	}
	return added, err
}

// Wake makes Run read the log now.
func (f *Feeder) Wake() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Run feeds triggers until ctx ends.
func (f *Feeder) Run(ctx context.Context) {
	for ctx.Err() == nil {
		pause := feedEvery
		soon, err := f.round(ctx)
		if err != nil && ctx.Err() == nil {
			f.tell("", err)
		}
		if soon {
			pause = feedSoon
		}
		f.cfg.Host.Await(ctx, f.wake, pause)
	}
}

// tell logs an error of a trigger at most once a minute. If trigger is "", the error concerns all triggers.
func (f *Feeder) tell(trigger string, err error) {
	now := f.cfg.Host.Now()
	if last, ok := f.told[trigger]; ok && now.Sub(last) < time.Minute {
		return
	}
	if len(f.told) > 1000 {
		clear(f.told)
	}
	f.told[trigger] = now
	f.cfg.Log.Warn("events cannot be passed to triggers now; the node tries again", "code", "events_not_given", "trigger", trigger, "err", err)
}

// round passes new events to each trigger. soon reports whether a trigger waits for room or for more events.
func (f *Feeder) round(ctx context.Context) (soon bool, err error) {
	first, last, err := f.cfg.Events.EventLog(ctx)
	if err != nil {
		return false, err
	}
	seen := map[store.TriggerKey]*place{}
	var after store.TriggerKey
	for {
		page, err := f.cfg.Triggers(ctx, []string{workflow.KindEvent}, after, feedPage)
		if err != nil {
			return soon, err
		}
		for i := range page {
			t := &page[i]
			after = store.TriggerKey{Workflow: t.Workflow, Name: t.Name}
			wait, err := f.feed(ctx, t, first, last)
			soon = soon || wait
			if err != nil && ctx.Err() == nil {
				f.tell(t.Name, err)
			}
			if p := f.places[after]; p != nil {
				seen[after] = p
			}
		}
		if len(page) < feedPage {
			f.places = seen
			return soon, nil
		}
	}
}

// feed passes new events to one trigger, up to a bound.
func (f *Feeder) feed(ctx context.Context, t *store.Trigger, first, last int64) (soon bool, err error) {
	pos, err := f.cfg.Intake.Position(t)
	if err != nil {
		return false, err
	}
	g := feeding{f: f, key: store.TriggerKey{Workflow: t.Workflow, Name: t.Name}, cursor: pos.Cursor, from: pos.Since, first: first, last: last}
	p := f.places[g.key]
	if p == nil || p.of != placeOf(pos.Cursor, &pos) || p.spec != string(t.Spec) {
		p = &place{of: placeOf(pos.Cursor, &pos), spec: string(t.Spec), since: f.cfg.Host.Now()}
		if p.seq, err = f.start(ctx, &pos, first); err != nil {
			return false, err
		}
		if p.namespace, err = f.cfg.Namespace(ctx, t.Workflow); err != nil {
			return false, err
		}
		f.places[g.key] = p
	}
	if g.place = p; p.seq >= last {
		return false, g.ended(g.settle(ctx))
	}
	if f.cfg.Host.Now().Before(p.until) {
		return true, nil
	}
	if g.decl, err = workflow.DecodeTrigger(t.Spec); err != nil {
		return false, err
	}
	for n := 0; n < feedRounds && err == nil && p.seq < last && !soon; n++ {
		soon, err = g.step(ctx)
	}
	if errors.Is(err, engine.ErrGateFull) {
		p.pause = min(max(2*p.pause, feedSoon), feedFullMax)
		p.until = f.cfg.Host.Now().Add(p.pause)
		return true, nil
	}
	return soon, g.ended(err)
}

// ended forgets the place of a trigger if another caller has changed the trigger's row. The next round begins
// at the stored cursor, if the trigger still exists here and is active.
func (g *feeding) ended(err error) error {
	if errors.Is(err, engine.ErrStale) || errors.Is(err, errkind.ErrConflict) || errors.Is(err, errkind.ErrNotFound) || errkind.IsElsewhere(err) {
		delete(g.f.places, g.key)
		return nil
	}
	return err
}

// past returns the time that has passed since an instant.
func (g *feeding) past(since time.Time) time.Duration { return g.f.cfg.Host.Now().Sub(since) }

// collects reports whether a batch still waits for further events after its first one. The clock of the store
// may be ahead of the clock here, so the wait also ends a time after this process found the event.
func (g *feeding) collects(rest *store.SentEvent, wait time.Duration) bool {
	if p := g.place; p.first != rest.Seq {
		p.first, p.firstAt = rest.Seq, g.f.cfg.Host.Now()
	}
	return g.past(rest.Received.Time()) < wait && g.past(g.place.firstAt) < wait
}

// settle stores the cursor of a trigger that has read the whole log and wanted none of the last events. If
// the stored cursor stayed before these events until they are deleted, the node would count them as lost
// after a restart.
func (g *feeding) settle(ctx context.Context) error {
	if g.cursor == nil || g.place.seq <= g.committed() || g.past(g.place.since) < feedMoveAge {
		return nil
	}
	return g.give(ctx, engine.Batch{Cursor: strconv.AppendInt(nil, g.place.seq, 10)}, g.place.seq)
}

// start returns the Seq after which a trigger continues to read.
func (f *Feeder) start(ctx context.Context, pos *engine.Position, first int64) (int64, error) {
	switch {
	case pos.Cursor != nil:
		seq, err := strconv.ParseInt(string(pos.Cursor), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("the stored cursor is not a number: move it to beginning or now: %w", err)
		}
		return seq, nil
	case pos.From == workflow.FromBeginning:
		return first - 1, nil
	}
	return f.cfg.Events.EventsUntil(ctx, pos.Since)
}

// feeding passes events to one trigger.
type feeding struct {
	f           *Feeder
	key         store.TriggerKey
	decl        *workflow.Trigger
	cursor      []byte     // cursor as stored
	from        dag.Micros // Since of the stored position
	place       *place
	first, last int64
}

// step reads one page of the log, and passes the wanted events to the trigger. wait reports whether a batch
// is being collected.
func (g *feeding) step(ctx context.Context) (wait bool, err error) {
	if err := g.gap(ctx, g.first); err != nil {
		return false, err
	}
	page, err := g.f.cfg.Events.EventsAfter(ctx, g.place.seq, engine.BatchEventsMax, engine.BatchBytesMax)
	if err != nil || len(page) == 0 {
		return err == nil, err // the rest of the log was just deleted; the next round counts it as lost
	}
	if err := g.gap(ctx, page[0].Seq); err != nil {
		return false, err
	}
	end := page[len(page)-1].Seq
	var b engine.Batch
	var rest *store.SentEvent // the first event after the last full batch
	full, size := 0, 0
	for i := range page {
		ev := &page[i]
		if ev.Namespace != g.place.namespace || !g.decl.Event.Takes(ev.Type, ev.Source) {
			continue
		}
		is := eventOf(ev)
		if size += is.Size(); size > engine.BatchBytesMax && len(b.Events) > 0 {
			end = ev.Seq - 1
			break
		}
		if rest == nil {
			rest, full = ev, len(b.Events)
		}
		if b.Events = append(b.Events, is); len(b.Events)-full == int(g.decl.Intake.BatchMax) {
			rest = nil
		}
	}
	if in := g.decl.Intake; rest != nil && in.BatchMax > 0 && end >= g.last && g.collects(rest, time.Duration(in.BatchWait)) {
		end, b.Events, wait = rest.Seq-1, b.Events[:full], true // more events may come for this run
		if full == 0 {
			g.place.seq = end
			return true, nil
		}
	}
	if len(b.Events) == 0 && end-g.committed() < feedMoveGap && g.past(g.place.since) < feedMoveAge && g.cursor != nil {
		g.place.seq = end
		return false, nil
	}
	b.Cursor = strconv.AppendInt(nil, end, 10)
	return wait, g.give(ctx, b, end)
}

// gap counts the events before a Seq that no longer exist. A trigger without a cursor has read nothing, so it
// has lost nothing.
func (g *feeding) gap(ctx context.Context, first int64) error {
	lost := first - 1 - g.place.seq
	if lost <= 0 {
		return nil
	}
	if g.cursor == nil {
		g.place.seq = first - 1
		return nil
	}
	return g.give(ctx, engine.Batch{Cursor: strconv.AppendInt(nil, first-1, 10), Lost: lost,
		Why: "the log keeps events for a time and a number only (retention_events_age, retention_events)"}, first-1)
}

// committed returns the Seq of the stored cursor.
func (g *feeding) committed() int64 {
	n, err := strconv.ParseInt(string(g.cursor), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (g *feeding) give(ctx context.Context, b engine.Batch, end int64) error {
	b.After, b.Since = g.cursor, g.from
	if _, err := g.f.cfg.Intake.Take(ctx, g.key, b); err != nil {
		return err
	}
	g.cursor = b.Cursor
	g.place.of, g.place.seq, g.place.since = string(b.Cursor), end, g.f.cfg.Host.Now()
	g.place.pause, g.place.until = 0, time.Time{}
	return nil
}

// eventOf converts an event of the log to the form that triggers get.
func eventOf(ev *store.SentEvent) engine.Event {
	var is struct {
		Time string `json:"time"`
	}
	_ = json.Unmarshal(ev.Data, &is) // the log has checked the event; an event without a time has the time of its arrival
	at, err := time.Parse(time.RFC3339, is.Time)
	if err != nil {
		at = ev.Received.Time()
	}
	return engine.Event{Key: ev.Source + " " + ev.ID, At: at, Value: ev.Data, Reason: "event " + ev.Type}
}
