// Package source reads events from outside for triggers. A source of events has a position, its cursor. The
// trigger's row keeps the cursor, and one transaction of the engine writes the runs, the ledger and the moved
// cursor. So an event starts one run, whatever dies at any time.
//
// Reading order: source.go (the contract), supervisor.go and runner.go (who runs a source, and when it is
// started again), then the sources, which do not depend on each other: poll.go, query.go, object.go.
package source

import (
	"context"
	"errors"
	"sync"
	"time"

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
	// Alive is when the source last did something, or waited for its next look. A source that stays silent for
	// silentMax is started again.
	Alive time.Time
}

// LaterError is an error of a source that wants to be started again after a time at the earliest.
type LaterError struct {
	After time.Duration
	Err   error
}

func (e *LaterError) Error() string { return e.Err.Error() }
func (e *LaterError) Unwrap() error { return e.Err }

// Start says where a source begins that has no cursor.
type Start struct {
	// Beginning: all that is there are events. Otherwise only what comes after Since.
	Beginning bool
	Since     time.Time
}

// lookMax bounds one look of a source. It is shorter than the time after which a silent source is started
// again. A test lowers it.
var lookMax = time.Minute

// aliveEvery is the time after which a source that waits says so.
const aliveEvery = 15 * time.Second

// pulse is the state of a source that looks from time to time.
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

// answered notes an answer of the other side, and how many events of it wait.
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
	errSlow   = errors.New("there was no whole answer in time")
	errLarge  = errors.New("the answer is too large")
	errForm   = errors.New("the answer is not JSON")
	errStatus = errors.New("the server refuses the request")
	errMany   = errors.New("there are too many items")
	errTies   = errors.New("rows share a position")
	errStays  = errors.New("the position does not grow")
)

// errTooLarge says that an event has too many bytes.
var errTooLarge = errors.New("it is too large for an event: the limit is 1 MiB")
