package dag

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

// readyList holds ready tasks of a run: those with the best priority first and, within a priority, in the
// order in which they became ready. The links are in the tasks themselves, so the list needs no memory per
// task.
type readyList struct {
	levels [Levels]struct{ first, last int32 } // task + 1; 0 if there is none
	n      int32
}

// line holds the ready tasks of a run with one placement.
type line struct {
	place Place
	list  readyList
	seat  seat
}

// lineAt finds the list of a placement. If make is set, it makes a missing list.
func (r *Run) lineAt(p Place, make bool) *line {
	for _, l := range r.placed {
		if l.place == p {
			return l
		}
	}
	if !make {
		return nil
	}
	l := &line{place: p}
	r.placed = append(r.placed, l)
	return l
}

// listOf returns the list for tasks with a policy.
func (r *Run) listOf(pol *Policy) *readyList {
	place := r.space.Place(pol.Place)
	if pol.Queue != "" {
		if place != Anywhere {
			r.lineAt(place, true) // the run is now in the list of this placement
		}
		return &r.shareOf(pol.Queue).at(place, true).list
	}
	if place == Anywhere {
		return &r.ready
	}
	return &r.lineAt(place, true).list
}

// list appends a ready task to its level.
func (r *Run) list(t TaskID) {
	pol := r.Graph.Policy(t)
	list := r.listOf(pol)
	l := &list.levels[pol.Priority]
	if l.last == 0 {
		l.first = int32(t) + 1
	} else {
		r.tasks[l.last-1].blockers = int32(t) + 1
	}
	l.last = int32(t) + 1
	r.tasks[t].listed, r.tasks[t].blockers, r.tasks[t].since = true, 0, uint32(r.clock/1000)
	r.enlisted(pol, list, 1)
	r.number(t)
}

// number records the order in which a task became ready, if the run has more than one list. A task without a
// number became ready before all tasks with one.
func (r *Run) number(t TaskID) {
	if r.turn == 0 && len(r.placed) == 0 && len(r.shares) == 0 {
		return
	}
	if n := len(r.tasks) - len(r.turns); n > 0 {
		r.turns = append(r.turns, make([]int32, n)...)
	}
	r.turn++
	r.turns[t] = r.turn
}

// Rank is the position of a ready task among all ready tasks of its run, on any workers. The lower rank
// goes first.
type Rank struct {
	Level Priority `json:"level,omitempty"`
	Turn  int32    `json:"turn,omitempty"` // the order in which the tasks became ready
}

// Compare orders ranks.
func (k Rank) Compare(o Rank) int {
	return cmp.Or(cmp.Compare(k.Level, o.Level), cmp.Compare(k.Turn, o.Turn))
}

func (r *Run) rank(t TaskID) Rank {
	k := Rank{Level: r.Graph.Policy(t).Priority}
	if int(t) < len(r.turns) {
		k.Turn = r.turns[t]
	}
	return k
}

// enlisted adds n to the number of tasks in a list. If these tasks name a queue, enlisted also adds n to the
// number of tasks in the share of that queue.
func (r *Run) enlisted(pol *Policy, list *readyList, n int32) {
	if list.n += n; pol.Queue != "" {
		r.shareOf(pol.Queue).ready += int64(n)
	}
}

// unlist removes a task from its list, if it is in one. This is fast for the first task of a level, and
// NextReady returns such a task.
func (r *Run) unlist(t TaskID) {
	if !r.tasks[t].listed {
		return
	}
	pol := r.Graph.Policy(t)
	list := r.listOf(pol)
	l := &list.levels[pol.Priority]
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
	r.enlisted(pol, list, -1)
}

// unlistAll empties every list of a run whose tasks have all ended.
func (r *Run) unlistAll() {
	r.ready = readyList{}
	for _, l := range r.placed {
		l.list = readyList{}
	}
	for _, s := range r.shares {
		s.lists, s.ready = nil, 0
	}
}

// listed reports whether any task for workers is ready.
func (r *Run) listed() bool {
	some := r.ready.n > 0
	for _, l := range r.placed {
		some = some || l.list.n > 0
	}
	for _, s := range r.shares {
		some = some || s.ready > 0
	}
	return some
}

// held reports whether no task may start, because of the run's intent or because the run does not have its
// claim.
func (r *Run) held() bool {
	return r.Intent != IntentRun || r.State.Terminal() || r.State == RunWaiting || r.Claim != nil && r.Claim.Stage != ClaimGranted
}

// Ready returns the number of tasks that only wait for a slot on any worker, Leader work included. It is 0
// while the run's intent allows no start, or while the run does not have its claim.
func (r *Run) Ready() int { return r.ReadyAt(Anywhere) }

// ReadyAt returns the number of tasks with a placement that wait only for a slot there.
func (r *Run) ReadyAt(p Place) int {
	n := int64(r.ready.n)
	switch {
	case r.held():
		return 0
	case p != Anywhere:
		l := r.lineAt(p, false)
		if l == nil {
			return 0
		}
		n = int64(l.list.n)
	case r.leader.state == Ready:
		return 1
	}
	for _, s := range r.shares {
		if l := s.at(p, false); l != nil {
			n += min(int64(l.list.n), s.free())
		}
	}
	return int(n)
}

// NextReady removes the best task that any worker may run from the run's list. The caller assigns it in the
// same transaction. Call it only if Ready is not 0.
func (r *Run) NextReady() TaskID { return r.NextAt(Anywhere) }

// NextAt does the same as NextReady for the tasks with a placement.
func (r *Run) NextAt(p Place) TaskID {
	t, _ := r.best(p)
	if t != LeaderTask {
		r.unlist(t)
	}
	return t
}

// RankAt returns the rank of the task that NextAt would remove.
func (r *Run) RankAt(p Place) Rank {
	_, k := r.best(p)
	return k
}

// best returns the next task with a placement. It may be called only if there is one.
func (r *Run) best(p Place) (first TaskID, best Rank) {
	list := &r.ready
	if p != Anywhere {
		list = &r.lineAt(p, true).list
	} else if r.leader.state == Ready {
		return LeaderTask, Rank{}
	}
	first, any := list.head()
	if any {
		best = r.rank(first)
	}
	for _, s := range r.shares {
		l := s.at(p, false)
		if l == nil || s.free() == 0 {
			continue
		}
		if t, some := l.list.head(); some {
			if k := r.rank(t); !any || k.Compare(best) < 0 {
				first, best, any = t, k, true
			}
		}
	}
	if !any {
		panic("dag: no task is ready")
	}
	return first, best
}

// head returns the first task of the best level that has one. It returns false if the list is empty.
func (l *readyList) head() (t TaskID, some bool) {
	for i := range l.levels {
		if first := l.levels[i].first; first != 0 {
			return TaskID(first - 1), true
		}
	}
	return 0, false
}

// Board holds the ready tasks of one owner, in one queue for each placement.
type Board struct {
	Ageing time.Duration
	any    Queue
	placed map[Place]*Queue

	running, approving Ages
	approvals          int // the number of tasks that wait for an approval
}

// Update moves a run to the queues of the placements of its ready tasks.
func (b *Board) Update(r *Run) {
	b.any.Ageing = b.Ageing
	b.any.Update(r)
	b.aged(r)
	for _, l := range r.placed {
		q := b.placed[l.place]
		n := r.ReadyAt(l.place)
		switch ready := n > 0; {
		case ready && q == nil:
			if b.placed == nil {
				b.placed = map[Place]*Queue{}
			}
			q = &Queue{Ageing: b.Ageing}
			b.placed[l.place] = q
			q.put(&l.seat, r)
		case ready && l.seat.queue == nil:
			q.put(&l.seat, r)
		case !ready && q != nil:
			q.remove(&l.seat)
			b.drop(l.place)
			continue
		}
		if q = b.placed[l.place]; q != nil {
			q.counted(&l.seat, n)
		}
	}
}

// Remove removes a run.
func (b *Board) Remove(r *Run) {
	b.any.Remove(r)
	b.gone(r)
	for _, l := range r.placed {
		if q := b.placed[l.place]; q != nil {
			q.remove(&l.seat)
			b.drop(l.place)
		}
	}
}

func (b *Board) drop(p Place) {
	if b.placed[p].Len() == 0 {
		delete(b.placed, p)
	}
}

// Len returns the number of runs with ready tasks. A run counts once per placement.
func (b *Board) Len() int {
	n := b.any.Len()
	for _, q := range b.placed {
		n += q.Len()
	}
	return n
}

// Some reports whether there is a ready task whose placement is open.
func (b *Board) Some(open func(Place) bool) bool {
	if b.any.Len() > 0 && open(Anywhere) {
		return true
	}
	for p := range b.placed {
		if open(p) {
			return true
		}
	}
	return false
}

// Head returns the run whose task is next among the tasks with open placements, and the placement of that
// task. It returns nil if there is none.
func (b *Board) Head(now Micros, open func(Place) bool) (best *Run, at Place) {
	if b.any.Len() > 0 && open(Anywhere) {
		best = b.any.Head(now)
	}
	if len(b.placed) == 0 {
		return best, at
	}
	for p, q := range b.placed { // the order of the map does not matter, because (level, run, rank) is a total order
		if !open(p) {
			continue
		}
		if r := q.Head(now); best == nil || q.Sooner(r, best, now) || r == best && r.RankAt(p).Compare(r.RankAt(at)) < 0 {
			best, at = r, p
		}
	}
	return best, at
}

// Ahead counts the ready tasks of the run that come before one of its tasks. It counts only tasks for whose
// placements shared returns true. It stops when the count has reached the parameter most.
func (r *Run) Ahead(t TaskID, shared func(Place) bool, most int) (n int) {
	than := r.rank(t)
	count := func(p Place, l *readyList) {
		if !shared(p) {
			return
		}
		for i := range l.levels[:than.Level+1] {
			for at := l.levels[i].first; at != 0 && n < most; at = r.tasks[at-1].blockers {
				if TaskID(at-1) == t || r.rank(TaskID(at-1)).Compare(than) > 0 {
					break // the list is in the order in which the tasks became ready, so the others come later
				}
				n++
			}
		}
	}
	count(Anywhere, &r.ready)
	for _, l := range r.placed {
		count(l.place, &l.list)
	}
	for _, s := range r.shares {
		for _, l := range s.lists {
			if s.free() > 0 { // without a free queue slot, the tasks wait for the queue and not for a worker
				count(l.place, &l.list)
			}
		}
	}
	return n
}

// Before counts the runs that come before r. It counts only runs with a ready task for whose placement shared
// returns true. It stops when the count has reached the parameter most.
func (b *Board) Before(r *Run, shared func(Place) bool, now Micros, most int) int {
	seen := map[*Run]bool{}
	b.Places(func(p Place, q *Queue) {
		if shared(p) {
			q.before(r, now, func(o *Run) bool {
				seen[o] = true
				return len(seen) < most
			})
		}
	})
	return len(seen)
}

// Any reports whether there are ready tasks with a placement, which only some workers may run or which use
// resources.
func (b *Board) Any() bool { return len(b.placed) > 0 }

// Placed calls f for every placement with ready tasks except Anywhere, with its queue.
func (b *Board) Placed(f func(p Place, q *Queue)) {
	for p, q := range b.placed {
		f(p, q)
	}
}

// Places calls f for every placement with ready tasks, with its queue.
func (b *Board) Places(f func(p Place, q *Queue)) {
	if b.any.Len() > 0 {
		f(Anywhere, &b.any)
	}
	for p, q := range b.placed {
		f(p, q)
	}
}

// Queue orders the ready tasks of all runs of one owner: by the effective priority of the run, then by its
// submission. The tasks of a run are ordered by their own priority, then by the time at which they became
// ready.
//
// A run's effective level rises by one for each full ageing time that has passed since its submission, so
// that no run starves. Within one level, the oldest run has aged most. So one heap by submission for each
// level gives the exact order: the best of the five heads is the best of all runs.
type Queue struct {
	Ageing time.Duration // 0 means never
	levels [Levels]runHeap
	n      int
	tasks  int // the ready tasks of its runs, as of their last Update
}

// Tasks returns the number of ready tasks of the runs, as of the last Update of each.
func (q *Queue) Tasks() int { return q.tasks }

// counted stores how many ready tasks a run has.
func (q *Queue) counted(s *seat, n int) {
	if s.queue == q {
		q.tasks += n - int(s.tasks)
		s.tasks = int32(n)
	}
}

// Len returns the number of runs with ready tasks.
func (q *Queue) Len() int { return q.n }

// seat is the position of a run in a Queue.
type seat struct {
	run   *Run
	queue *Queue // nil if there is none
	where int32
	tasks int32 // the number of ready tasks of the run at its last Update
}

// Update moves a run to the position that follows from its ready tasks. The caller must call it after each
// step that may have changed them.
func (q *Queue) Update(r *Run) {
	n := r.Ready()
	switch ready := n > 0; {
	case ready && r.seat.queue == nil:
		q.Put(r)
	case !ready:
		q.Remove(r)
	}
	q.counted(&r.seat, n)
}

// Put adds a run whether it has ready tasks or not. Queues whose entries are whole runs, not tasks, use it.
func (q *Queue) Put(r *Run) { q.put(&r.seat, r) }

func (q *Queue) put(s *seat, r *Run) {
	s.queue, s.run = q, r
	q.levels[r.Priority].push(s)
	q.n++
}

// Remove removes a run, if it is in this queue.
func (q *Queue) Remove(r *Run) { q.remove(&r.seat) }

func (q *Queue) remove(s *seat) {
	if s.queue == q {
		q.levels[s.run.Priority].remove(int(s.where))
		q.counted(s, 0)
		s.queue = nil
		q.n--
	}
}

// Level returns the present level of a run, by its priority and its age.
func (q *Queue) Level(r *Run, now Micros) int64 {
	level := int64(r.Priority)
	if each := q.Ageing.Microseconds(); each > 0 {
		level -= max(0, int64(now-r.Created)) / each
	}
	return max(level, 0)
}

// Sooner reports whether the tasks of run a come before the tasks of run b.
func (q *Queue) Sooner(a, b *Run, now Micros) bool {
	x, y := q.Level(a, now), q.Level(b, now)
	return x < y || x == y && earlier(a, b)
}

// before calls f for each run whose tasks come before the tasks of r. It stops when f returns false.
func (q *Queue) before(r *Run, now Micros, f func(*Run) bool) {
	for p := range q.levels {
		h := q.levels[p]
		for work := []int{0}; len(work) > 0; {
			i := work[len(work)-1]
			work = work[:len(work)-1]
			if i >= len(h) || h[i].run == r || !q.Sooner(h[i].run, r, now) { // no run below this one in the heap comes before r either
				continue
			}
			if !f(h[i].run) {
				return
			}
			work = append(work, 2*i+1, 2*i+2)
		}
	}
}

// Head returns the run whose task is next, or nil.
func (q *Queue) Head(now Micros) *Run {
	var best *Run
	for p := range q.levels {
		if h := q.levels[p]; len(h) > 0 && (best == nil || q.Sooner(h[0].run, best, now)) {
			best = h[0].run
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

// Queued reports whether the run has a position in a queue of ready tasks.
func (r *Run) Queued() bool {
	return r.seat.queue != nil || slices.ContainsFunc(r.placed, func(l *line) bool { return l.seat.queue != nil })
}
