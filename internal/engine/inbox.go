package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
)

// item is one unit of work for the writer: an event of a run, a submission, or a change of a definition. done
// is set if a caller waits for the answer. It is called once, on the writer's goroutine, after the commit or
// when it is certain that the item will not be committed.
type item struct {
	run    dag.RunID
	ev     *dag.Event // nil if the item is no event of a run
	task   string     // the name of the task of a verb
	submit *Submission
	define *definition
	// ask reads memory, or replaces a run in memory by its rows. It changes no row. An item with ask is the
	// first item of its transaction, so that ask never sees a half-made transaction.
	ask func(w *writer) error
	// op changes triggers, backfills or other rows.
	op     func(w *writer) answer
	mail   int64          // the id of the message that op processes
	req    *store.Request // the request whose answer is stored with the change
	note   *store.Audit   // the audit row of the caller's change, or nil
	done   func(answer)
	behind bool // the item must follow all reports that came before it
	// again says that the item was applied before, in a transaction whose outcome was unknown. Invariant: if
	// that transaction was committed, the second application changes nothing.
	again    bool
	stripped bool // a report without the content that the store refused
	// refused says that the store has refused this submission or change once. The writer then reads the
	// present row and tries again.
	refused bool
	gone    bool // the report is about a loss: the holder says that the attempt no longer runs
}

// answer is the writer's answer to an item.
type answer struct {
	verdict  dag.Verdict
	run      dag.RunID
	existing bool
	// view is the run of a submission after its transaction. It is nil if the caller did not ask for the run.
	view *inspect.RunView
	err  error
	more *result // nil for runs and reports, so that their answers are small
}

// result is the result of a change that starts no run.
type result struct {
	workflow store.Workflow
	occurred Occurred
	taken    Taken
	backfill store.Backfill
}

// result returns the result of a change that starts no run. It is empty if there is none.
func (a *answer) result() result {
	if a.more == nil {
		return result{}
	}
	return *a.more
}

// kind returns the kind of the event, or 0 if the item is no event of a run.
func (it *item) kind() dag.EventKind {
	if it.ev == nil {
		return 0
	}
	return it.ev.Kind
}

func (it *item) reply(a answer) {
	if it.done != nil {
		it.done(a)
	}
}

// inbox is the queue before a writer. It has separate lists for calls, for which callers wait, and for
// reports, so that submissions never delay a report. The number of slots bounds the reports. Submissions have
// their own bound, above which they are refused.
type inbox struct {
	host  host.Host
	pulse *pulse
	wake  chan struct{} // capacity 1, so that many wake-ups cause one look
	since atomic.Int64  // the time, by pulse, at which an item arrived in the empty inbox

	mu        sync.Mutex // protects following fields
	events    fifo
	calls     fifo
	submits   int // number of calls
	submitMax int
	closed    bool
}

func newInbox(h host.Host, p *pulse, submitMax int) *inbox {
	return &inbox{host: h, pulse: p, wake: make(chan struct{}, 1), submitMax: submitMax}
}

// put gives items to the writer: all of them or, with an error, none. It refuses submissions beyond the
// bound. It accepts a list that is itself larger than the bound if no submission waits.
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
		return fmt.Errorf("%w: the node is stopping", errkind.ErrUnavailable)
	}
	if submits > 0 && b.submits > 0 && b.submits+submits > b.submitMax {
		b.mu.Unlock()
		return fmt.Errorf("%w (%d); try again in a moment", errkind.ErrBusy, b.submitMax)
	}
	b.submits += submits
	if b.events.len()+b.calls.len() == 0 {
		b.since.Store(b.pulse.now())
	}
	for i := range items {
		if items[i].done != nil && !items[i].behind {
			b.calls.push(items[i])
		} else {
			b.events.push(items[i])
		}
	}
	b.mu.Unlock()
	b.poke()
	return nil
}

// oldest returns the arrival time of the oldest item, by the clock of pulse, or 0 if the inbox is empty.
func (b *inbox) oldest() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.events.len()+b.calls.len() == 0 {
		return 0
	}
	return b.since.Load()
}

// begun records that the writer has taken all the items that it can take now. For the remaining items, the
// wait counts from now.
func (b *inbox) begun() {
	if b.len() > 0 {
		b.since.Store(b.pulse.now())
	}
}

func (b *inbox) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// takeEvents moves reports to the end of a list, in their order. takeCalls does the same with calls.
func (b *inbox) takeEvents(to []item, most int) []item {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.events.move(to, most)
}

func (b *inbox) takeCalls(to []item, most int) []item {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(to)
	to = b.calls.move(to, most)
	for i := n; i < len(to); i++ {
		if to[i].submit != nil {
			b.submits--
		}
	}
	return to
}

func (b *inbox) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.events.len() + b.calls.len()
}

// eachEvent calls a function for each waiting report.
func (b *inbox) eachEvent(f func(*item)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events.each(f)
}

// refuse answers every waiting call.
func (b *inbox) refuse(err error) {
	b.mu.Lock()
	calls := b.calls.move(nil, b.calls.len())
	b.submits = 0
	b.mu.Unlock()
	for i := range calls {
		calls[i].reply(answer{run: calls[i].run, err: err})
	}
}

// close refuses all further items.
func (b *inbox) close(err error) {
	b.mu.Lock()
	b.closed = true
	events := b.events.move(nil, b.events.len())
	b.mu.Unlock()
	for i := range events {
		events[i].reply(answer{err: err})
	}
	b.refuse(err)
}

// send puts one item into the inbox and waits for its answer.
func (b *inbox) send(ctx context.Context, it item) (answer, error) {
	var a answer
	told := make(chan struct{}, 1)
	if it.submit == nil && it.ask == nil { // the start of a run is recorded in the run's row
		if row, ok := store.AuditOf(ctx); ok {
			it.note = &row
		}
	}
	it.done = func(is answer) { a = is; told <- struct{}{} }
	if err := b.put(it); err != nil {
		return answer{}, err
	}
	if b.host.Await(ctx, told, host.Forever) {
		return a, a.err
	}
	// The item may still be written. The caller can retry with its key to find out.
	return answer{}, fmt.Errorf("%w: no answer yet; the request may have been accepted: %w", errkind.ErrUnavailable, ctx.Err())
}

// ask makes the writer call look, and returns the results of look. If ctx ends first, ask returns the zero
// value, because the writer may still be running look.
func ask[T any](ctx context.Context, b *inbox, look func(w *writer) (T, error)) (T, error) {
	said := make(chan T, 1)
	_, err := b.send(ctx, item{ask: func(w *writer) error {
		seen, err := look(w)
		select {
		case <-said: // the value is from an earlier transaction that failed; only the last call of look has the result
		default:
		}
		said <- seen
		return err
	}})
	var nothing T
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nothing, err // the result is the same even if look has just returned
	}
	select {
	case seen := <-said:
		return seen, err
	default:
		return nothing, err
	}
}

// fifo is a queue of items in one array.
type fifo struct {
	items []item
	head  int
}

// fifoKeep is the largest array, in items, that an empty queue keeps.
const fifoKeep = 4 * batchRowsMax

func (q *fifo) len() int { return len(q.items) - q.head }

func (q *fifo) push(it item) {
	if q.head > 0 && len(q.items) == cap(q.items) { // make room at the front before growing
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, it)
}

// move moves items, up to the number most, from the front of the queue to the end of a list.
func (q *fifo) move(to []item, most int) []item {
	n := min(most, q.len())
	if n <= 0 {
		return to
	}
	first := q.items[q.head : q.head+n]
	to = append(to, first...)
	clear(first)
	if q.head += n; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
		if cap(q.items) > fifoKeep {
			q.items = nil
		}
	}
	return to
}

func (q *fifo) each(f func(*item)) {
	for i := q.head; i < len(q.items); i++ {
		f(&q.items[i])
	}
}
