package engine

import (
	"context"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
)

// reading returns the sources of the Reader of this engine.
func (e *Engine) reading() inspect.Config {
	c := inspect.Config{Store: e.store, Roster: e.cfg.Roster, Shards: e.shards, Graphs: e.graphs, Memory: memory{e},
		Node: e.cfg.Node, Slots: e.cfg.Slots, Traits: func() store.Traits { return *e.slots.traits.Load() }, Ageing: e.cfg.Ageing, Waits: e.cfg.Waits}
	c.Space = spaceReader(&e.quotas, e.store)
	if e.cluster != nil {
		c.Roster, c.Shared = e.cluster, true
	}
	if e.cfg.Preparer != nil {
		c.Outside = outside{e.cfg.Preparer}
	}
	return c
}

// outside lets explanations of runs use the results of a Preparer.
type outside struct{ Preparer }

func (o outside) Missing(ctx context.Context, row *dag.RunRow, g *dag.Graph, t dag.TaskID, token dag.Token) (inspect.Missing, error) {
	is, err := o.Prepare(ctx, PrepareQuery{Row: row, Graph: g, Task: t, Token: token})
	return inspect.Missing{By: is.By, Message: is.Message, Form: is.Form, FourEyes: is.FourEyes, Later: is.Later, Why: is.Why}, err
}

// Looks lets a Preparer request checks of deferred tasks of kind dag.Dependent.
type Looks struct{ e *Engine }

// LooksOf returns the Looks of an engine.
func LooksOf(e *Engine) Looks { return Looks{e} }

// At makes the engine check attempts at once, if they still wait here.
func (l Looks) At(ctx context.Context, which []dag.AttemptKey) error {
	_, err := ask(ctx, l.e.writer.inbox, func(w *writer) (bool, error) {
		for _, k := range which {
			if w.awaited(lookOf(k)) {
				w.calls.prepare([]dag.Prepare{{Run: k.Run, Task: dag.TaskID(k.Task), Token: k.Token, Kind: dag.Dependent}})
			}
		}
		return true, nil
	})
	return err
}

// Gone returns those of the given attempts that do not wait here.
func (l Looks) Gone(ctx context.Context, which []dag.AttemptKey) ([]dag.AttemptKey, error) {
	return ask(ctx, l.e.writer.inbox, func(w *writer) (gone []dag.AttemptKey, err error) {
		for _, k := range which {
			if !w.awaited(lookOf(k)) {
				gone = append(gone, k)
			}
		}
		return gone, nil
	})
}

func lookOf(k dag.AttemptKey) *dag.Timer {
	return &dag.Timer{Kind: dag.TimerLook, Run: k.Run, Task: dag.TaskID(k.Task), Token: k.Token}
}

// memory gives readers access to the writer's memory.
type memory struct{ e *Engine }

func (m memory) Serving() bool {
	select {
	case <-m.e.ready:
		return true
	default:
		return false
	}
}

func (m memory) Owned() []dag.ShardID { return m.e.owned() }

func (m memory) IsShut() string { return m.e.IsShut() }

func (m memory) InUse() (slots int, need dag.Need) {
	_, slots = m.e.Slots()
	_, need = m.e.Room()
	return slots, need
}

func (m memory) Sight(ctx context.Context, run dag.RunID, task dag.TaskID) (*inspect.Sight, error) {
	return ask(ctx, m.e.writer.inbox, func(w *writer) (*inspect.Sight, error) { return w.sight(run, task), nil })
}

func (m memory) Turn(ctx context.Context, run dag.RunID, task dag.TaskID, shared func(dag.Place) bool) (inspect.Turn, bool, error) {
	t, err := ask(ctx, m.e.writer.inbox, func(w *writer) (*inspect.Turn, error) {
		r := w.runs[run]
		if r == nil {
			return nil, nil
		}
		t := &inspect.Turn{Runs: w.queue.Before(r, shared, w.tx.now.Wall, inspect.TurnsMax)}
		if task != dag.LeaderTask && r.Graph != nil && int(task) < r.Graph.Len() {
			t.Tasks = r.Ahead(task, shared, inspect.TurnsMax)
		}
		return t, nil
	})
	if t == nil {
		return inspect.Turn{}, false, err
	}
	return *t, true, err
}

// sight copies what memory has about a run. It is called between transactions, so everything that it copies
// is durable.
func (w *writer) sight(id dag.RunID, task dag.TaskID) *inspect.Sight {
	r := w.runs[id]
	if r == nil || r.Graph == nil || r.Raw() {
		return nil
	}
	now := w.clock.now()
	s := &inspect.Sight{Graph: r.Graph, Views: r.Views(), Now: now.Wall, Errands: r.Errands(task, inspect.SightOpenMax),
		Open: map[dag.TaskID]dag.AttemptRow{}, Again: map[dag.TaskID]bool{}}
	limited := false
	for t := range s.Views {
		t := dag.TaskID(t)
		switch state := s.Views[t].State; {
		case state == dag.Ready:
			limited = limited || r.Graph.Policy(t).StartDeadline > 0
		case state != dag.Deferred && !state.Held():
		default:
			a, ok := r.Open(t)
			if !ok {
				continue
			}
			s.Modified = max(s.Modified, a.Assigned, a.Started)
			if t == task || len(s.Open) < inspect.SightOpenMax {
				s.Open[t] = a
			}
		}
	}
	if !limited {
		return s
	}
	s.StartBy = map[dag.TaskID]dag.Micros{}
	for i := range w.timers.heap {
		tm := &w.timers.heap[i]
		if tm.Run != id || tm.Kind != dag.TimerStart || int(tm.Task) >= len(s.Views) {
			continue
		}
		if task := &s.Views[tm.Task]; task.State != dag.Ready || task.Token != tm.Token {
			continue
		}
		s.StartBy[tm.Task] = now.Wall + dag.Micros((tm.Due - now.Mono).Microseconds())
	}
	return s
}

// Slots returns the number of attempts that may run at the same time, and the number of taken slots.
func (e *Engine) Slots() (total, busy int) {
	return e.cfg.Slots, e.cfg.Slots - int(max(e.slots.free.Load(), 0))
}

// SubmitRoom returns the number of further submissions that can wait for the writer now, and the limit.
// Submissions above the limit are refused with ErrBusy.
func (e *Engine) SubmitRoom() (left, most int) {
	b := e.writer.inbox
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.submitMax-b.submits, 0), b.submitMax
}
