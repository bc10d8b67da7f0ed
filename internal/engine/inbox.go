package engine

import (
	"context"
	"fmt"
	"sync"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// item is one thing for the writer to do: an event of a run, a submission, or a change of
// a definition. done, if set, is called once, after the commit, on the writer's goroutine.
type item struct {
	run    dag.RunID
	ev     dag.Event
	submit *Submission
	define *definition
	ask    func(w *writer) // looks at memory; writes nothing
	req    *store.Request  // an answer to keep with the change
	done   func(answer)
	shut   bool // a report from a worker: it gives a slot back, whatever becomes of it
	again  bool // was applied before, in a transaction whose outcome was unknown
}

// answer is what the writer says of an item.
type answer struct {
	verdict  dag.Verdict
	run      dag.RunID
	existing bool
	workflow store.Workflow
	err      error
}

func (it *item) reply(a answer) {
	if it.done != nil {
		it.done(a)
	}
}

// inbox is the queue before a writer. Reports and timers are bounded by the slots;
// submissions are refused at a bound of their own, so that they never hold up a report.
type inbox struct {
	wake chan struct{} // cap 1: many wake-ups mean one look

	mu        sync.Mutex // protects following fields
	items     []item
	submits   int
	submitMax int
	closed    bool
}

func newInbox(submitMax int) *inbox {
	return &inbox{wake: make(chan struct{}, 1), submitMax: submitMax}
}

// put hands items to the writer, all or none.
func (b *inbox) put(items ...item) error {
	submits := 0
	for i := range items {
		if items[i].submit != nil {
			submits++
		}
	}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return fmt.Errorf("%w: the node is stopping", ErrUnavailable)
	}
	if submits > 0 && b.submits > 0 && b.submits+submits > b.submitMax {
		b.mu.Unlock()
		return fmt.Errorf("%w (%d); try again in a moment", ErrBusy, b.submitMax)
	}
	b.submits += submits
	b.items = append(b.items, items...)
	b.mu.Unlock()
	b.poke()
	return nil
}

func (b *inbox) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take swaps the waiting items for an empty list.
func (b *inbox) take(empty []item) []item {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.items, b.submits = empty, 0
	return items
}

// close refuses everything from now on and answers what still waits.
func (b *inbox) close() {
	b.mu.Lock()
	items := b.items
	b.items, b.closed = nil, true
	b.mu.Unlock()
	for i := range items {
		items[i].reply(answer{err: fmt.Errorf("%w: the node stopped before it was written", ErrUnavailable)})
	}
}

// send puts one item and waits for its answer.
func (b *inbox) send(ctx context.Context, it item) (answer, error) {
	got := make(chan answer, 1)
	it.done = func(a answer) { got <- a }
	if err := b.put(it); err != nil {
		return answer{}, err
	}
	select {
	case a := <-got:
		return a, a.err
	case <-ctx.Done():
		// It may yet be written: the caller's key tells when it tries again.
		return answer{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}
