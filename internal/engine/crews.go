package engine

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Places of queues for tasks. The owner of the gate gives them to crews: all tasks of one run that
// name one queue. What a crew has, wants and gave back are totals in the row of its run (dag.Share), so
// this memory is made of rows, and of what was given and is on its way.
//
// Places for runs and places for tasks are counted apart, each up to the limit: a task that has a
// place waits for nothing but a slot, so no two can wait for each other's.

// crewKey names a crew.
type crewKey struct {
	run   dag.RunID
	queue string
}

// crew is what the gate knows of one.
type crew struct {
	run      dag.RunID
	shard    dag.ShardID
	priority dag.Priority
	share    dag.Share // Got is what was given, though its run may not know it yet
	turns    *turns
	listed   bool // it wants a queue slot and is in turns
}

func (c *crew) key() crewKey { return crewKey{c.run, c.share.Queue} }

// turns is the wait list of crews for one key of a queue. A crew that got a slot moves behind the others, so
// that a run with many tasks keeps no other run out.
type turns struct {
	name   string
	queue  string
	past   int64               // places taken
	crews  int                 // that are of this line
	levels [dag.Levels][]*crew // those that want one; by Asked
}

func byTurn(a, b *crew) int {
	return cmp.Or(cmp.Compare(a.share.Asked, b.share.Asked), bytes.Compare(a.run[:], b.run[:]))
}

// list puts a crew that wants a place in its line, and takes it out before its share changes.
func (t *turns) list(c *crew) {
	if c.listed = c.share.Wants() > 0; c.listed {
		l := t.levels[c.priority]
		i, _ := slices.BinarySearchFunc(l, c, byTurn)
		t.levels[c.priority] = slices.Insert(l, i, c)
	}
}

func (t *turns) unlist(c *crew) {
	if l := t.levels[c.priority]; c.listed {
		if i, found := slices.BinarySearchFunc(l, c, byTurn); found {
			t.levels[c.priority] = slices.Delete(l, i, i+1)
		}
		c.listed = false
	}
}

// head is whose turn it is, or nil: in a queue by priority that of the best level, which rises with
// the time that a crew waits for its next place.
func (t *turns) head(q *queue, now, ageing dag.Micros) *crew {
	var best *crew
	for p := range t.levels {
		if l := t.levels[p]; len(l) > 0 && (best == nil || soonerCrew(q, l[0], best, now, ageing)) {
			best = l[0]
		}
	}
	return best
}

// soonerCrew reports whether a comes before b.
func soonerCrew(q *queue, a, b *crew, now, ageing dag.Micros) bool {
	if q != nil && q.Order == store.QueuePriority {
		if x, y := a.level(now, ageing), b.level(now, ageing); x != y {
			return x < y
		}
	}
	return byTurn(a, b) < 0
}

func (c *crew) level(now, ageing dag.Micros) int64 {
	return aged(c.priority, c.share.Asked, now, ageing)
}

// aged is a level that is one better for each full ageing since an instant.
func aged(p dag.Priority, since, now, ageing dag.Micros) int64 {
	level := int64(p)
	if ageing > 0 {
		level = max(level-int64(max(0, now-since)/ageing), 0)
	}
	return level
}

// room reports whether a task gets a place now; later is when it may, if time alone brings that. A
// queue that is drained gives tasks none: they wait as in one that is paused.
func (t *turns) room(q *queue, now dag.Micros) (ok bool, later dag.Micros) {
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

// enroll takes in what a crew's run says of it: the newest counts. Of one that has more from the gate
// than its run knows, the gate's number stays.
func (g *commons) enroll(run *crew) {
	k := run.key()
	c := g.crews[k]
	if c != nil && c.share.Life < run.share.Life {
		g.dismiss(c) // its run has begun again since
		c = nil
	}
	switch {
	case c == nil:
		c = run
		name := c.share.Line()
		if c.turns = g.turns[name]; c.turns == nil {
			c.turns = &turns{name: name, queue: c.share.Queue}
			g.turns[name] = c.turns
		}
		c.turns.crews++
		g.crews[k] = c
	case c.share.Life > run.share.Life || c.share.Rev >= run.share.Rev:
		return
	default:
		c.turns.unlist(c)
		c.turns.past -= c.share.Has()
		given := c.share
		if c.share = run.share; given.Got > c.share.Got {
			c.share.Got, c.share.Limit, c.share.Asked = given.Got, given.Limit, max(given.Asked, c.share.Asked)
		}
	}
	c.turns.past += c.share.Has()
	c.turns.list(c)
	g.vacant[c.turns.name] = true
}

// dismiss takes a crew off: its run has ended.
func (g *commons) dismiss(c *crew) {
	t := c.turns
	t.unlist(c)
	t.past -= c.share.Has()
	delete(g.crews, c.key())
	if t.crews--; t.crews == 0 {
		delete(g.turns, t.name)
		delete(g.vacant, t.name)
		return
	}
	g.vacant[t.name] = true
}

// inUse reports whether tasks have places in a queue, or wait for one.
func (g *commons) inUse(queue string) bool {
	for _, t := range g.turns {
		if t.queue != queue {
			continue
		}
		waits := slices.ContainsFunc(t.levels[:], func(l []*crew) bool { return len(l) > 0 })
		if waits || t.past > 0 {
			return true
		}
	}
	return false
}

// vacate has the lines of a queue looked at: it lets more through, or time has passed.
func (g *commons) vacate(which func(*queue) bool) {
	for name, t := range g.turns {
		if q := g.queues[t.queue]; q != nil && which(q) {
			g.vacant[name] = true
		}
	}
}

// serveCrews gives places to whom they are due, and tells their runs once what they have got.
func (w *writer) serveCrews() error {
	g := &w.commons
	if !g.loaded {
		return nil
	}
	for len(g.vacant) > 0 && w.tx.rows < takeMax*rowsPerItem {
		w.gateHere()
		var given []*crew
		for _, t := range g.turnsInTurn(w.tx.now.Wall, w.ageing()) {
			more, err := w.serveTurns(t, &given)
			if err != nil {
				return err
			}
			if !more {
				delete(g.vacant, t.name)
			}
		}
		slices.SortFunc(given, func(a, b *crew) int {
			return cmp.Or(bytes.Compare(a.run[:], b.run[:]), cmp.Compare(a.share.Queue, b.share.Queue))
		})
		for _, c := range slices.Compact(given) {
			w.gave(c)
		}
	}
	return nil
}

// turnsInTurn returns the wait lists that may let a run through, the longest waiting first, because they may
// share a rate.
func (g *commons) turnsInTurn(now, ageing dag.Micros) []*turns {
	var all []*turns
	heads := map[*turns]*crew{}
	for name := range g.vacant {
		t := g.turns[name]
		if t == nil {
			delete(g.vacant, name)
			continue
		}
		if heads[t] = t.head(g.queues[t.queue], now, ageing); heads[t] == nil {
			delete(g.vacant, name)
			continue
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *turns) int { return cmp.Or(byTurn(heads[a], heads[b]), cmp.Compare(a.name, b.name)) })
	return all
}

// serveTurns gives places in one line; more tells that it has to be looked at again.
func (w *writer) serveTurns(t *turns, given *[]*crew) (more bool, err error) {
	g, now := &w.commons, w.tx.now.Wall
	q := g.queues[t.queue]
	for {
		c := t.head(q, now, w.ageing())
		switch {
		case c == nil:
			return false, nil
		case w.tx.rows >= takeMax*rowsPerItem:
			return true, nil // the next transaction goes on
		case q == nil: // it was removed while the tasks asked for it
			if err := w.turnAway(c); err != nil {
				return false, err
			}
			continue
		}
		if ok, later := t.room(q, now); !ok {
			if later != 0 && (g.wake == 0 || later < g.wake) {
				g.wake = later
			}
			return false, nil
		}
		t.unlist(c)
		c.share.Got++
		c.share.Asked, c.share.Limit = now, q.Limit
		t.past++
		t.list(c)
		w.tx.rows += rowsPerItem
		*given = append(*given, c)
		if q.Rate > 0 {
			q.pace(now)
			w.paced(q)
			if len(g.vacant) > 1 {
				return true, nil // another line of the queue may be next
			}
		}
	}
}

// gave tells the run of a crew what it has got.
func (w *writer) gave(c *crew) {
	given := c.share
	if w.held(c.shard) == nil {
		w.say(c.shard, word{Kind: wordGave, Run: c.run, Share: &given})
		return
	}
	w.receiveShare(c.run, &given)
}

// turnAway fails the tasks of a run that wait for a missing queue, and clears the run's demand in its row.
func (w *writer) turnAway(c *crew) error {
	c.turns.unlist(c)
	c.share.Need = c.share.Got
	w.tx.rows += rowsPerItem
	why := noQueue(c.share.Queue, "a task")
	if w.held(c.shard) == nil {
		share := c.share
		w.say(c.shard, word{Kind: wordRefuse, Run: c.run, Share: &share, Why: why})
		return nil
	}
	w.refuseTasks(c.run, c.share.Queue, why)
	return nil
}

// heldTurns explains why a wait list lets no run through.
func heldTurns(q *store.Queue, s *dag.Share, has int64, now dag.Micros) (what, unblocks string, expected dag.Micros) {
	switch state := effective(q, now); {
	case state != store.QueueActive:
		return fmt.Sprintf("%s is %s%s", s.What(), state, because(q.Reason)), "skein queue resume " + q.Name, q.Until
	case q.Limit > 0 && has >= int64(q.Limit):
		what = fmt.Sprintf("%s lets %d tasks run at a time", s.What(), q.Limit)
		if q.Limit == 1 {
			what = s.What() + " lets one task run at a time"
		}
		return what, "the end of one of them, or a higher limit: skein queue set " + q.Name + " --limit N", 0
	case q.Rate > 0 && q.Paced > now:
		return paces(s.What(), q.Rate, "task", q.Each), "time", q.Paced
	}
	return "it is queued in " + s.What(), "its turn", 0
}
