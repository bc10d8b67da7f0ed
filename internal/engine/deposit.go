package engine

import (
	"context"
	"errors"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// depositTries bounds how often a deposit is tried if its outcome is unknown, or if it conflicts with another
// deposit under its key.
const depositTries = 3

// Deposit stores a run whose owner cannot be reached, or whose shard has no owner. It writes the run's row as
// submitted, and the next owner of the shard finds the row. When it returns without an error, the run is
// durable. If the same submission also reaches the owner directly, there is still one run, because both have
// the same id and key.
func (e *Engine) Deposit(ctx context.Context, s Submission) (Accepted, error) {
	if e.cluster == nil {
		return Accepted{}, fmt.Errorf("%w: this node is alone and owns every shard", errkind.ErrUnavailable)
	}
	if err := e.admit(&s); err != nil {
		return Accepted{}, err
	}
	var last error
	for range depositTries {
		if a, known, err := e.deposited(ctx, &s); known || err != nil {
			return a, err
		}
		row, err := e.submitted(ctx, &s)
		if err != nil {
			return Accepted{}, err
		}
		var b store.Batch
		b.RunInserts = []dag.RunRow{row}
		switch _, last = e.store.Commit(ctx, &b); {
		case last == nil:
			e.stats.RunsAccepted.Add(1)
			e.cfg.Peers.Nudge(row.Shard)
			return Accepted{Run: s.ID}, nil
		case !errors.Is(last, store.ErrUnknown) && !errors.Is(last, store.ErrRefused):
			return Accepted{}, errkind.FromStore("write the run", last)
		}
	}
	return Accepted{}, errkind.FromStore("write the run", last)
}

// deposited finds the run that an earlier delivery of a submission has made, by its id or its key.
func (e *Engine) deposited(ctx context.Context, s *Submission) (Accepted, bool, error) {
	row, err := e.store.Run(ctx, s.ID)
	if errors.Is(err, store.ErrNotFound) && s.Key != "" {
		row, err = store.RunByKey(ctx, e.store, s.Workflow.ID, s.Key)
	}
	if errors.Is(err, store.ErrNotFound) {
		return Accepted{}, false, nil
	}
	if err != nil {
		return Accepted{}, false, errkind.FromStore("look for the run", err)
	}
	a := sameRun(s, &row.Header)
	// If the run has the id of this submission, an earlier delivery made it, here or through another node.
	return Accepted{Run: a.run, Existing: row.ID != s.ID}, true, a.err
}

// submitted returns the row of a run that has not been stepped yet.
func (e *Engine) submitted(ctx context.Context, s *Submission) (dag.RunRow, error) {
	wf, err := e.store.WorkflowByID(ctx, s.Workflow.ID)
	if err != nil {
		return dag.RunRow{}, errkind.FromStore(fmt.Sprintf("workflow %d", s.Workflow.ID), err)
	}
	if wf.State != store.WorkflowActive {
		return dag.RunRow{}, notActive(&wf)
	}
	now, err := e.store.Clock(ctx)
	if err != nil {
		return dag.RunRow{}, errkind.FromStore("read the clock", err)
	}
	var c dag.Changes
	dag.NewRun(s.header(&wf, now)).Flush(&c, now)
	return c.RunInserts[0], nil
}

// header returns the header of the run that a submission makes.
func (s *Submission) header(wf *store.Workflow, now dag.Micros) dag.Header {
	h := dag.Header{
		ID: s.ID, Shard: wf.Shard, Workflow: wf.ID, Version: s.Version, Priority: s.Priority, Origin: s.Origin,
		User: s.User, Key: s.Key, KeyHash: s.KeyHash, Params: s.Params, Created: now,
	}
	if h.Version == 0 {
		h.Version = wf.Version
	}
	if !s.Of.IsZero() || s.From != "" || s.Trace != "" || s.Tags != "" {
		h.Fire = &dag.Fire{Of: s.Of, Instant: s.Instant, From: s.From, Trace: s.Trace, Tags: s.Tags}
	}
	h.Tag(wf.Tags)
	return h
}

func notActive(wf *store.Workflow) error {
	name := wf.Namespace + "/" + wf.Name
	return errkind.Tell(fmt.Errorf("%w: workflow %s is %s", errkind.ErrConflict, name, wf.State), "workflow_state", "workflow", name, "state", wf.State)
}
