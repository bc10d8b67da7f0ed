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

// Bounds of requests that take much memory or processor time: what they weigh is the bytes of what they
// bring.
const (
	heavyMax        = 4 << 20 // weight of all that are worked on at a time
	heavyWhole      = heavyMax / 2
	heavyWaitingMax = 64 << 20 // bytes of all that wait
	heavyWaitMax    = 30 * time.Second
	heavyRetryAfter = 5 // seconds
)

// weights bounds what requests weigh that are worked on at a time. They take turns in the order in which they
// come. A semaphore would do, but for the bound on what waits.
type weights struct {
	mu      sync.Mutex // protects following fields
	used    int64
	peak    int // most requests at a time that weigh heavyWhole
	whole   int
	waiting int64 // bytes
	turns   []*turn
}

// turn is a request that waits.
type turn struct {
	weight int64
	come   chan struct{} // closed when its turn has come
}

// enter waits until a request may be worked on, and gives what ends that. bytes is the size of what it
// brings.
func (w *weights) enter(ctx context.Context, bytes int) (leave func(), err error) {
	weight := int64(min(max(bytes, 1), heavyWhole))
	w.mu.Lock()
	if len(w.turns) == 0 && w.used+weight <= heavyMax {
		w.begin(weight)
		w.mu.Unlock()
		return func() { w.leave(weight) }, nil
	}
	if w.waiting+int64(bytes) > heavyWaitingMax {
		w.mu.Unlock()
		return nil, busy("others like it wait already, and together they are too large")
	}
	t := &turn{weight, make(chan struct{})}
	w.turns, w.waiting = append(w.turns, t), w.waiting+int64(bytes)
	w.mu.Unlock()
	timer := time.NewTimer(heavyWaitMax)
	defer timer.Stop()
	select {
	case <-t.come:
	case <-timer.C:
		err = busy("its turn has not come within " + heavyWaitMax.String())
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
	} else { // its turn has come in this moment
		w.end(weight)
	}
	w.next()
	return nil, err
}

func (w *weights) leave(weight int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end(weight)
	w.next()
}

func (w *weights) begin(weight int64) {
	if w.used += weight; weight == heavyWhole {
		w.whole++
		w.peak = max(w.peak, w.whole)
	}
}

func (w *weights) end(weight int64) {
	if w.used -= weight; weight == heavyWhole {
		w.whole--
	}
}

// next lets those begin whose turn it is.
func (w *weights) next() {
	for len(w.turns) > 0 && w.used+w.turns[0].weight <= heavyMax {
		w.begin(w.turns[0].weight)
		close(w.turns[0].come)
		w.turns = slices.Delete(w.turns, 0, 1)
	}
}

func busy(why string) error {
	f := fail(http.StatusTooManyRequests, api.ProblemBusy, "the server is busy with requests that take much work, and %s; ask again in %d s", why, heavyRetryAfter)
	f.header.Set("Retry-After", strconv.Itoa(heavyRetryAfter))
	return f
}
