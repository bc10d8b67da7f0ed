package server

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"skein.dev/skein/internal/inspect"
	api "skein.dev/skein/sdk/api/v1"
)

// Bounds for requests that need much memory or processor time, and for large answers while clients read them.
// The weight of a request is the size of its body, and the weight of an answer is its own size.
const (
	// heavyMax bounds the sum of the weights of all running requests, and separately the sum for all answers that
	// clients are reading
	heavyMax        = 4 << 20
	heavyWhole      = heavyMax / 2 // the largest weight of one request
	heavyWaitingMax = 64 << 20     // bytes of all waiting requests
	heavyWaitMax    = 30 * time.Second
	heavyRetryAfter = 5 // seconds
)

// weights bounds the sum of the weights of running requests. Requests begin in the order of their arrival. A
// semaphore could not bound the waiting requests.
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

// enter waits until a request may begin, and returns the function to call at its end. bytes is the size of
// its body.
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
	} else { // the request was allowed to begin just now
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

// next lets waiting requests begin, as far as their weights fit. The caller must hold the mutex.
func (w *weights) next() {
	for len(w.turns) > 0 && w.used+w.turns[0].weight <= heavyMax {
		w.used += w.turns[0].weight
		close(w.turns[0].come)
		w.turns = slices.Delete(w.turns, 0, 1)
	}
}

// answerRate is the slowest rate, in bytes a second, at which a client may read a large answer. A slower
// client would block other such answers.
const answerRate = 1 << 20

// whenWritten calls leave when the answer to the request of ctx has been written. The client has a limited
// time to read the answer, in proportion to its size in bytes.
func whenWritten(ctx context.Context, bytes int, leave func()) {
	rec, ok := ctx.Value(recorderKey{}).(*recorder)
	if !ok {
		leave()
		return
	}
	control := http.NewResponseController(rec)
	// A request within this process has no deadline to set.
	_ = control.SetWriteDeadline(time.Now().Add(writeTimeout + time.Duration(bytes)*time.Second/answerRate))
	rec.written = func() {
		_ = control.SetWriteDeadline(time.Time{})
		leave()
	}
}

// lightBytes is the largest size of values, in bytes, for which an answer has no weight. So slow readers of
// large answers do not block the usual lists of a page.
const lightBytes = 64 << 10

// weighOutputs waits until an answer with the outputs of tasks may be made. The answer has its weight until
// the client has read it. The store has already bounded the outputs of one answer.
func weighOutputs(ctx context.Context, s *Server, views []inspect.TaskView) error {
	bytes := 0
	for i := range views {
		bytes += len(views[i].Outputs)
	}
	if bytes <= lightBytes {
		return nil
	}
	leave, err := s.reads.enter(ctx, bytes)
	if err == nil {
		whenWritten(ctx, bytes, leave)
	}
	return err
}

func busy(why string) error {
	f := fail(http.StatusTooManyRequests, api.ProblemBusy, "the server is busy with large requests, and %s; try again in %d s", why, heavyRetryAfter)
	return retryAfter(f, heavyRetryAfter*time.Second)
}

// retryAfter adds to a refusal the time after which to try again, if another try can succeed.
func retryAfter(f *failure, after time.Duration) error {
	f.header.Set("Retry-After", strconv.Itoa(max(1, int(after/time.Second))))
	return f
}
