package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	skein "skein.dev/skein/sdk"
)

const (
	// contactWait is how long a command keeps trying while the server does not answer, or says that it cannot
	// do it now.
	contactWait = 30 * time.Second
	// takeOverAfter is how long this process waits for a lost server before it opens the data folder itself.
	// Meanwhile a supervisor can restart the server, which would otherwise find the folder in use.
	takeOverAfter = 10 * time.Second
	// contactPoll is the first pause between two tries to reach the server. Each pause is twice as long as the
	// previous one, up to contactPollMax.
	contactPoll    = 100 * time.Millisecond
	contactPollMax = 2 * time.Second
	// retryAfterMax bounds the pause that a server may ask for between two tries.
	retryAfterMax = 10 * time.Second
)

// breath returns the pause before the next try after the server has failed with err. It is random, so that
// commands that lost the server together do not return to it at the same moment.
func (w *waiter) breath(err error) time.Duration {
	w.pause = min(max(2*w.pause, contactPoll), contactPollMax)
	pause := w.pause/2 + rand.N(w.pause/2)
	var e *skein.Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		least := min(e.RetryAfter, retryAfterMax)
		pause = max(pause, least+rand.N(least/4))
	}
	return pause
}

// within bounds everything that a command does after this call, including the search for a server. A timeout
// of 0 means no bound.
func (w *waiter) within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, timeout, errTimedOut)
}

// late replaces err if the time of the command has run out, because every failure then comes from the
// deadline.
func (w *waiter) late(ctx context.Context, err error) error {
	var told *said
	switch {
	case err == nil || !errors.Is(context.Cause(ctx), errTimedOut):
		return err
	case errors.As(err, &told) && told.kind == errTimedOut:
		return err
	case w.what == "":
		return hint(&said{errTimedOut, "no server has accepted the request in the given time; stopped waiting"}, "the request may have been accepted nevertheless: skein run list")
	}
	return hint(&said{errTimedOut, w.what + "; stopped waiting"}, "look again: "+w.again)
}
