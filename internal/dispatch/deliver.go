package dispatch

import (
	"context"
	"errors"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/worker"
)

// Delivery moves the artifacts of this node's attempts to the store that all nodes share.
type Delivery interface {
	// Waiting reports whether artifacts of an attempt still have to be moved.
	Waiting(k *worker.Key) bool
	// Deliver moves all artifacts of an attempt, or none. It may take minutes. Its errors are for people.
	Deliver(ctx context.Context, k *worker.Key) error
}

// Reasons for which a delivery ends early.
var (
	errLeaves  = errors.New("this process ends")
	errStopped = errors.New("stopped while its artifacts were being sent to their store")
)

// delivers begins the delivery of the artifacts of a successful attempt. It returns false if there is nothing
// to deliver. The keeper stores the result until the result is reported, so after a restart the next process
// can begin again.
func (x *Executor) delivers(h *handed, r *worker.Result) bool {
	if x.delivery == nil || r.State != worker.Succeeded || !x.delivery.Waiting(&r.Key) {
		return false
	}
	res, life := *r, x.life
	ctx, cancel := context.WithCancelCause(life)
	x.mu.Lock()
	defer x.mu.Unlock()
	if h.unwant = func() { cancel(errStopped) }; h.cancel != 0 {
		h.unwant()
	}
	x.wg.Go(func() {
		defer cancel(nil)
		x.deliver(ctx, h, res)
	})
	return true
}

// deliver delivers the artifacts of an attempt, and then reports the result of the attempt.
func (x *Executor) deliver(ctx context.Context, h *handed, r worker.Result) {
	err := x.delivery.Deliver(ctx, &r.Key)
	res := result(&r)
	switch {
	case err == nil:
	case errors.Is(err, errLeaves):
		x.forget(h, false) // the next process gets the result from the keeper, or declares the attempt lost
		return
	case errors.Is(err, errStopped):
		x.mu.Lock()
		res.Cause, res.Message = stoppedBefore(h.cancel).Cause, errStopped.Error()
		x.mu.Unlock()
		res.State = dag.AttemptStopped
	default:
		res.State, res.Cause, res.Message = dag.AttemptFailed, dag.Cause(worker.CauseArtifacts), err.Error()
	}
	x.report(h, res)
}
