// Package source reads events from outside for triggers. A source of events has a position, its cursor. The
// trigger's row keeps the cursor, and one transaction of the engine writes the runs, the ledger and the moved
// cursor. So an event starts one run, whatever dies at any time.
package source

import (
	"context"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
)

// Batch and Event are what a source gives to the engine.
type (
	Batch = engine.Batch
	Event = engine.Event
)

// Source reads events of one trigger.
type Source interface {
	// Run reads events after a cursor, and gives them, until ctx ends or an error. It holds at most one batch
	// that is not taken yet. give waits while the trigger has no room for another run. If give returns an
	// error, the batch was not taken, and Run ends with that error: the next Run begins at the stored cursor.
	Run(ctx context.Context, from []byte, give func(context.Context, Batch) error) error
	// State returns the present state. It may be called from any goroutine.
	State() State
}

// State describes a source.
type State struct {
	Lag   int64      // events that wait to be read; -1: unknown
	Away  dag.Micros // since when the other side cannot be reached; 0: it can
	Why   string     // the reason for Away
	Heard dag.Micros // when the source last had an answer of the other side
}
