package engine

import (
	"container/heap"
	"time"

	"skein.dev/skein/internal/dag"
)

// timers is a heap with the earliest timer first. Step never removes a timer, so the heap also holds many
// timers that have no effect any more: those of ended runs, and of attempts that ended in time. Each time the
// heap has doubled, these timers are removed. So the size of the heap stays in proportion to the live timers,
// even with long timeouts.
type timers struct {
	heap    dueHeap
	pruneAt int
}

// dueHeap is the order of timers.
type dueHeap []dag.Timer

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].Due < h[j].Due }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(dag.Timer)) }

func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	*h = (*h)[:last]
	return t
}

const (
	// waitMax bounds the sleep of the writer if no timer is due earlier.
	waitMax = time.Hour
	// pruneMin is the size up to which the heap is not pruned.
	pruneMin = 4096
)

func (h *timers) wait(mono time.Duration) time.Duration {
	if len(h.heap) == 0 {
		return waitMax
	}
	return min(max(h.heap[0].Due-mono, 0), waitMax)
}

func (h *timers) due(mono time.Duration) bool { return len(h.heap) > 0 && h.heap[0].Due <= mono }

func (h *timers) push(t dag.Timer) { heap.Push(&h.heap, t) }

func (h *timers) pop() dag.Timer { return heap.Pop(&h.heap).(dag.Timer) }

// prune removes the timers that have no effect any more, and the duplicates that a reload has set.
func (h *timers) prune(awaited func(*dag.Timer) bool) {
	if len(h.heap) < max(h.pruneAt, pruneMin) {
		return
	}
	type what struct {
		run   dag.RunID
		kind  dag.TimerKind
		task  dag.TaskID
		token dag.Token
	}
	seen := map[what]bool{}
	var kept dueHeap // a new array, because the old one may be far too large
	for i := range h.heap {
		t := &h.heap[i]
		k := what{t.Run, t.Kind, t.Task, t.Token}
		if awaited(t) && !seen[k] {
			seen[k] = true
			kept = append(kept, *t)
		}
	}
	h.heap, h.pruneAt = kept, 2*len(kept)
	heap.Init(&h.heap)
}

// awaited reports whether a run still waits for a timer.
func (w *writer) awaited(t *dag.Timer) bool {
	r := w.runs[t.Run]
	switch {
	case r == nil:
		return false
	case t.Kind == dag.TimerStartBy:
		return r.AwaitsStart()
	case r.Graph == nil:
		return false
	case t.Kind == dag.TimerRunTimeout:
		return t.Token == dag.Token(r.Generation) && r.Intent < dag.IntentStop
	case t.Task < 0 || int(t.Task) >= r.Graph.Len():
		return false
	}
	if t.Kind == dag.TimerRelease {
		return r.Releasing(t.Task, t.Token)
	}
	state, token := r.Task(t.Task)
	if t.Kind == dag.TimerStart {
		return token == t.Token && state == dag.Ready
	}
	return token == t.Token && (state == dag.Running || state == dag.RetryWait || state == dag.Deferred)
}

// arm adds timers from effects.
func (w *writer) arm(fx *dag.Effects) {
	for i := range fx.Timers {
		w.timers.push(fx.Timers[i])
	}
	w.timers.prune(w.awaited)
	w.calls.prepare(fx.Prepares)
	w.evaluating.evaluateBeside(fx.Evaluations)
}

// dueTimers turns timers that are due into items.
func (w *writer) dueTimers(to []item, most int) []item {
	for mono := w.clock.mono(); most > 0 && w.timers.due(mono); most-- {
		t := w.timers.pop()
		if t.Kind == dag.TimerLook { // a check of a condition changes no row by itself, so it is not an item
			if w.awaited(&t) {
				w.calls.prepare([]dag.Prepare{{Run: t.Run, Task: t.Task, Token: t.Token, Kind: dag.Dependent}})
			}
			continue
		}
		// The list of orphans shows errands, so the handle becomes an orphan only after its errand has begun.
		// Wait for that.
		if t.Kind == dag.TimerRelease && w.defs.release == 0 && w.awaited(&t) {
			t.Due = mono + releasePause
			w.timers.push(t)
			continue
		}
		to = append(to, item{run: t.Run, ev: &dag.Event{Kind: dag.EvTimer, Timer: t.Kind, Task: t.Task, Token: t.Token}})
	}
	return to
}
