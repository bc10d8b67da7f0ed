// Package host provides what a service needs from its machine: a clock, goroutines, waits and random numbers.
// The engine and the cluster use only this package for them, so that the simulator (internal/sim) can replace
// the machine. In the simulator, the same code runs on one thread, and a seed determines order and time.
package host

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Forever is the duration for Await that means no limit.
const Forever time.Duration = -1

// Host is a machine or the simulator. Any goroutine may call its methods.
type Host interface {
	// Now returns the time of the machine's clock. Differences between its results are monotonic.
	Now() time.Time
	// Await waits until wake has a value, d has passed or ctx ends. It receives the value of wake. It reports
	// whether it received a value. After the end of ctx, the result may be true or false.
	Await(ctx context.Context, wake <-chan struct{}, d time.Duration) bool
	// Go runs f in a new goroutine, which wg counts.
	Go(wg *sync.WaitGroup, f func())
	// Wait waits for all goroutines that wg counts.
	Wait(wg *sync.WaitGroup)
	// ID returns a new UUID of version 7. Such IDs sort by time.
	ID() uuid.UUID
	// Jitter returns a random duration in [0, d).
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

// Now implements Host.
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

// ID implements Host.
func (Machine) ID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// Jitter returns a random duration below d.
func (Machine) Jitter(d time.Duration) time.Duration { return rand.N(d) }

// Sleep waits for d on the real machine. If ctx ends earlier, it returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	Machine{}.Await(ctx, nil, max(d, 0))
	return ctx.Err()
}
