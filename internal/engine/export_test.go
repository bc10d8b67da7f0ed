package engine

import (
	"context"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
)

// MemoryDiff says where the owner's memory differs from a fresh load of its rows, or "". It is computed
// between transactions.
func (e *Engine) MemoryDiff(ctx context.Context) (string, error) {
	return ask(ctx, e.writer.inbox, func(w *writer) (string, error) {
		diff, err := w.mirror(ctx, 0)
		if diff == "" && err == nil {
			diff, err = w.alerts.diff(ctx, 0)
		}
		return diff, err
	})
}

// Ask runs f on the writer's goroutine, between transactions.
func (e *Engine) Ask(ctx context.Context, f func() error) error {
	_, err := e.writer.inbox.send(ctx, item{ask: func(*writer) error { return f() }})
	return err
}

// Shards returns the shards of the writer.
func (e *Engine) Shards(ctx context.Context) ([]dag.ShardID, error) {
	return ask(ctx, e.writer.inbox, func(w *writer) ([]dag.ShardID, error) { return w.shards(), nil })
}

// Timers returns the length of the heap of timers. Cached returns the number of cached definitions. Both must
// be called on the writer's goroutine.
func (e *Engine) Timers() int { return len(e.writer.timers.heap) }

// Free returns the number of free slots. Booked returns the number of attempts that have a slot.
func (e *Engine) Free() int { return int(e.slots.free.Load()) }

// Leading returns the number of tasks of Leader work under way. It must be called on the writer's goroutine.
func (e *Engine) Leading() int { return len(e.writer.leading) }

// Waiting returns the number of items in the inbox.
func (e *Engine) Waiting() int { return e.writer.inbox.len() }

// CachedGraphs returns the number of cached graphs.
func (e *Engine) CachedGraphs() int {
	return e.graphs.Len()
}

// Clean returns the stored form of a holder's sentence.
func Clean(s string) string { return clean(s) }

// The bounds that tests reach.
const (
	TakeMax       = takeMax
	NoticesMax    = noticesMax
	InlineMax     = inspect.InlineTasksMax
	GraphTasksMax = inspect.GraphTasksMax
	PruneMin      = pruneMin
	OutputsMax    = outputsMax
)

// Shares puts n items into every source of an engine that is not running. It returns how many items of each
// source the next transaction takes: timers, work that a load has found, reports, calls.
func (e *Engine) Shares(n int) (shares [4]int) {
	w := e.writer
	w.clock.start(1)
	for range n {
		w.timers.push(dag.Timer{Kind: dag.TimerRetry})
		w.todo.push(item{ev: &dag.Event{Kind: dag.EvCheck}})
		w.inbox.events.push(item{ev: &dag.Event{Kind: dag.EvReport}})
		w.inbox.calls.push(item{submit: &Submission{}})
	}
	w.take()
	for i := range w.kept {
		switch it := &w.kept[i]; {
		case it.kind() == dag.EvTimer:
			shares[0]++
		case it.kind() == dag.EvCheck:
			shares[1]++
		case it.kind() == dag.EvReport:
			shares[2]++
		default:
			shares[3]++
		}
	}
	return shares
}

// GatesDiff returns the difference between the counts of the limits and the runs in memory, or "". It is
// computed between transactions.
func (e *Engine) GatesDiff(ctx context.Context) (string, error) {
	return ask(ctx, e.writer.inbox, func(w *writer) (string, error) { return w.limits.gatesDiff(), nil })
}

// DueWait returns how long the writer may sleep before it must read due triggers. It must be called on the
// writer's goroutine.
func (e *Engine) DueWait() time.Duration { return e.writer.schedule.due.wait() }

// Gates returns the number of gates in memory.
func (e *Engine) Gates() int { return len(e.writer.limits.gates.of) }

// Recovered begins a new generation of an ended run.
func (e *Engine) Recovered(ctx context.Context, id dag.RunID) (dag.Verdict, error) {
	a, err := e.writer.inbox.send(ctx, item{run: id, ev: &dag.Event{Kind: dag.EvRecover, Actor: "ada"}})
	return a.verdict, err
}

// Forget makes the owner forget a run, as a bug would.
func (e *Engine) Forget(ctx context.Context, id dag.RunID) error {
	return e.Ask(ctx, func() error { e.writer.leave(id); return nil })
}

// Unqueue takes a run out of the queue for slots, as a bug would.
func (e *Engine) Unqueue(ctx context.Context, id dag.RunID) error {
	return e.Ask(ctx, func() error { e.writer.queue.Remove(e.writer.runs[id]); return nil })
}

// Overwrite writes rows past the owner's memory, as a bug would.
func (e *Engine) Overwrite(ctx context.Context, b *store.Batch) error {
	return e.Ask(ctx, func() error { return e.writer.write(ctx, b) })
}

// Moments returns the number of moments that alerts wait for. It must be called on the writer's goroutine.
func (e *Engine) Moments() int { return len(e.writer.alerts.times.heap) }

// Pruned prunes the moments, and returns the time until each of them. It must be called on the writer's
// goroutine.
func (e *Engine) Pruned() (all []time.Duration) {
	a := &e.writer.alerts
	a.prune()
	for _, m := range a.times.heap {
		all = append(all, time.Duration(m.due-a.clock())*time.Microsecond)
	}
	return all
}
