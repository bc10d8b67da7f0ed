package inspect

import (
	"context"
	"errors"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// Sight contains the state of every task of a run at one moment. An explanation is made from it. The owner
// copies a Sight from memory, which takes a millisecond for a run of 100,000 tasks. A Sight from rows needs
// all attempts of the run.
type Sight struct {
	Graph *dag.Graph
	Views []dag.TaskView
	Now   dag.Micros
	// Open contains the open attempts: that of the task to be explained, and SightOpenMax others.
	Open map[dag.TaskID]dag.AttemptRow
	// Errands contains the ended attempts whose handles errands are releasing: that of the task to be
	// explained, and SightOpenMax others. A Sight from rows has none.
	Errands []dag.AttemptRow
	// StartBy contains the start deadlines of ready tasks, for which the owner has timers.
	StartBy map[dag.TaskID]dag.Micros
	// Again marks the tasks whose next attempt is due. They wait for a slot, which is not visible in their
	// rows.
	Again    map[dag.TaskID]bool
	Modified dag.Micros // the time of the last change among the attempts in the sight

	ended    bool             // the sight was made from the row of an ended run
	rows     bool             // the sight was made from the rows of all attempts of the run
	attempts []dag.AttemptRow // the rows of these attempts
	at       []dag.Micros     // for each task, the time since which it has its state; computed on first use
}

// SightOpenMax bounds the open attempts in a Sight, because an explanation names no more.
const SightOpenMax = goingMax

const (
	// sightWait bounds the wait for the owner's memory, because the store may not answer.
	sightWait = time.Second
	// momentReadsMax bounds the number of tasks whose attempts are read one by one to find the time at which
	// one task became ready. momentStepsMax bounds the number of tasks that are examined. Beyond these
	// bounds, all attempts of the run are read at once.
	momentReadsMax = 4
	momentStepsMax = 1000
	// passTasksMax is the number of tasks of the largest run that any node explains from rows. A larger run
	// is explained only by its owner.
	passTasksMax = 1000
)

// look makes the sight of the run, once.
func (x *explaining) look(ctx context.Context, task dag.TaskID) (err error) {
	if x.Sight != nil {
		return nil
	}
	x.Sight, err = x.rd.look(ctx, &x.run.RunRow, task)
	if err == nil {
		x.run.Modified = max(x.run.Modified, x.Modified)
	}
	return err
}

// look makes a sight of a run. If row is out of date, look replaces it. task is the task to be explained, or
// LeaderTask.
func (rd *Reader) look(ctx context.Context, row *dag.RunRow, task dag.TaskID) (*Sight, error) {
	if row.Final != nil {
		if s := rd.lookBack(row); s != nil {
			return s, nil
		}
	} else if !rd.rowsOnly() && !RowsOnly(ctx) {
		s, err := rd.lookInside(ctx, row.ID, task)
		if s != nil || err != nil {
			return s, err
		}
		if err := rd.elsewhere(ctx, row); err != nil {
			return nil, err
		}
	}
	return rd.lookAll(ctx, row)
}

// lookBack makes a sight of an ended run from its row. It returns nil if the row does not suffice.
func (rd *Reader) lookBack(row *dag.RunRow) *Sight {
	g, err := rd.RunGraph(row)
	if err != nil {
		return nil
	}
	views, err := dag.Derive(g, row, nil)
	if err != nil {
		return nil // if this generation did not run a task again, only its attempts have its state
	}
	for t := range views {
		if views[t].State == dag.Stopped { // only the attempts show whether the task was stopped alone or with its run
			return nil
		}
	}
	return &Sight{Graph: g, Views: views, ended: true}
}

// lookAll makes a sight from all attempts of a run.
func (rd *Reader) lookAll(ctx context.Context, row *dag.RunRow) (*Sight, error) {
	g, attempts, views, err := rd.derive(ctx, row)
	if err != nil {
		return nil, err
	}
	now, err := rd.Clock(ctx)
	if err != nil {
		return nil, err
	}
	s := &Sight{Graph: g, Views: views, Now: now, attempts: attempts, rows: true, Again: map[dag.TaskID]bool{}}
	for i := range attempts {
		a := &attempts[i]
		s.Modified = max(s.Modified, a.Assigned, a.Started, a.Finished)
		if a.Task >= 0 && views[a.Task].State == dag.RetryWait && views[a.Task].Token == a.Token && isDue(a, now) {
			s.Again[a.Task] = true
		}
	}
	return s, nil
}

// lookInside copies the sight of a run from the owner's memory. It returns nil if the run is not in this
// memory.
func (rd *Reader) lookInside(ctx context.Context, id dag.RunID, task dag.TaskID) (*Sight, error) {
	short, cancel := context.WithTimeout(ctx, sightWait)
	defer cancel()
	s, err := rd.cfg.Memory.Sight(short, id, task)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, nil // the memory cannot answer now, so use the rows
	}
	return s, nil
}

type rowsKey struct{}

// FromRows makes this node explain a run from its rows. A caller uses it if the run's owner does not answer.
func FromRows(ctx context.Context) context.Context { return context.WithValue(ctx, rowsKey{}, true) }

// RowsOnly reports whether this node must explain from rows.
func RowsOnly(ctx context.Context) bool { return ctx.Value(rowsKey{}) != nil }

// elsewhere returns the error that makes the owner explain a run whose rows take long to read.
func (rd *Reader) elsewhere(ctx context.Context, row *dag.RunRow) error {
	if !rd.cfg.Shared || RowsOnly(ctx) || slices.Contains(rd.owned(), row.Shard) || row.SplitAt == 0 {
		return nil
	}
	g, err := rd.RunGraph(row)
	if err != nil || g.Len() <= passTasksMax {
		return err
	}
	return &errkind.Elsewhere{Shard: row.Shard}
}

// taskOf finds the task of a run that is to be explained.
func (x *explaining) taskOf(ctx context.Context, name string) (TaskView, error) {
	none := errkind.NoTask(name, x.run.ID)
	if x.run.SplitAt == 0 {
		return TaskView{}, none
	}
	g, err := x.rd.RunGraph(&x.run.RunRow)
	if err != nil {
		return TaskView{}, err
	}
	t, ok := g.Find(name)
	if !ok {
		t = dag.LeaderTask
	}
	if err := x.look(ctx, t); err != nil {
		if x.run.Cause == dag.CauseCorrupt && !errors.Is(err, errkind.ErrUnavailable) { // quarantined
			err = none
		}
		return TaskView{}, err
	}
	if t, ok = x.Graph.Find(name); !ok {
		return TaskView{}, none
	}
	return x.viewOf(ctx, t)
}

// viewOf describes one task of a sight.
func (x *explaining) viewOf(ctx context.Context, t dag.TaskID) (TaskView, error) {
	task := TaskView{ID: t, Name: x.Graph.Name(t), State: x.Views[t].State, Created: x.run.SplitAt}
	attempts, err := x.attemptsOf(ctx, t)
	if err != nil {
		return task, err
	}
	if err := x.rd.addAttempts(ctx, &task, attempts); err != nil {
		return task, err
	}
	n := len(attempts)
	if n > 0 && task.State == dag.Ready && attempts[n-1].RetryAt != 0 && attempts[n-1].Generation == x.run.Generation {
		task.State, x.Again[t] = dag.RetryWait, true // the owner shows the task as ready when its next attempt is due
	}
	if n == 0 {
		if task.Modified, err = x.momentOf(ctx, t); err != nil {
			return task, err
		}
	}
	task.Cause = causeOf(x.Graph, &x.run.RunRow, x.Views, &task)
	return task, nil
}

// attemptsOf returns the attempts of one task. For a held task it returns only the open attempt.
func (x *explaining) attemptsOf(ctx context.Context, t dag.TaskID) ([]dag.AttemptRow, error) {
	if x.rows {
		first, _ := slices.BinarySearchFunc(x.attempts, t, func(a dag.AttemptRow, t dag.TaskID) int { return int(a.Task - t) })
		last := first
		for last < len(x.attempts) && x.attempts[last].Task == t {
			last++
		}
		return x.attempts[first:last], nil
	}
	if a, ok := x.Open[t]; ok {
		return []dag.AttemptRow{a}, nil
	}
	if x.Views[t].Token == 0 && !x.ended {
		return nil, nil
	}
	// An attempt with a plain end has no row. Only for such an attempt the history is searched.
	rows, err := x.rd.store.Attempts(ctx, store.AttemptQuery{Run: x.run.ID, Task: t, One: true, Sparing: true})
	if err == nil && (len(rows) == 0 || !x.ended && rows[len(rows)-1].Token != x.Views[t].Token) {
		q := store.AttemptQuery{Run: x.run.ID, Task: t, One: true}
		if !x.ended {
			q.Token = x.Views[t].Token
		}
		rows, err = x.rd.store.Attempts(ctx, q)
	}
	return rows, errkind.FromStore("attempts of run "+x.run.ID.String(), err)
}

// momentOf returns the time since which a task has its present state.
func (x *explaining) momentOf(ctx context.Context, t dag.TaskID) (dag.Micros, error) {
	if x.at == nil && !x.rows {
		m := moment{x: x}
		if at, err := m.of(ctx, t); err != nil || m.reads <= momentReadsMax && m.steps <= momentStepsMax {
			return at, err
		}
	}
	if x.at == nil {
		all := x.Sight
		if !x.rows {
			var err error
			if all, err = x.rd.lookAll(ctx, &x.run.RunRow); err != nil {
				return 0, err
			}
		}
		x.at = moments(all.Graph, &x.run.RunRow, all.attempts, all.Views)
	}
	if int(t) >= len(x.at) { // the instance was added after the read
		return x.run.Modified, nil
	}
	return x.at[t], nil
}

// moment finds by single reads the time since which one task has its state. moments does so for all tasks.
type moment struct {
	x            *explaining
	reads, steps int
}

func (m *moment) of(ctx context.Context, t dag.TaskID) (at dag.Micros, err error) {
	g, views := m.x.Graph, m.x.Views
	if m.steps++; m.steps > momentStepsMax || m.reads > momentReadsMax {
		return 0, nil
	}
	if m.x.ended || views[t].Token != 0 {
		m.reads++
		attempts, err := m.x.attemptsOf(ctx, t)
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
		attempts, err := m.x.attemptsOf(ctx, of)
		for i := range attempts {
			at = max(at, attempts[i].Started)
		}
		return max(at, m.x.run.SplitAt), err
	}
	switch views[t].State {
	case dag.Stopped:
		return max(m.x.run.FinishedAt, m.x.run.SplitAt), nil
	case dag.Pending:
		return m.x.run.SplitAt, nil
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
	return max(at, m.x.run.SplitAt), nil
}

// startsBy returns the start deadlines of ready tasks. The owner takes them from its timers, and other nodes
// derive them from the rows.
func (x *explaining) startsBy(ctx context.Context, ready []dag.TaskID) (func(dag.TaskID) (dag.StartBy, bool), error) {
	if !x.rows && slices.ContainsFunc(ready, func(t dag.TaskID) bool { return x.StartBy[t] != 0 }) {
		return func(t dag.TaskID) (dag.StartBy, bool) {
			p, due := x.Graph.Policy(t), x.StartBy[t]
			return dag.StartBy{Due: due, Limit: p.StartDeadline, Warns: p.WarnOnTimeout}, due != 0
		}, nil
	}
	all := x.Sight
	if !x.rows {
		var err error
		if all, err = x.rd.lookAll(ctx, &x.run.RunRow); err != nil {
			return nil, err
		}
	}
	return dag.StartsBy(all.Graph, &x.run.RunRow, all.Views, all.attempts), nil
}
