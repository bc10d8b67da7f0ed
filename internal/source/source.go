// Package source reads events from outside for triggers. The position of a source in its events is its
// cursor. The trigger's row has the cursor, and one transaction of the engine writes the runs, the ledger and
// the moved cursor. So an event starts exactly one run, also if a process dies at any time.
//
// Reading order: source.go (the contract), supervisor.go and runner.go (running and restarting sources), then
// the sources, which do not depend on each other: poll.go, query.go, object.go.
package source

import (
	"context"
	"errors"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
)

// Batch and Event are the data that a source passes to the engine.
type (
	Batch = engine.Batch
	Event = engine.Event
)

// Source reads events of one trigger.
type Source interface {
	// Run reads events after a cursor and passes them on with give, until ctx ends or an error occurs. It
	// holds at most one batch that is not accepted. give waits while the trigger has no room for another run.
	// If give returns an error, the batch was not accepted, and Run ends with that error. The next Run begins
	// at the stored cursor.
	Run(ctx context.Context, from []byte, give func(context.Context, Batch) error) error
	// State returns the present state. It may be called from any goroutine.
	State() State
}

// State is the state of a source.
type State struct {
	Lag   int64      // events that wait to be read; -1 if unknown
	Away  dag.Micros // time since which the other side cannot be reached; 0 if it can be reached
	Why   string     // the reason for Away
	Heard dag.Micros // time of the last answer of the other side
	// Alive is the time at which the source last did something, or began to wait for its next look. A source
	// that stays silent for silentMax is restarted.
	Alive time.Time
}

// LaterError is an error of a source that must not be restarted before some time has passed.
type LaterError struct {
	After time.Duration
	Err   error
}

func (e *LaterError) Error() string { return e.Err.Error() }
func (e *LaterError) Unwrap() error { return e.Err }

// Start is the place at which a source without a cursor begins.
type Start struct {
	// Beginning is true if all existing data are events. Otherwise only data after Since are events.
	Beginning bool
	Since     time.Time
}

// lookMax bounds the time of one look of a source. It is shorter than the time after which a silent source is
// restarted. A test lowers it.
var lookMax = time.Minute

// aliveEvery is the interval at which a waiting source updates State.Alive.
const aliveEvery = 15 * time.Second

// pulse is the state of a source that looks at intervals.
type pulse struct {
	mu sync.Mutex // protects is
	is State
}

// State implements Source.
func (p *pulse) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.is
}

// answered records an answer of the other side, and the number of its events that wait.
func (p *pulse) answered(lag int64) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.is.Heard, p.is.Alive, p.is.Lag = dag.Micro(now), now, lag
}

// wait waits for a time, for a wake, or for the end of ctx.
func (p *pulse) wait(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	until := time.Now().Add(d)
	for {
		p.mu.Lock()
		p.is.Alive = time.Now()
		p.mu.Unlock()
		left := time.Until(until)
		if left <= 0 {
			return ctx.Err()
		}
		timer := time.NewTimer(min(left, aliveEvery))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-wake:
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// valueMax bounds the value of an event, so that an event with its key fits into a batch.
const valueMax = engine.BatchBytesMax - 4<<10

// Errors of looks. The texts around them name the place and the remedy.
var (
	errSlow   = errors.New("no complete answer")
	errLarge  = errors.New("the answer is too large")
	errForm   = errors.New("the answer is not JSON")
	errStatus = errors.New("the server refuses the request")
	errMany   = errors.New("there are too many items")
	errTies   = errors.New("rows share a position")
	errStays  = errors.New("the position does not grow")
)

// errTooLarge says that an event has too many bytes.
var errTooLarge = errors.New("it is too large for an event: the limit is 1 MiB")
