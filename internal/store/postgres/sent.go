package postgres

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.SentEvents = (*DB)(nil)

// sentEvents implements store.SentEvents for the database that embeds it.
type sentEvents struct{ d *DB }

// AddEvents implements store.SentEvents.
func (e sentEvents) AddEvents(ctx context.Context, events []store.SentEvent) ([]store.EventAdded, error) {
	if err := ended(ctx, "addSent"); err != nil || len(events) == 0 {
		return nil, err
	}
	var added []store.EventAdded
	see := into(&added, func(r *row, a *store.EventAdded) error {
		a.Seq, a.Received, a.Existing = r.int(), r.micros(), r.int() != 0
		return r.damaged("an event that was sent")
	})
	all := []query{{name: "lockSent"}}
	for i := range events {
		ev := &events[i]
		all = append(all, query{"addSent", args{}.text(ev.Namespace).text(ev.Source).text(ev.ID).text(ev.Type).blob(whole(ev.Data)), see})
	}
	if err := e.d.change(ctx, nil, all...); err != nil {
		return nil, err
	}
	if len(added) != len(events) {
		return nil, fmt.Errorf("%d of %d events were added: %w", len(added), len(events), store.ErrUnknown)
	}
	return added, nil
}

// EventsAfter implements store.SentEvents.
func (e sentEvents) EventsAfter(ctx context.Context, seq int64, limit, size int) ([]store.SentEvent, error) {
	a := args{}.int8(seq).int8(int64(limit)).int8(int64(size))
	return list(ctx, e.d, query{name: "sentAfter", args: a}, func(r *row, ev *store.SentEvent) error {
		ev.Seq, ev.Received, ev.Namespace, ev.Source, ev.ID, ev.Type, ev.Data = r.int(), r.micros(), r.text(), r.text(), r.text(), r.text(), r.blob()
		return r.damaged("event %d", ev.Seq)
	})
}

// EventLog implements store.SentEvents.
func (e sentEvents) EventLog(ctx context.Context) (oldest, newest int64, err error) {
	ends, err := first(ctx, e.d, query{name: "sentLog"}, func(r *row, n *[2]int64) error {
		n[0], n[1] = r.int(), r.int()
		return r.damaged("the end of the log of events")
	})
	return ends[0], ends[1], err
}

// EventsUntil implements store.SentEvents.
func (e sentEvents) EventsUntil(ctx context.Context, at dag.Micros) (int64, error) {
	return first(ctx, e.d, query{name: "sentUntil", args: args{}.int8(int64(at))}, func(r *row, n *int64) error {
		*n = r.int()
		return r.damaged("the log of events")
	})
}
