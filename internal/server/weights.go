package server

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	api "skein.dev/skein/api/v1"
)

// Bounds of requests that take much memory or processor time. The weight of a request is the size of its body.
const (
	heavyMax        = 4 << 20      // weight of all requests in work
	heavyWhole      = heavyMax / 2 // the largest weight of one request
	heavyWaitingMax = 64 << 20     // bytes of all waiting requests
	heavyWaitMax    = 30 * time.Second
	heavyRetryAfter = 5 // seconds
)

// weights bounds the sum of the weights of the requests in work. Requests begin in the order of their arrival. A
// semaphore would do, but it has no bound on waiting requests.
type weights struct {
	mu      sync.Mutex // protects following fields
	used    int64
	waiting int64 // bytes
	turns   []*turn
}

// turn is a waiting request.
type turn struct {
	weight int64
	come   chan struct{} // closed when the request may begin
}

// enter waits until a request may begin, and returns the function that ends its work. bytes is the size of its body.
func (w *weights) enter(ctx context.Context, bytes int) (leave func(), err error) {
	weight := int64(min(max(bytes, 1), heavyWhole))
	w.mu.Lock()
	if len(w.turns) == 0 && w.used+weight <= heavyMax {
		w.used += weight
		w.mu.Unlock()
		return func() { w.leave(weight) }, nil
	}
	if w.waiting+int64(bytes) > heavyWaitingMax {
		w.mu.Unlock()
		return nil, busy("the waiting requests are too large together")
	}
	t := &turn{weight, make(chan struct{})}
	w.turns, w.waiting = append(w.turns, t), w.waiting+int64(bytes)
	w.mu.Unlock()
	timer := time.NewTimer(heavyWaitMax)
	defer timer.Stop()
	select {
	case <-t.come:
	case <-timer.C:
		err = busy("this one could not begin within " + heavyWaitMax.String())
	case <-ctx.Done():
		err = ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting -= int64(bytes)
	if err == nil {
		return func() { w.leave(weight) }, nil
	}
	if at := slices.Index(w.turns, t); at >= 0 {
		w.turns = slices.Delete(w.turns, at, at+1)
	} else { // it was let in at this moment
		w.used -= weight
	}
	w.next()
	return nil, err
}

func (w *weights) leave(weight int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used -= weight
	w.next()
}

// next lets the waiting requests begin that fit. The caller holds the mutex.
func (w *weights) next() {
	for len(w.turns) > 0 && w.used+w.turns[0].weight <= heavyMax {
		w.used += w.turns[0].weight
		close(w.turns[0].come)
		w.turns = slices.Delete(w.turns, 0, 1)
	}
}

func busy(why string) error {
	f := fail(http.StatusTooManyRequests, api.ProblemBusy, "the server is busy with large requests, and %s; try again in %d s", why, heavyRetryAfter)
	f.header.Set("Retry-After", strconv.Itoa(heavyRetryAfter))
	return f
}
