package admission

import (
	"bytes"
	"cmp"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Queue slots of tasks go to crews. The row of a crew's run (dag.Share) has three totals: the slots that the
// crew has got, needs and has returned. The memory here consists of these rows, and of the grants that have
// not arrived. Slots of runs and slots of tasks are counted separately, each up to the limit. A task with a
// queue slot waits only for a worker, so two tasks never wait for each other's slots.

// CrewKey names a crew.
type CrewKey struct {
	Run   dag.RunID
	Queue string
}

// crew is one crew in the memory of the admission owner.
type crew struct {
	Crew   // Share.Got counts the granted slots, including grants that have not reached the run
	wait   *waitList
	listed bool // the crew wants a queue slot and is in its wait list
}

func (c *crew) key() CrewKey { return CrewKey{c.Run, c.Share.Queue} }

// waitList holds the crews that wait for one key of a queue. A crew that got a slot moves behind the others,
// so that a run with many tasks does not block the other runs.
type waitList struct {
	name   string
	queue  string
	past   int64               // queue slots in use
	crews  int                 // the number of crews in this list
	levels [dag.Levels][]*crew // the crews that want a slot, in the order of Asked
}

func byTurn(a, b *crew) int { return ByTurn(&a.Crew, &b.Crew) }

// list adds a crew to its wait list if it wants a queue slot. A crew is unlisted before its share changes.
func (t *waitList) list(c *crew) {
	if c.listed = c.Share.Wants() > 0; c.listed {
		l := t.levels[c.Priority]
		i, _ := slices.BinarySearchFunc(l, c, byTurn)
		t.levels[c.Priority] = slices.Insert(l, i, c)
	}
}

func (t *waitList) unlist(c *crew) {
	if l := t.levels[c.Priority]; c.listed {
		if i, found := slices.BinarySearchFunc(l, c, byTurn); found {
			t.levels[c.Priority] = slices.Delete(l, i, i+1)
		}
		c.listed = false
	}
}

// head returns the next crew in turn, or nil. If the queue orders by priority, this is the first crew of the
// best level. The level of a crew improves with the time that the crew waits for its next slot.
func (t *waitList) head(q *queue, now, ageing dag.Micros) *crew {
	var best *crew
	for p := range t.levels {
		if l := t.levels[p]; len(l) > 0 && (best == nil || sooner(q, l[0], best, now, ageing)) {
			best = l[0]
		}
	}
	return best
}

// sooner reports whether crew a comes before crew b.
func sooner(q *queue, a, b *crew, now, ageing dag.Micros) bool {
	if q == nil {
		return byTurn(a, b) < 0
	}
	return Sooner(&q.Queue, &a.Crew, &b.Crew, now, ageing)
}

// room reports whether the queue gives a task a slot now. If only a rate or a pause prevents it, later is the
// time at which the queue can. A draining queue gives tasks no slots: they wait as at a paused queue.
func (t *waitList) room(q *queue, now dag.Micros) (ok bool, later dag.Micros) {
	switch {
	case q.state(now) != store.QueueActive:
		return false, q.Until
	case q.Limit > 0 && t.past >= int64(q.Limit):
		return false, 0
	case q.Rate > 0 && q.Paced > now:
		return false, q.Paced
	}
	return true, 0
}

// Enroll sets the totals of a crew to those that its run reports. It keeps the number of granted slots if it
// is higher than the run's, because the run has not received these grants yet.
func (s *State) Enroll(is Crew) {
	run := &crew{Crew: is}
	k := run.key()
	c := s.crews[k]
	if c != nil && c.Share.Life < run.Share.Life {
		s.dismiss(c) // the run has begun a new generation
		c = nil
	}
	switch {
	case c == nil:
		c = run
		name := c.Share.Line()
		if c.wait = s.waits[name]; c.wait == nil {
			c.wait = &waitList{name: name, queue: c.Share.Queue}
			s.waits[name] = c.wait
		}
		c.wait.crews++
		s.crews[k] = c
	case c.Share.Life > run.Share.Life || c.Share.Rev >= run.Share.Rev:
		return
	default:
		c.wait.unlist(c)
		c.wait.past -= c.Share.Has()
		given := c.Share
		if c.Share = run.Share; given.Got > c.Share.Got {
			c.Share.Got, c.Share.Limit, c.Share.Asked = given.Got, given.Limit, max(given.Asked, c.Share.Asked)
		}
	}
	c.wait.past += c.Share.Has()
	c.wait.list(c)
	s.dirty[c.wait.name] = true
}

// Dismiss removes the crew of a run that has ended, unless the run has begun a new generation since.
func (s *State) Dismiss(run dag.RunID, share *dag.Share) {
	if c := s.crews[CrewKey{run, share.Queue}]; c != nil && c.Share.Life <= share.Life {
		s.dismiss(c)
	}
}

// Knows reports whether the crew of a run's present generation is known.
func (s *State) Knows(run dag.RunID, share *dag.Share) bool {
	c := s.crews[CrewKey{run, share.Queue}]
	return c != nil && c.Share.Life == share.Life
}

func (s *State) dismiss(c *crew) {
	t := c.wait
	t.unlist(c)
	t.past -= c.Share.Has()
	delete(s.crews, c.key())
	if t.crews--; t.crews == 0 {
		delete(s.waits, t.name)
		delete(s.dirty, t.name)
		return
	}
	s.dirty[t.name] = true
}

// TasksUse reports whether tasks have slots of a queue, or wait for one.
func (s *State) TasksUse(queue string) bool {
	for _, t := range s.waits {
		if t.queue != queue {
			continue
		}
		wants := slices.ContainsFunc(t.levels[:], func(l []*crew) bool { return len(l) > 0 })
		if wants || t.past > 0 {
			return true
		}
	}
	return false
}

// look marks wait lists for the next ServeTasks, because their queues admit more tasks or time has passed.
func (s *State) look(which func(*queue) bool) {
	for name, t := range s.waits {
		if q := s.queues[t.queue]; q != nil && which(q) {
			s.dirty[name] = true
		}
	}
}

// TasksMayPass reports whether ServeTasks may give a slot.
func (s *State) TasksMayPass() bool { return len(s.dirty) > 0 }

// ServeTasks gives slots to the crews in turn. Each run gets one message about all its new slots.
func (s *State) ServeTasks(now dag.Micros, out Shell) {
	for s.TasksMayPass() && !out.FullForTasks() {
		var given []*crew
		for _, t := range s.listsInTurn(now) {
			if !s.serveList(t, now, &given, out) {
				delete(s.dirty, t.name)
			}
		}
		slices.SortFunc(given, func(a, b *crew) int {
			return cmp.Or(bytes.Compare(a.Run[:], b.Run[:]), cmp.Compare(a.Share.Queue, b.Share.Queue))
		})
		for _, c := range slices.Compact(given) {
			out.Give(&c.Crew)
		}
	}
}

// listsInTurn returns the wait lists that may give slots, the list with the longest wait first. The order
// matters because lists of one queue share its rate.
func (s *State) listsInTurn(now dag.Micros) []*waitList {
	var all []*waitList
	heads := map[*waitList]*crew{}
	for name := range s.dirty {
		t := s.waits[name]
		if t == nil {
			delete(s.dirty, name)
			continue
		}
		if heads[t] = t.head(s.queues[t.queue], now, s.Ageing); heads[t] == nil {
			delete(s.dirty, name)
			continue
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *waitList) int { return cmp.Or(byTurn(heads[a], heads[b]), cmp.Compare(a.name, b.name)) })
	return all
}

// serveList gives slots to the crews of one wait list. more reports whether the list must be served again.
func (s *State) serveList(t *waitList, now dag.Micros, given *[]*crew, out Shell) (more bool) {
	q := s.queues[t.queue]
	for {
		c := t.head(q, now, s.Ageing)
		switch {
		case c == nil:
			return false
		case out.FullForTasks():
			return true // the next transaction continues with the other tasks
		case q == nil: // the queue was removed while the tasks asked for it
			t.unlist(c)
			c.Share.Need = c.Share.Got
			out.Refuse(&c.Crew, NoQueue(c.Share.Queue, "a task"))
			continue
		}
		if ok, later := t.room(q, now); !ok {
			s.wakeAt(later)
			return false
		}
		t.unlist(c)
		c.Share.Got++
		c.Share.Asked, c.Share.Limit = now, q.Limit
		t.past++
		t.list(c)
		out.Spend()
		*given = append(*given, c)
		if q.Rate > 0 {
			q.pace(now)
			out.Paced(q.Name, q.Paced)
			if len(s.dirty) > 1 {
				return true // another list of the same queue may come first now
			}
		}
	}
}
