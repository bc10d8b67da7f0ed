package store

import (
	"context"

	"skein.dev/skein/internal/dag"
)

// SentEvent is an event that was sent to the events API. (Namespace, Source, ID) is unique. The events of a
// database are one log: Seq rises by one with each event, in the order of the commits. So a reader
// of the log up to a Seq has missed no event before it.
type SentEvent struct {
	Seq       int64
	Namespace string // whose workflows get it
	Source    string
	ID        string
	Type      string
	Received  dag.Micros // by the clock of the store; it does not fall from one Seq to the next
	Data      []byte     // the whole event, as JSON
}

// EventAdded is what became of an event.
type EventAdded struct {
	Seq      int64
	Received dag.Micros
	Existing bool // an event of this namespace, source and id was there, and is unchanged
}

// SentEvents is the part of a store that keeps the log of events. It has nothing to do with shards.
type SentEvents interface {
	// AddEvents appends the events that are new, in one transaction. Seq and Received of the given events are
	// not used. No namespace, source and id may be given twice. After ErrUnknown, the events can be added again.
	AddEvents(ctx context.Context, events []SentEvent) ([]EventAdded, error)
	// EventsAfter reads the log after a Seq: at most limit events with at most size bytes of Data together, but
	// at least one event if there is any.
	EventsAfter(ctx context.Context, seq int64, limit, size int) ([]SentEvent, error)
	// EventLog returns the Seq of the oldest kept event and of the newest one. If no event is kept, first is
	// last + 1.
	EventLog(ctx context.Context) (first, last int64, err error)
	// EventsUntil returns the Seq of the newest event that was received at or before an instant. It returns the
	// Seq before the oldest kept event if there is none.
	EventsUntil(ctx context.Context, at dag.Micros) (int64, error)
}
