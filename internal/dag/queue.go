package dag

import (
	"bytes"
	"time"
)

// readyList is a run's ready tasks: best priority first, then in the order in which they
// became ready. The tasks themselves are the links, so it costs nothing per task.
type readyList struct {
	levels [Levels]struct{ first, last int32 } // task + 1; 0: none
	n      int32
}

// list puts a ready task at the end of its level.
func (r *Run) list(t TaskID) {
	l := &r.ready.levels[r.Graph.Policy(t).Priority]
	if l.last == 0 {
		l.first = int32(t) + 1
	} else {
		r.tasks[l.last-1].blockers = int32(t) + 1
	}
	l.last = int32(t) + 1
	r.tasks[t].listed, r.tasks[t].blockers = true, 0
	r.ready.n++
}

// unlist takes a task out, if it is in: at once if it is the first of its level, as the
// one that NextReady would give is.
func (r *Run) unlist(t TaskID) {
	if !r.tasks[t].listed {
		return
	}
	l := &r.ready.levels[r.Graph.Policy(t).Priority]
	before := int32(0)
	for at := l.first; at != int32(t)+1; at = r.tasks[at-1].blockers {
		before = at
	}
	next := r.tasks[t].blockers
	if before == 0 {
		l.first = next
	} else {
		r.tasks[before-1].blockers = next
	}
	if next == 0 {
		l.last = before
	}
	r.tasks[t].listed, r.tasks[t].blockers = false, 0
	r.ready.n--
}

// Ready is the number of tasks that wait for nothing but a slot, Leader work included; 0
// while the run's intent lets nothing start, or while it has not what it claims.
func (r *Run) Ready() int {
	if r.Intent != IntentRun || r.State.Terminal() || r.State == RunWaiting || r.Claim != nil && r.Claim.Stage != ClaimGranted {
		return 0
	}
	if r.leader.state == Ready {
		return 1
	}
	return int(r.ready.n)
}

// NextReady takes the best ready task off the run's list; the caller assigns it in the
// same transaction. Only call it when Ready is not 0.
func (r *Run) NextReady() TaskID {
	if r.leader.state == Ready {
		return LeaderTask
	}
	for p := range r.ready.levels {
		if first := r.ready.levels[p].first; first != 0 {
			r.unlist(TaskID(first - 1))
			return TaskID(first - 1)
		}
	}
	panic("dag: no task is ready")
}

// Queue orders the runs of one owner that have ready tasks: effective priority of the
// run, then submission; the tasks of a run by their own priority, then in the order in
// which they became ready. A run's effective level is one better for each full ageing
// that it has waited since its submission, so that nothing starves.
//
// Within one level the oldest run has aged most, so a heap per level by submission is
// the exact order: the best of the five heads is the best of all.
type Queue struct {
	Ageing time.Duration // 0: never
	levels [Levels]runHeap
	n      int
}

// Len is the number of runs with ready tasks.
func (q *Queue) Len() int { return q.n }

// Update puts a run where its ready tasks say: call it after steps that may have changed
// them.
func (q *Queue) Update(r *Run) {
	switch ready := r.Ready() > 0; {
	case ready && r.queue == nil:
		q.Put(r)
	case !ready:
		q.Remove(r)
	}
}

// Put puts a run in whatever its tasks are: a queue of runs that wait as a whole.
func (q *Queue) Put(r *Run) {
	r.queue = q
	q.levels[r.Priority].push(r)
	q.n++
}

// Remove takes a run out, if it is in this queue.
func (q *Queue) Remove(r *Run) {
	if r.queue == q {
		q.levels[r.Priority].remove(int(r.where))
		r.queue = nil
		q.n--
	}
}

// Head is the run whose task is next, or nil.
func (q *Queue) Head(now Micros) *Run {
	var best *Run
	var bestLevel int64
	for p := range q.levels {
		h := q.levels[p]
		if len(h) == 0 {
			continue
		}
		level := int64(p)
		if each := q.Ageing.Microseconds(); each > 0 {
			level -= max(0, int64(now-h[0].Created)) / each
		}
		level = max(level, 0)
		if best == nil || level < bestLevel || level == bestLevel && earlier(h[0], best) {
			best, bestLevel = h[0], level
		}
	}
	return best
}

func earlier(a, b *Run) bool {
	if a.Created != b.Created {
		return a.Created < b.Created
	}
	return bytes.Compare(a.ID[:], b.ID[:]) < 0
}

// runHeap is a binary heap by submission whose members know their place.
type runHeap []*Run

func (h *runHeap) push(r *Run) {
	*h = append(*h, r)
	r.where = int32(len(*h) - 1)
	h.up(len(*h) - 1)
}

func (h *runHeap) remove(i int) {
	old := *h
	last := len(old) - 1
	if i != last {
		old[i] = old[last]
		old[i].where = int32(i)
	}
	old[last] = nil
	*h = old[:last]
	if i != last {
		h.down(i)
		h.up(i)
	}
}

func (h runHeap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].where, h[j].where = int32(i), int32(j)
}

func (h runHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !earlier(h[i], h[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h runHeap) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && earlier(h[c+1], h[c]) {
			c++
		}
		if !earlier(h[c], h[i]) {
			return
		}
		h.swap(i, c)
		i = c
	}
}

// Queued reports whether the run stands in a queue.
func (r *Run) Queued() bool { return r.queue != nil }
