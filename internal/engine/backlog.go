package engine

import (
	"context"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/store"
)

const (
	// backlogEvery is how old the backlog on a page may be, backlogWait how long a scrape waits for it.
	backlogEvery, backlogWait = 5 * time.Second, time.Second
	// placesShown bounds the placements that are added up, lookMax the lines of queues that are looked at.
	placesShown, linesShown = 10_000, 20_000
	// topQueues bounds the queues with label values of their own, topGroups the pairs of group and kind.
	topQueues, topGroups = 200, 200
)

// backlog is what waits on this node at one moment, as its writer knows it.
type backlog struct {
	ready     map[string]int64 // tasks by group and kind
	queues    map[string]int64 // runs that wait, or whose tasks do, by queue
	oldest    map[string]dag.Micros
	names     []string // of all queues, if this node grants them
	approvals int
	now       dag.Micros
	running, approving,
	due dag.Micros // instants; 0: there is none
}

// Backlog returns a source of what waits on this node. Its writer is asked at most every five seconds.
func Backlog(e *Engine) metric.Source {
	c := metric.NewCached(backlogEvery, backlogWait, func(ctx context.Context) (*backlog, error) { return lookAtBacklog(ctx, e) })
	return func(p *metric.Page) {
		b, ok := c.Get()
		if !ok {
			b = &backlog{}
		}
		b.show(p)
	}
}

func lookAtBacklog(ctx context.Context, e *Engine) (*backlog, error) {
	if err := e.Accepting(); err != nil {
		return nil, err
	}
	b, err := ask(ctx, e.writer.inbox, func(w *writer) (*backlog, error) {
		b := &backlog{ready: map[string]int64{}, queues: map[string]int64{}, oldest: map[string]dag.Micros{}}
		b.look(w)
		return b, nil
	})
	if err != nil || len(b.names) == 0 {
		return b, err
	}
	lines, err := e.store.Lines(ctx)
	if err != nil {
		return nil, fromStore("read the lines", err)
	}
	for i := range lines {
		if queue, _, _ := strings.Cut(lines[i].Name, "/"); queue != "" {
			b.queues[queue] += lines[i].Runs
		}
	}
	return b, nil
}

// look reads the memory of the writer. It looks at placements, queues and lines, and at no run.
func (b *backlog) look(w *writer) {
	b.now = w.clock.now().Wall
	left := placesShown
	w.queue.Places(func(p dag.Place, q *dag.Queue) {
		if left--; left >= 0 {
			b.ready[p.Group()+"\n"+p.Kind()] += int64(q.Tasks())
		}
	})
	there := func(r *dag.Run) bool { return w.runs[r.ID] == r }
	b.running, b.approving, b.approvals = w.queue.Running().Oldest(there), w.queue.Approving().Oldest(there), w.queue.Approvals()
	if next := w.due.next; next != 0 && next <= w.due.clock() {
		b.due = next
	}
	if g := &w.commons; g.loaded && w.held(store.GateShard) != nil {
		b.lookAtQueues(g)
	}
}

func (b *backlog) lookAtQueues(g *commons) {
	asked := func(queue string, at dag.Micros) {
		if is := b.oldest[queue]; is == 0 || at < is {
			b.oldest[queue] = at
		}
	}
	for name := range g.queues {
		b.names = append(b.names, name)
	}
	left := linesShown
	for _, l := range g.lines {
		if left--; left < 0 {
			break
		}
		if l.q == nil {
			continue
		}
		for i := range l.levels {
			if v := &l.levels[i]; len(v.list) > 0 {
				asked(l.q.Name, v.list[0].claim.Asked)
			} else if v.more && v.from != endOfTime {
				asked(l.q.Name, v.from)
			}
		}
		if len(l.again) > 0 {
			asked(l.q.Name, l.again[0].claim.Asked)
		}
	}
	for _, t := range g.turns {
		if left--; left < 0 {
			break
		}
		for i := range t.levels {
			if crews := t.levels[i]; len(crews) > 0 {
				b.queues[t.queue] += int64(len(crews))
				asked(t.queue, crews[0].share.Asked)
			}
		}
	}
}

func (b *backlog) show(p *metric.Page) {
	since := func(at dag.Micros) time.Duration {
		if at == 0 {
			return 0
		}
		return max(0, time.Duration(b.now-at)*time.Microsecond)
	}
	p.Duration("oldest_running_seconds", since(b.running))
	p.Duration("schedule_next_overdue_seconds", since(b.due))
	p.Set("approvals_waiting", float64(b.approvals))
	p.Duration("approval_oldest_seconds", since(b.approving))
	rest := int64(0)
	shown := metric.Largest(b.ready, topGroups)
	for k, n := range b.ready {
		if !slices.Contains(shown, k) {
			rest += n
		}
	}
	for _, k := range shown {
		group, kind, _ := strings.Cut(k, "\n")
		p.Set("tasks_ready", float64(b.ready[k]), group, kind)
	}
	if len(b.ready) == 0 {
		p.Set("tasks_ready", 0, "", "")
	}
	if rest > 0 {
		p.Set("tasks_ready", float64(rest), metric.Other, metric.Other)
	}
	b.showQueues(p, since)
}

func (b *backlog) showQueues(p *metric.Page, since func(dag.Micros) time.Duration) {
	waiting := make(map[string]int64, len(b.names))
	for _, name := range b.names {
		waiting[name] = b.queues[name]
	}
	rest, oldest, more := int64(0), time.Duration(0), false
	for i, name := range metric.Largest(waiting, len(waiting)) {
		if i < topQueues {
			p.Set("queue_waiting", float64(waiting[name]), name)
			p.Duration("queue_oldest_seconds", since(b.oldest[name]), name)
			continue
		}
		rest, oldest, more = rest+waiting[name], max(oldest, since(b.oldest[name])), true
	}
	if more {
		p.Set("queue_waiting", float64(rest), metric.Other)
		p.Duration("queue_oldest_seconds", oldest, metric.Other)
	}
}
