package engine

import (
	"context"
	"errors"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// apply does one item to memory; its answer waits for the commit.
func (w *writer) apply(it *item, now dag.Now) {
	w.rows += rowsPerItem
	var a answer
	switch {
	case it.submit != nil:
		a = w.submit(it, now)
	case it.define != nil:
		a = w.define(it.define, now)
	case it.ask != nil:
		it.ask(w)
	default:
		a = w.event(it, now)
	}
	if it.req != nil && a.err == nil {
		it.req.Created = now.Wall
		w.batch.Requests = append(w.batch.Requests, *it.req)
	}
	w.answers = append(w.answers, a)
}

// submit makes a run of a submission, or finds the one that it has made before.
func (w *writer) submit(it *item, now dag.Now) answer {
	s := it.submit
	if id, found, err := w.known(it); err != nil || found {
		return answer{run: id, existing: found, err: err}
	}
	wf := w.changed.latest(s.Workflow)
	if wf.State != store.WorkflowActive {
		return answer{err: fmt.Errorf("%w: workflow %s/%s is %s", ErrConflict, wf.Namespace, wf.Name, wf.State)}
	}
	version := s.Version
	if version == 0 {
		version = wf.Version
	}
	r := dag.NewRun(dag.Header{
		ID: s.ID, Shard: wf.Shard, Workflow: wf.ID, Version: version, Priority: s.Priority, Origin: s.Origin,
		User: s.User, Key: s.Key, KeyHash: s.KeyHash, Params: s.Params, Created: now.Wall,
	})
	ev := dag.Event{Kind: dag.EvSubmit, Graph: w.e.graphs.peek(wf.ID, version), Handler: w.e.handler.ID}
	r.Step(&ev, now, &w.fx)
	w.runs[r.ID] = r
	if s.Key != "" {
		w.keys[keyOf{wf.ID, s.Key}] = r
	}
	w.touch(r)
	w.e.stats.RunsAccepted.Add(1)
	return answer{run: r.ID}
}

// keyOf is an idempotency key in its scope.
type keyOf struct {
	workflow dag.WorkflowID
	key      string
}

// known finds the run that a submission has made before: by its key, or by its id if it was
// applied in a transaction whose outcome was unknown.
func (w *writer) known(it *item) (id dag.RunID, found bool, err error) {
	s := it.submit
	if it.again {
		if _, err := w.e.store.Run(context.Background(), s.ID); !errors.Is(err, store.ErrNotFound) {
			return s.ID, err == nil, fromStore("look for the run", err)
		}
	}
	if s.Key == "" {
		return id, false, nil
	}
	if r := w.keys[keyOf{s.Workflow.ID, s.Key}]; r != nil {
		return r.ID, true, sameBody(r.KeyHash, s.KeyHash)
	}
	row, err := w.e.store.RunByKey(context.Background(), s.Workflow.ID, s.Key)
	if errors.Is(err, store.ErrNotFound) {
		return id, false, nil
	}
	if err != nil {
		return id, false, fromStore("look for the key", err)
	}
	return row.ID, true, sameBody(row.KeyHash, s.KeyHash)
}

func sameBody(was, is []byte) error {
	if string(was) != string(is) {
		return fmt.Errorf("%w: this idempotency key came with another request before", ErrConflict)
	}
	return nil
}

// event steps the run that it is about.
func (w *writer) event(it *item, now dag.Now) answer {
	ev := &it.ev
	if it.shut { // the attempt is over where it ran: its slot is free for this transaction
		it.shut = false
		w.e.home.unbook(1)
	}
	r := w.runs[it.run]
	if r == nil && ev.Kind == dag.EvRecover {
		r = w.revive(it.run)
	}
	if r == nil {
		return answer{run: it.run, verdict: dag.RunEnded}
	}
	v := r.Step(ev, now, &w.fx)
	if it.again && v == dag.Stale {
		v = dag.Duplicate
	}
	w.count(ev.Kind, v)
	if r.Pending() > 0 || v == dag.Accepted {
		w.touch(r)
	}
	return answer{run: it.run, verdict: v}
}

func (w *writer) count(kind dag.EventKind, v dag.Verdict) {
	switch {
	case kind == dag.EvReport && v == dag.Accepted:
		w.e.stats.AttemptsEnded.Add(1)
	case kind == dag.EvReport:
		w.e.stats.Rejected.Add(1)
	case kind == dag.EvLost && v == dag.Accepted:
		w.e.stats.Lost.Add(1)
	}
}
