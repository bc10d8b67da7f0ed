// Package shutdown bounds the end of a process: whatever is stuck, the process ends, and its next start
// recovers as after a crash.
package shutdown

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// ErrOverdue says that a node or worker did not stop in time because a part of it is stuck. The process
// must end.
var ErrOverdue = errors.New("the shutdown did not end in time")

// Deadline bounds a shutdown.
type Deadline struct {
	Drain, Most time.Duration   // Most is how much longer than Drain the shutdown may take
	Hurry       <-chan struct{} // receives or is closed if the shutdown does not wait for Drain any more
	Log         *slog.Logger
	// Stuck describes the possible reason. It is nil if none is known.
	Stuck func() string
}

// Run works until ctx ends and the work has ended. If that takes too long, Run returns ErrOverdue, and the
// work continues in the background.
func (d *Deadline) Run(ctx context.Context, work func() error) error {
	over := make(chan error, 1)
	go func() { over <- work() }()
	select {
	case err := <-over:
		return err
	case <-ctx.Done():
	}
	began, hurry := time.Now(), d.Hurry
	timer := time.NewTimer(d.Drain + d.Most)
	defer timer.Stop()
	for {
		select {
		case err := <-over:
			return err
		case <-hurry:
			hurry = nil
			timer.Reset(d.Most)
		case <-timer.C:
			return d.overdue(time.Since(began).Round(time.Millisecond))
		}
	}
}

// overdue is called when the shutdown has taken the time took, counted from the signal.
func (d *Deadline) overdue(took time.Duration) error {
	why := "not known"
	if d.Stuck != nil {
		why = d.Stuck()
	}
	d.Log.Error("the shutdown takes too long; the process ends now, and the next start recovers as after a crash",
		"code", "shutdown_overdue", "drain", d.Drain, "took", took, "cause", why)
	return fmt.Errorf("%w: %v after the signal it was still under way (cause: %s); the next start recovers as after a crash", ErrOverdue, took, why)
}
