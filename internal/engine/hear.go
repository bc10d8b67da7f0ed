package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"skein.dev/skein/internal/errkind"
)

// Bounds of a batch of events.
const (
	BatchEventsMax = 500
	BatchBytesMax  = 1 << 20 // of the keys, values and reasons together
	CursorBytesMax = 16 << 10
)

var (
	// ErrStale says that the trigger has taken a batch after which this batch does not come: another source of
	// this trigger runs, or a person has moved its cursor. The source has to begin again from the stored cursor.
	ErrStale = errors.New("the batch does not follow the stored cursor")
	// ErrGateFull says that the trigger has overlap: wait and as many unfinished runs as it may have. The source
	// keeps the batch and gives it again later.
	ErrGateFull = fmt.Errorf("%w: the trigger has as many unfinished runs as it may have", errkind.ErrUnavailable)
)

// Batch is what a source has read after a position. A source holds one batch at a time, and reads on from
// Cursor once the batch is taken. Empty Events with another Cursor move the cursor.
type Batch struct {
	// After is the cursor from which the source has read, as the trigger's row has it. nil: no batch was taken
	// before, or a person has moved the cursor to the beginning or to now (see SourcePosition.From).
	After []byte
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
	Key string    // names the event: a key that has fired before starts nothing
	At  time.Time // when it happened: trigger.time; the zero time: now
	// Value is trigger.event, a JSON value. If the source could not read the event, Value is nil.
	Value json.RawMessage
	// Reason describes the event in a few words. Without a Value, it says why the event cannot be used.
	Reason string
}

// Heard counts what became of a batch.
type Heard struct {
	Fired    int  // runs that were started
	Existing int  // events whose keys have fired before
	Filtered int  // events that the filter, start or end of the trigger refuses; they have no ledger line
	Missed   int  // events that cannot be evaluated; each has a ledger line
	Skipped  int  // events for which a rule of the trigger allowed no run
	Paused   bool // events were lost, and the trigger is paused because of lost: pause
}
