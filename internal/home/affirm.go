package home

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"

	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

const (
	// affirmMax is how long one look at the rows counts for the calls about an attempt. A transfer of many pieces
	// reads the rows once in that time. What a worker gets later than the end of its attempt is what it could
	// have got that much earlier, and what it had kept is final (artifact.ErrFinal), so a longer look gives no
	// right that the attempt had not.
	affirmMax = 2 * time.Second
	// affirmAgain is how long one look counts for the log of an attempt that has ended: see engine.LateMax.
	affirmAgain = time.Minute
)

// affirm checks that a worker has an attempt, by the rows: what the worker says of itself counts for nothing.
// The owner's delivery is as good as a row, because it follows the commit. A cancel voids what was affirmed.
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

// missing reports whether an error says that the run or its workflow was deleted.
func missing(err error) bool {
	return errors.Is(err, engine.ErrNotFound) || errors.Is(err, store.ErrNotFound)
}

// stale refuses a call about an attempt that a worker does not have.
func (h *Home) stale(k key) error {
	return h.no(connect.CodeFailedPrecondition, Stale, "run %s, task %d, token %d: the worker does not have that attempt", k.run, k.task, k.token)
}

// named says how an attempt is called that is or was a worker's; false: it is not its own, and was not
// lately. An attempt that the worker has is asked for once in engine.LateMax, so that no worker goes on for
// longer than that after an end of which this home has not heard.
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
