package engine

import (
	"context"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/admission"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/store"
)

const (
	// backlogEvery is the greatest age of a backlog on a page of metrics. backlogWait bounds the time for
	// which a scrape waits for a new backlog.
	backlogEvery, backlogWait = 5 * time.Second, time.Second
	// placesShown bounds the placements whose tasks are counted. linesShown bounds the waiting lines of
	// queues whose runs are counted.
	placesShown, linesShown = 10_000, 20_000
	// topQueues bounds the queues that have their own label values. topGroups bounds the pairs of group and
	// kind.
	topQueues, topGroups = 200, 200
)

// backlog is the waiting work of this node at one moment, as its writer sees it.
type backlog struct {
	ready     map[string]int64 // tasks by group and kind
	queues    map[string]int64 // queue → number of runs that wait for it, or whose tasks do
	oldest    map[string]dag.Micros
	names     []string // the names of all queues, if this node grants their slots
	approvals int
	now       dag.Micros
	running, approving,
	due dag.Micros // the earliest start deadline; 0 if no task is waiting
}

// Backlog returns a source of metrics about the waiting work of this node. It asks the writer at most every
// five seconds.
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
		return nil, errkind.FromStore("read the lines", err)
	}
	for i := range lines {
		if queue, _ := dag.CutLine(lines[i].Name); queue != "" {
			b.queues[queue] += lines[i].Runs
		}
	}
	return b, nil
}

// look reads the placements and the queues in the writer's memory. It does not read single runs.
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
	if next := w.schedule.due.next; next != 0 && next <= w.schedule.due.clock() {
		b.due = next
	}
	if g := &w.limits.admission; g.Loaded && w.held(store.GateShard) != nil {
		b.lookAtQueues(g)
	}
}

func (b *backlog) lookAtQueues(g *admission.State) {
	is := g.Backlog(linesShown)
	b.names, b.oldest = is.Names, is.Oldest
	for queue, n := range is.Tasks {
		b.queues[queue] += n
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
