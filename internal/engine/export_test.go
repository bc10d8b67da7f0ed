package engine

import (
	"context"
	"fmt"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// MemoryDiff says where the owner's memory differs from a fresh load of its rows, or "".
// It looks between transactions.
func (e *Engine) MemoryDiff(ctx context.Context) (string, error) {
	var diff string
	err := e.Ask(ctx, func() error {
		var err error
		diff, err = e.writer.diff(ctx)
		return err
	})
	return diff, err
}

// Ask runs f on the writer's goroutine, between transactions.
func (e *Engine) Ask(ctx context.Context, f func() error) error {
	_, err := e.writer.inbox.send(ctx, item{ask: func(*writer) error { return f() }})
	return err
}

func (w *writer) diff(ctx context.Context) (string, error) {
	var after dag.RunID
	seen := 0
	for {
		page, err := w.e.store.Load(ctx, store.LoadQuery{Shard: 0, After: after, Limit: 100})
		if err != nil {
			return "", err
		}
		for i := range page {
			after = page[i].Run.ID
			if _, bad := w.bad[after]; bad {
				continue
			}
			seen++
			r := w.runs[after]
			if r == nil {
				return fmt.Sprintf("run %s is not in memory", after), nil
			}
			var fx dag.Effects
			loaded, err := w.revived(&page[i], &fx)
			if err != nil {
				return "", err
			}
			if d := dag.Diff(r, loaded); d != "" {
				return fmt.Sprintf("run %s: %s", after, d), nil
			}
		}
		if len(page) == 0 {
			break
		}
	}
	if seen != len(w.runs) {
		return fmt.Sprintf("%d runs in memory, %d in the store", len(w.runs), seen), nil
	}
	return "", nil
}

// Timers is the length of the heap, Cached the size of what is kept of definitions. Both
// are read on the writer's goroutine.
func (e *Engine) Timers() int { return len(e.writer.timers.heap) }

// Free is the number of free slots, Booked that of attempts that have one.
func (e *Engine) Free() int { return int(e.home.free.Load()) }

// Leading is the Leader work under way; on the writer's goroutine.
func (e *Engine) Leading() int { return len(e.writer.leading) }

// Waiting is what the inbox holds.
func (e *Engine) Waiting() int { return e.writer.inbox.len() }

// CachedGraphs is the number of graphs that are kept.
func (e *Engine) CachedGraphs() int {
	e.graphs.mu.Lock()
	defer e.graphs.mu.Unlock()
	return len(e.graphs.known)
}

// Clean is what is made of a holder's sentence.
func Clean(s string) string { return clean(s) }

// The bounds that tests go to.
const (
	TakeMax       = takeMax
	NoticesMax    = noticesMax
	InlineMax     = inlineTasksMax
	GraphTasksMax = graphTasksMax
	PruneMin      = pruneMin
	OutputsMax    = outputsMax
)

// Shares floods every source of an engine that does not run with n items and tells how
// many of each the next transaction takes: timers, what a load found, reports, calls.
func (e *Engine) Shares(n int) (shares [4]int) {
	w := e.writer
	w.clock.start(1)
	for range n {
		w.timers.push(dag.Timer{Kind: dag.TimerRetry})
		w.todo.push(item{ev: dag.Event{Kind: dag.EvCheck}})
		w.inbox.events.push(item{ev: dag.Event{Kind: dag.EvReport}})
		w.inbox.calls.push(item{submit: &Submission{}})
	}
	w.take()
	for i := range w.kept {
		switch it := &w.kept[i]; {
		case it.ev.Kind == dag.EvTimer:
			shares[0]++
		case it.ev.Kind == dag.EvCheck:
			shares[1]++
		case it.ev.Kind == dag.EvReport:
			shares[2]++
		default:
			shares[3]++
		}
	}
	return shares
}

// GatesDiff says where the counts of the gates differ from what the runs in memory say, or
// "". It looks between transactions.
func (e *Engine) GatesDiff(ctx context.Context) (string, error) {
	var diff string
	err := e.Ask(ctx, func() error { diff = e.writer.gatesDiff(); return nil })
	return diff, err
}

func (w *writer) gatesDiff() string {
	type counts struct{ past, waiting, members int }
	want := map[store.TriggerKey]*counts{}
	of := func(k store.TriggerKey) *counts {
		if want[k] == nil {
			want[k] = &counts{}
		}
		return want[k]
	}
	for id, r := range w.runs {
		if waits := r.State == dag.RunWaiting; r.State == dag.RunSubmitted || (r.Gate == through) == waits || r.Gate == gateNone {
			return fmt.Sprintf("run %s is %s, at gate %d", id, r.State, r.Gate)
		}
		k, triggered := triggerGate(r)
		if triggered {
			of(k).members++
		}
		switch {
		case r.Gate == atTrigger:
			of(k).waiting++
			continue
		case triggered:
			of(k).past++
		}
		if r.Gate == atWorkflow {
			of(workflowGate(r)).waiting++
		} else {
			of(workflowGate(r)).past++
		}
	}
	for k, g := range w.gates.of {
		if is := (counts{g.past, g.waiting.Len(), len(g.members)}); is != *of(k) {
			return fmt.Sprintf("gate %v: %+v, by the runs %+v", k, is, *want[k])
		}
	}
	for k, c := range want {
		if w.gates.of[k] == nil && *c != (counts{}) {
			return fmt.Sprintf("gate %v is not there, by the runs %+v", k, *c)
		}
	}
	return w.stuck()
}

// stuck names a gate at which somebody waits although there is room.
func (w *writer) stuck() string {
	for k, g := range w.gates.of {
		limit, err := w.limit(k)
		if err == nil && g.waiting.Len() > 0 && (limit == 0 || g.past < limit) {
			return fmt.Sprintf("gate %v: %d wait, %d of %d are through", k, g.waiting.Len(), g.past, limit)
		}
	}
	return ""
}

// DueWait is how long the writer may sleep before it has to look; on its goroutine.
func (e *Engine) DueWait() time.Duration { return e.writer.due.wait() }

// Gates is the number of gates that are kept.
func (e *Engine) Gates() int { return len(e.writer.gates.of) }

// Recovered begins a new generation of an ended run.
func (e *Engine) Recovered(ctx context.Context, id dag.RunID) (dag.Verdict, error) {
	a, err := e.writer.inbox.send(ctx, item{run: id, ev: dag.Event{Kind: dag.EvRecover, Actor: "ada"}})
	return a.verdict, err
}
