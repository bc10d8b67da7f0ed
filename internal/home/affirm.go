package home

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"

	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

const (
	// affirmMax is how long the result of one read of the rows is used for calls about an attempt. So a
	// transfer of many pieces reads the rows once in that time. A worker may still get data of the attempt
	// for at most that time after the attempt's end, but it could have got the same data before the end. It
	// cannot change the artifacts then, because stored artifacts are final (artifact.ErrFinal).
	affirmMax = 2 * time.Second
	// affirmAgain is how long the result of one read is used for the log of an ended attempt: see
	// engine.LateMax.
	affirmAgain = time.Minute
)

// affirm checks in the rows that a worker has an attempt, and does not rely on statements of the worker. A
// delivery by the owner is as good as a row, because it follows the commit. After a cancel, it is no longer
// used.
func (h *Home) affirm(ctx context.Context, w *worker, k key) (*holding, error) {
	h.mu.Lock()
	x := w.running[k]
	fresh := x != nil && time.Since(x.affirmed) < affirmMax
	h.mu.Unlock()
	switch {
	case x == nil:
		return nil, h.stale(k)
	case fresh:
		return x, nil
	}
	asked := time.Now()
	holds, err := h.eng.Holds(ctx, w.member.Handler, k.run, k.task, k.token)
	if err != nil && !missing(err) {
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil || !holds {
		x.affirmed = time.Time{}
		return nil, h.stale(k)
	}
	x.affirmed = asked
	return x, nil
}

// missing reports whether an error means that the run or its workflow was deleted.
func missing(err error) bool {
	return errors.Is(err, errkind.ErrNotFound) || errors.Is(err, store.ErrNotFound)
}

// stale returns the error for a call about an attempt that the worker does not have.
func (h *Home) stale(k key) error {
	return h.no(connect.CodeFailedPrecondition, Stale, "run %s, task %d, token %d: the worker does not have that attempt", k.run, k.task, k.token)
}

// named returns the names of an attempt that a worker has or had lately. It returns false for other attempts.
// It reads the rows of a running attempt once per engine.LateMax. So if an attempt has ended and this home
// has not noticed it, the worker can continue its calls for at most that time.
func (h *Home) named(ctx context.Context, w *worker, k key) (Names, bool, error) {
	now := time.Now()
	h.mu.Lock()
	n, known, late := w.names.of(k, now)
	x := w.running[k]
	own := x != nil && now.Sub(x.affirmed) < engine.LateMax
	h.mu.Unlock()
	if known {
		return n, !late, nil
	}
	var err error
	if !own {
		if own, err = h.eng.Holds(ctx, w.member.Handler, k.run, k.task, k.token); err == nil && !own {
			own, err = h.eng.Had(ctx, w.member.Handler, k.run, k.task, k.token)
			now = now.Add(affirmAgain - engine.LateMax)
		}
	}
	if err == nil && own {
		n, err = h.cfg.Jobs.Names(ctx, k.run, k.task)
	}
	switch {
	case missing(err):
		return n, false, nil
	case err != nil || !own:
		return n, false, err
	}
	h.mu.Lock()
	w.names.add(k, n, now)
	h.mu.Unlock()
	return n, true, nil
}
