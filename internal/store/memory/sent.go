package memory

import (
	"bytes"
	"context"
	"sort"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.SentEvents = (*Store)(nil)

// sentEvents implements store.SentEvents for the store that embeds it.
type sentEvents struct {
	s        *Store
	log      []store.SentEvent // sorted by Seq, without gaps
	last     int64
	received dag.Micros       // time of the last event
	known    map[sentID]int64 // the Seq of each event of the log; nil if it was not made since the log was replaced
}

// sentID is the identity of an event.
type sentID struct{ namespace, source, id string }

func idOf(ev *store.SentEvent) sentID { return sentID{ev.Namespace, ev.Source, ev.ID} }

// AddEvents implements store.SentEvents.
func (e *sentEvents) AddEvents(ctx context.Context, events []store.SentEvent) (added []store.EventAdded, err error) {
	err = e.s.write(ctx, Op{Kind: EventsBefore}, EventsAfter, func() error {
		for i := range events {
			if err := checkTexts("event", events[i].Namespace, events[i].Source, events[i].ID, events[i].Type); err != nil {
				return err
			}
		}
		for _, ev := range events {
			if is := e.sentOf(&ev); is != nil {
				added = append(added, store.EventAdded{Seq: is.Seq, Received: is.Received, Existing: true})
				continue
			}
			e.last++
			e.received = max(e.received, e.s.clock())
			ev.Seq, ev.Received, ev.Data = e.last, e.received, bytes.Clone(ev.Data)
			e.log, e.known[idOf(&ev)] = append(e.log, ev), ev.Seq
			added = append(added, store.EventAdded{Seq: ev.Seq, Received: ev.Received})
		}
		return nil
	})
	return added, err
}

func (e *sentEvents) sentOf(ev *store.SentEvent) *store.SentEvent {
	if e.known == nil {
		e.known = map[sentID]int64{}
		for i := range e.log {
			e.known[idOf(&e.log[i])] = e.log[i].Seq
		}
	}
	seq, is := e.known[idOf(ev)]
	if !is {
		return nil
	}
	return &e.log[seq-e.log[0].Seq]
}

// EventsAfter implements store.SentEvents.
func (e *sentEvents) EventsAfter(ctx context.Context, seq int64, limit, size int) (some []store.SentEvent, err error) {
	err = e.s.read(ctx, Read, func() error {
		i := sort.Search(len(e.log), func(i int) bool { return e.log[i].Seq > seq })
		for ; i < len(e.log) && len(some) < limit; i++ {
			if size -= len(e.log[i].Data); size < 0 && len(some) > 0 {
				break
			}
			some = append(some, e.log[i])
		}
		return nil
	})
	return some, err
}

// EventLog implements store.SentEvents.
func (e *sentEvents) EventLog(ctx context.Context) (first, last int64, err error) {
	err = e.s.read(ctx, Read, func() error {
		first, last = e.last-int64(len(e.log))+1, e.last
		return nil
	})
	return first, last, err
}

// EventsUntil implements store.SentEvents.
func (e *sentEvents) EventsUntil(ctx context.Context, at dag.Micros) (seq int64, err error) {
	err = e.s.read(ctx, Read, func() error {
		n := sort.Search(len(e.log), func(i int) bool { return e.log[i].Received > at })
		seq = e.last - int64(len(e.log)) + int64(n)
		return nil
	})
	return seq, err
}

// expireEvents deletes old events.
func expireEvents(s *Store, x *store.RecordExpiry) int {
	e := &s.sentEvents
	n := 0
	for n < len(e.log) && n < x.Limit && (e.log[n].Received < x.Events || len(e.log)-n > max(x.EventsKeep, 1)) {
		delete(e.known, idOf(&e.log[n]))
		n++
	}
	e.log = e.log[n:]
	return n
}
