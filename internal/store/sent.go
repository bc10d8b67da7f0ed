package store

import (
	"context"

	"skein.dev/skein/internal/dag"
)

// SentEvent is an event that was sent to the events API. (Namespace, Source, ID) is unique. The events of a
// database are one log: Seq rises by one with each event, in the order of the commits. So a reader that has
// read the log up to a Seq has missed no event before it.
type SentEvent struct {
	Seq       int64
	Namespace string // the namespace whose workflows get the event
	Source    string
	ID        string
	Type      string
	Received  dag.Micros // on the clock of the store; never less than that of the previous Seq
	Data      []byte     // the whole event, as JSON
}

// EventAdded says what became of an event that was passed to AddEvents.
type EventAdded struct {
	Seq      int64
	Received dag.Micros
	Existing bool // the log already had an event with this namespace, source and id, and keeps it unchanged
}

// SentEvents is the part of a store that keeps the log of events. The log belongs to no shard.
type SentEvents interface {
	// AddEvents appends those of the given events that are new, in one transaction. It ignores their Seq and
	// Received. No two of them may have the same namespace, source and id. After ErrUnknown, the caller may
	// add the events again.
	AddEvents(ctx context.Context, events []SentEvent) ([]EventAdded, error)
	// EventsAfter reads the log after a Seq. It returns at most limit events, and at most size bytes of Data
	// together, but at least one event if there is any.
	EventsAfter(ctx context.Context, seq int64, limit, size int) ([]SentEvent, error)
	// EventLog returns the Seq of the oldest kept event and of the newest one. If no event is kept, first is
	// last + 1.
	EventLog(ctx context.Context) (first, last int64, err error)
	// EventsUntil returns the Seq of the newest event that was received at or before an instant. It returns the
	// Seq before the oldest kept event if there is none.
	EventsUntil(ctx context.Context, at dag.Micros) (int64, error)
}
