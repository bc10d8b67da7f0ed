package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// batchRowsMax bounds a transaction, in rows; an item is never split.
const batchRowsMax = 4000

// rowsPerItem is what an item is taken to write, before it is known.
const rowsPerItem = 2

// writer is the only one who writes for its shards: one goroutine, one transaction at a
// time. All its fields are its goroutine's.
type writer struct {
	e     *Engine
	inbox *inbox
	spare []item // the list that the next take swaps in
	kept  []item // taken, not yet in a committed transaction

	batch store.Batch
	clock clock
	fx    dag.Effects

	runs    map[dag.RunID]*dag.Run
	bad     map[dag.RunID]string // quarantined for this life: their rows cannot be read
	queue   dag.Queue
	timers  timerHeap
	changed definitions

	touched []*dag.Run // by the transaction being made
	marked  map[*dag.Run]bool
	assigns []Assignment       // to dispatch once committed
	splits  []Assignment       // Leader work, likewise
	answers []answer           // by item of the transaction being made
	keys    map[keyOf]*dag.Run // submissions with a key in the transaction being made
	taken   []store.Fence      // as they were acquired
	rows    int                // estimate of the transaction being made
	wg      *sync.WaitGroup
	// itemsMax bounds the items of a transaction: halved when one is refused for its
	// content, doubled when one commits. See halve.go.
	itemsMax int
}

func newWriter(e *Engine) *writer {
	w := &writer{e: e, inbox: newInbox(e.cfg.SubmitMax), queue: dag.Queue{Ageing: e.cfg.Ageing}, itemsMax: batchRowsMax}
	w.forget()
	return w
}

// forget drops everything that is only a cache.
func (w *writer) forget() {
	w.e.home.unbook(len(w.assigns))
	w.runs = map[dag.RunID]*dag.Run{}
	w.bad = map[dag.RunID]string{}
	w.queue = dag.Queue{Ageing: w.queue.Ageing}
	w.timers = nil
	w.changed = definitions{}
	w.marked = map[*dag.Run]bool{}
	w.keys = map[keyOf]*dag.Run{}
	w.dropBatch()
}

// dropBatch forgets the transaction being made, but not the items it was made of.
func (w *writer) dropBatch() {
	w.batch.Reset()
	w.fx.Reset()
	clear(w.touched)
	clear(w.marked)
	clear(w.keys)
	w.touched, w.assigns, w.splits, w.answers = w.touched[:0], w.assigns[:0], w.splits[:0], w.answers[:0]
	w.rows = 0
}

func (w *writer) run(ctx context.Context, wg *sync.WaitGroup) error {
	w.wg = wg
	if err := w.own(ctx, "starting"); err != nil || ctx.Err() != nil {
		return err
	}
	close(w.e.ready)
	alarm := time.NewTimer(waitMax)
	defer alarm.Stop()
	for {
		if err := w.transact(ctx); err != nil {
			return err
		}
		if w.busy() {
			continue
		}
		alarm.Reset(w.timers.wait(w.clock.mono()))
		select {
		case <-ctx.Done():
			return nil
		case <-w.inbox.wake:
		case <-w.e.home.wake:
		case <-alarm.C:
		}
	}
}

// busy reports whether there is something to do without waiting for anybody.
func (w *writer) busy() bool {
	return len(w.kept) > 0 || w.queue.Len() > 0 && w.e.home.free.Load() > 0
}

// transact makes one transaction of what waits, and carries it out.
func (w *writer) transact(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	if len(w.kept) == 0 {
		w.kept, w.spare = w.inbox.take(w.spare[:0]), w.kept
	}
	w.dueTimers()
	n, err := w.attempt(ctx, w.kept)
	if err == nil {
		w.settle(n)
		return nil
	}
	return w.failed(ctx, n, err)
}

// attempt applies as many items as fit, fills free slots, and commits. It returns how many
// items it took.
func (w *writer) attempt(ctx context.Context, items []item) (n int, err error) {
	now := w.clock.now()
	err = guarded(func() {
		for n < len(items) && n < w.itemsMax && w.rows < batchRowsMax {
			w.apply(&items[n], now)
			n++
		}
		w.fill(now, w.itemsMax-n)
		w.flush(now)
	})
	if err != nil {
		return min(n+1, len(items)), err
	}
	return n, w.commit(ctx)
}

func (w *writer) flush(now dag.Now) {
	for _, r := range w.touched {
		r.Flush(&w.batch.Changes, now.Wall)
	}
}

// commit writes the transaction, if there is anything to write.
func (w *writer) commit(ctx context.Context) error {
	rows := w.batch.Rows()
	if rows == 0 {
		return nil
	}
	began := time.Now()
	wall, err := w.e.store.Commit(context.WithoutCancel(ctx), &w.batch)
	if err != nil {
		return err
	}
	for i := range w.batch.Fences {
		w.batch.Fences[i].Seq++
	}
	w.clock.set(wall)
	w.e.stats.Commits.Add(1)
	w.e.stats.Rows.Add(int64(rows))
	w.e.stats.CommitNanos.Add(int64(time.Since(began)))
	return nil
}

// guarded turns a panic of f (an illegal move, an impossible count) into an error.
func guarded(f func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", errGuilty, p, debug.Stack())
		}
	}()
	f()
	return nil
}

// settle tells the world about a committed transaction of n items.
func (w *writer) settle(n int) {
	for i := range w.touched {
		w.retire(w.touched[i])
	}
	w.e.stats.AttemptsStarted.Add(int64(len(w.assigns)))
	if len(w.assigns) > 0 {
		w.e.cfg.Executor.Start(w.assigns)
	}
	for i := range w.splits {
		w.lead(w.splits[i])
	}
	if len(w.fx.Cancels) > 0 {
		w.e.cfg.Executor.Cancel(w.fx.Cancels)
	}
	for _, t := range w.fx.Timers {
		w.timers.push(t)
	}
	for i := range n {
		w.kept[i].reply(w.answers[i])
	}
	if len(w.batch.Fences) > 0 {
		w.e.hub.publish(w.batch.Fences[0].Seq, w.batch.Events)
	}
	w.drop(n)
	w.dropBatch()
	w.itemsMax = min(2*w.itemsMax, batchRowsMax)
	w.e.stats.ActiveRuns.Store(int64(len(w.runs)))
	w.e.stats.ReadyTasks.Store(int64(w.queue.Len()))
}

// drop takes n answered items off the kept ones.
func (w *writer) drop(n int) {
	clear(w.kept[:n])
	w.kept = w.kept[n:]
	w.e.stats.InboxItems.Store(int64(len(w.kept)))
}

// retire forgets a run that ended: its rows say it all.
func (w *writer) retire(r *dag.Run) {
	if r.Unfinished() {
		return
	}
	w.queue.Remove(r)
	delete(w.runs, r.ID)
	w.e.stats.RunsEnded.Add(1)
}

// dueTimers turns timers that are due into items before all others.
func (w *writer) dueTimers() {
	mono := w.clock.mono()
	var due []item
	for len(w.timers) > 0 && w.timers[0].Due <= mono && len(due) < batchRowsMax/rowsPerItem {
		t := w.timers.pop()
		due = append(due, item{run: t.Run, ev: dag.Event{Kind: dag.EvTimer, Timer: t.Kind, Task: t.Task, Token: t.Token}})
	}
	if len(due) > 0 {
		w.kept = append(due, w.kept...)
	}
}

// errGuilty is a bug or a corrupt row met while stepping: an item is guilty, not the store.
var errGuilty = errors.New("panic")
