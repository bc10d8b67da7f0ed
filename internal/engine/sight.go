package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// sight is what an explanation rests on: the state of every task of a run at one moment. The owner
// copies it from memory, where a run of 100,000 tasks costs a millisecond; from rows it takes all
// attempts of the run.
type sight struct {
	g     *dag.Graph
	views []dag.TaskView
	now   dag.Micros
	// open are the attempts that tasks hold, of the first that an explanation can name.
	open map[dag.TaskID]dag.AttemptRow
	// startBy are the start deadlines of ready tasks that the owner watches.
	startBy map[dag.TaskID]dag.Micros
	// again are the tasks whose next try is due: they wait for a slot, which their rows do not tell.
	again    map[dag.TaskID]bool
	modified dag.Micros // when one of its attempts last changed, as far as the sight has them

	ended    bool             // it is made of the row of a run that has ended
	rows     bool             // it is made of all attempts of the run
	attempts []dag.AttemptRow // those
	at       []dag.Micros     // by task: when it came to its state; computed on first use
}

const (
	// sightWait bounds the wait for the owner's memory: the store may be away.
	sightWait = time.Second
	// momentReadsMax bounds the tasks whose attempts are read one by one to tell since when one task is ready, and
	// momentStepsMax those that are looked at. Past that, all attempts of the run are read at once.
	momentReadsMax = 4
	momentStepsMax = 1000
	// passTasksMax is how large a run is that any node explains from rows. The owner explains a larger one.
	passTasksMax = 1000
)

// look makes a sight of the run once.
func (x *explaining) look(ctx context.Context, e *Engine, v *RunView, task dag.TaskID) (err error) {
	if x.sight != nil {
		return nil
	}
	x.sight, err = e.look(ctx, &v.RunRow, task)
	if err == nil {
		v.Modified = max(v.Modified, x.modified)
	}
	return err
}

// look makes a sight of a run. It replaces a row that is out of date. task is the one that is asked about,
// or LeaderTask.
func (e *Engine) look(ctx context.Context, row *dag.RunRow, task dag.TaskID) (*sight, error) {
	if row.Final != nil {
		if s := e.lookBack(row); s != nil {
			return s, nil
		}
	} else if !e.reads() && !RowsOnly(ctx) {
		s, err := e.lookInside(ctx, row.ID, task)
		if s != nil || err != nil {
			return s, err
		}
		if err := e.elsewhere(ctx, row); err != nil {
			return nil, err
		}
	}
	return e.lookAll(ctx, row)
}

// lookBack makes a sight of a run that has ended from its row; nil: the row alone does not say it all.
func (e *Engine) lookBack(row *dag.RunRow) *sight {
	g, err := e.graphOf(row)
	if err != nil {
		return nil
	}
	views, err := dag.Derive(g, row, nil)
	if err != nil {
		return nil // an earlier generation left tasks as they were
	}
	for t := range views {
		if views[t].State == dag.Stopped { // whether for itself or with its run, its attempts say
			return nil
		}
	}
	return &sight{g: g, views: views, ended: true}
}

// lookAll makes a sight from all attempts of a run.
func (e *Engine) lookAll(ctx context.Context, row *dag.RunRow) (*sight, error) {
	g, attempts, views, err := e.derive(ctx, row)
	if err != nil {
		return nil, err
	}
	now, err := e.Clock(ctx)
	if err != nil {
		return nil, err
	}
	s := &sight{g: g, views: views, now: now, attempts: attempts, rows: true, again: map[dag.TaskID]bool{}}
	for i := range attempts {
		a := &attempts[i]
		s.modified = max(s.modified, a.Assigned, a.Started, a.Finished)
		if a.Task >= 0 && views[a.Task].State == dag.RetryWait && views[a.Task].Token == a.Token && isDue(a, now) {
			s.again[a.Task] = true
		}
	}
	return s, nil
}

// lookInside copies what the owner's memory says of a run; nil: it is not in this memory.
func (e *Engine) lookInside(ctx context.Context, id dag.RunID, task dag.TaskID) (*sight, error) {
	short, cancel := context.WithTimeout(ctx, sightWait)
	defer cancel()
	s, err := ask(short, e.writer.inbox, func(w *writer) (*sight, error) { return w.sight(id, task), nil })
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, nil // it cannot say now: the rows can
	}
	return s, nil
}

// sight is asked between transactions: everything it copies is on the disk.
func (w *writer) sight(id dag.RunID, task dag.TaskID) *sight {
	r := w.runs[id]
	if r == nil || r.Graph == nil || r.Raw() {
		return nil
	}
	now := w.clock.now()
	s := &sight{g: r.Graph, views: r.Views(), now: now.Wall,
		open: map[dag.TaskID]dag.AttemptRow{}, again: map[dag.TaskID]bool{}}
	limited := false
	for t := range s.views {
		t := dag.TaskID(t)
		switch state := s.views[t].State; {
		case state == dag.Ready:
			limited = limited || r.Graph.Policy(t).StartDeadline > 0
		case state != dag.Deferred && !state.Held():
		default:
			a, ok := r.Open(t)
			if !ok {
				continue
			}
			s.modified = max(s.modified, a.Assigned, a.Started)
			if t == task || len(s.open) < goingMax {
				s.open[t] = a
			}
		}
	}
	if !limited {
		return s
	}
	s.startBy = map[dag.TaskID]dag.Micros{}
	for i := range w.timers.heap {
		tm := &w.timers.heap[i]
		if tm.Run != id || tm.Kind != dag.TimerStart || int(tm.Task) >= len(s.views) {
			continue
		}
		if task := &s.views[tm.Task]; task.State != dag.Ready || task.Token != tm.Token {
			continue
		}
		s.startBy[tm.Task] = now.Wall + dag.Micros((tm.Due - now.Mono).Microseconds())
	}
	return s
}

type rowsKey struct{}

// FromRows has this node explain a run by what is stored: its owner does not answer.
func FromRows(ctx context.Context) context.Context { return context.WithValue(ctx, rowsKey{}, true) }

// RowsOnly reports whether this node is to explain by what is stored.
func RowsOnly(ctx context.Context) bool { return ctx.Value(rowsKey{}) != nil }

// elsewhere has the owner explain a run whose rows take long to read.
func (e *Engine) elsewhere(ctx context.Context, row *dag.RunRow) error {
	if e.cluster == nil || RowsOnly(ctx) || e.Owns(row.Shard) || row.SplitAt == 0 {
		return nil
	}
	g, err := e.graphOf(row)
	if err != nil || g.Len() <= passTasksMax {
		return err
	}
	return &Elsewhere{row.Shard}
}

// taskOf finds the task of a run that is to be explained.
func (e *Engine) taskOf(ctx context.Context, v *RunView, name string, x *explaining) (TaskView, error) {
	none := fmt.Errorf("task %s of run %s: %w", name, v.ID, ErrNotFound)
	if v.SplitAt == 0 {
		return TaskView{}, none
	}
	g, err := e.graphOf(&v.RunRow)
	if err != nil {
		return TaskView{}, err
	}
	t, ok := g.Find(name)
	if !ok {
		t = dag.LeaderTask
	}
	if err := x.look(ctx, e, v, t); err != nil {
		if v.Cause == dag.CauseCorrupt && !errors.Is(err, ErrUnavailable) { // in quarantine
			err = none
		}
		return TaskView{}, err
	}
	if t, ok = x.g.Find(name); !ok {
		return TaskView{}, none
	}
	return e.viewOf(ctx, v, t, x)
}

// viewOf tells of one task of a sight.
func (e *Engine) viewOf(ctx context.Context, v *RunView, t dag.TaskID, x *explaining) (TaskView, error) {
	task := TaskView{ID: t, Name: x.g.Name(t), State: x.views[t].State, Created: v.SplitAt}
	attempts, err := e.attemptsOf(ctx, v, t, x)
	if err != nil {
		return task, err
	}
	if err := e.addAttempts(ctx, &task, attempts); err != nil {
		return task, err
	}
	n := len(attempts)
	if n > 0 && task.State == dag.Ready && attempts[n-1].RetryAt != 0 && attempts[n-1].Generation == v.Generation {
		task.State, x.again[t] = dag.RetryWait, true // the owner calls it ready once its next try is due
	}
	if n == 0 {
		if task.Modified, err = e.momentOf(ctx, v, t, x); err != nil {
			return task, err
		}
	}
	task.Cause = causeOf(x.g, &v.RunRow, x.views, &task)
	return task, nil
}

// attemptsOf returns the attempts of one task. Of a held task it returns only the open attempt.
func (e *Engine) attemptsOf(ctx context.Context, v *RunView, t dag.TaskID, x *explaining) ([]dag.AttemptRow, error) {
	if x.rows {
		first, _ := slices.BinarySearchFunc(x.attempts, t, func(a dag.AttemptRow, t dag.TaskID) int { return int(a.Task - t) })
		last := first
		for last < len(x.attempts) && x.attempts[last].Task == t {
			last++
		}
		return x.attempts[first:last], nil
	}
	if a, ok := x.open[t]; ok {
		return []dag.AttemptRow{a}, nil
	}
	if x.views[t].Token == 0 && !x.ended {
		return nil, nil
	}
	// What plainly ended has no row: only then the history is looked through.
	rows, err := e.store.Attempts(ctx, store.AttemptQuery{Run: v.ID, Task: t, One: true, Sparing: true})
	if err == nil && (len(rows) == 0 || !x.ended && rows[len(rows)-1].Token != x.views[t].Token) {
		rows, err = e.store.Attempts(ctx, store.AttemptQuery{Run: v.ID, Task: t, One: true})
	}
	return rows, fromStore("attempts of run "+v.ID.String(), err)
}

// momentOf tells when a task came to the state that it has.
func (e *Engine) momentOf(ctx context.Context, v *RunView, t dag.TaskID, x *explaining) (dag.Micros, error) {
	if x.at == nil && !x.rows {
		m := moment{e: e, v: v, x: x}
		if at, err := m.of(ctx, t); err != nil || m.reads <= momentReadsMax && m.steps <= momentStepsMax {
			return at, err
		}
	}
	if x.at == nil {
		all := x.sight
		if !x.rows {
			var err error
			if all, err = e.lookAll(ctx, &v.RunRow); err != nil {
				return 0, err
			}
		}
		x.at = moments(all.g, &v.RunRow, all.attempts, all.views)
	}
	if int(t) >= len(x.at) { // its instance has come since
		return v.Modified, nil
	}
	return x.at[t], nil
}

// moment looks for when one task came to its state, as moments does for all, by single reads.
type moment struct {
	e            *Engine
	v            *RunView
	x            *explaining
	reads, steps int
}

func (m *moment) of(ctx context.Context, t dag.TaskID) (at dag.Micros, err error) {
	g, views := m.x.g, m.x.views
	if m.steps++; m.steps > momentStepsMax || m.reads > momentReadsMax {
		return 0, nil
	}
	if m.x.ended || views[t].Token != 0 {
		m.reads++
		attempts, err := m.e.attemptsOf(ctx, m.v, t, m.x)
		if err != nil {
			return 0, err
		}
		for i := range attempts {
			at = max(at, attempts[i].Assigned, attempts[i].Started, attempts[i].Finished)
		}
		if len(attempts) > 0 {
			return at, nil
		}
	}
	if of, instance := g.InstanceOf(t); instance {
		attempts, err := m.e.attemptsOf(ctx, m.v, of, m.x)
		for i := range attempts {
			at = max(at, attempts[i].Started)
		}
		return max(at, m.v.SplitAt), err
	}
	switch views[t].State {
	case dag.Stopped:
		return max(m.v.FinishedAt, m.v.SplitAt), nil
	case dag.Pending:
		return m.v.SplitAt, nil
	}
	for _, n := range g.Needs(t) {
		before, err := m.of(ctx, n)
		if err != nil {
			return 0, err
		}
		switch s := views[n].State; {
		case views[t].State != dag.UpstreamFailed:
			at = max(at, before)
		case s == dag.Failed || s == dag.UpstreamFailed || s == dag.Stopped:
			if at == 0 || before < at {
				at = before
			}
		}
	}
	return max(at, m.v.SplitAt), nil
}

// startsBy tells by when ready tasks are to be handed over: the owner by its timers, others by the rows.
func (e *Engine) startsBy(ctx context.Context, v *RunView, x *explaining, ready []dag.TaskID) (func(dag.TaskID) (dag.StartBy, bool), error) {
	if !x.rows && slices.ContainsFunc(ready, func(t dag.TaskID) bool { return x.startBy[t] != 0 }) {
		return func(t dag.TaskID) (dag.StartBy, bool) {
			p, due := x.g.Policy(t), x.startBy[t]
			return dag.StartBy{Due: due, Limit: p.StartDeadline, Warns: p.WarnOnTimeout}, due != 0
		}, nil
	}
	all := x.sight
	if !x.rows {
		var err error
		if all, err = e.lookAll(ctx, &v.RunRow); err != nil {
			return nil, err
		}
	}
	return dag.StartsBy(all.g, &v.RunRow, all.views, all.attempts), nil
}
