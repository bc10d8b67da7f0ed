// Package host provides what a service needs from its machine: a clock, goroutines, waiting and random
// numbers. The engine and the cluster take all of it from here, so that the simulator (internal/sim) can take
// the place of the machine. Then the code of production runs on one thread, and a seed decides the order and
// the time.
package host

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Forever, as a duration for Await, means no bound.
const Forever time.Duration = -1

// Host is a machine, or the simulator. Its methods may be called from any goroutine.
type Host interface {
	// Now is the clock of the machine. Differences of its readings are monotonic.
	Now() time.Time
	// Await waits until wake has a value, which it takes, or until d has passed, or until ctx ends. It reports
	// whether it was woken. After the end of ctx the result may be either.
	Await(ctx context.Context, wake <-chan struct{}, d time.Duration) bool
	// Go runs f on a goroutine of its own, which wg counts.
	Go(wg *sync.WaitGroup, f func())
	// Wait waits for all goroutines that wg counts.
	Wait(wg *sync.WaitGroup)
	// ID returns a new name. Names sort by time (UUID version 7).
	ID() uuid.UUID
	// Jitter is a random duration in [0, d).
	Jitter(d time.Duration) time.Duration
}

// Machine is the real machine.
type Machine struct{}

var _ Host = Machine{}

// Or returns h, or the real machine if h is nil.
func Or(h Host) Host {
	if h == nil {
		return Machine{}
	}
	return h
}

// Now is the machine's clock.
func (Machine) Now() time.Time { return time.Now() }

// Await waits.
func (Machine) Await(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	var alarm <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		alarm = t.C
	}
	select {
	case <-wake:
		return true
	case <-alarm:
	case <-ctx.Done():
	}
	return false
}

// Go starts a goroutine.
func (Machine) Go(wg *sync.WaitGroup, f func()) { wg.Go(f) }

// Wait waits.
func (Machine) Wait(wg *sync.WaitGroup) { wg.Wait() }

// ID is a new UUID.
func (Machine) ID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// Jitter is random.
func (Machine) Jitter(d time.Duration) time.Duration { return rand.N(d) }

// Sleep waits for d on the real machine. If ctx ends before, Sleep returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	Machine{}.Await(ctx, nil, max(d, 0))
	return ctx.Err()
}
