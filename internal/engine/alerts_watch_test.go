package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// rowCounter counts the rows that an engine reads for its alerts.
type rowCounter struct {
	store.Store
	workflows, versions, incidents, watched, lists atomic.Int64
	refuse                                         atomic.Bool // the next transaction is refused
}

func (c *rowCounter) Commit(ctx context.Context, b *store.Batch) (dag.Micros, error) {
	if c.refuse.Swap(false) {
		return 0, fmt.Errorf("a test: %w", store.ErrRefused)
	}
	return c.Store.Commit(ctx, b)
}

func (c *rowCounter) WorkflowByID(ctx context.Context, id dag.WorkflowID) (store.Workflow, error) {
	c.workflows.Add(1)
	return c.Store.WorkflowByID(ctx, id)
}

func (c *rowCounter) Version(ctx context.Context, id dag.WorkflowID, version int32) (store.Version, error) {
	c.versions.Add(1)
	return c.Store.Version(ctx, id, version)
}

func (c *rowCounter) OpenIncidents(ctx context.Context, s dag.ShardID, after uuid.UUID, limit int) ([]store.Incident, error) {
	all, err := c.Store.OpenIncidents(ctx, s, after, limit)
	c.incidents.Add(int64(len(all)))
	return all, err
}

func (c *rowCounter) Watched(ctx context.Context, shards []dag.ShardID) ([]store.Watched, error) {
	all, err := c.Store.Watched(ctx, shards)
	c.watched.Add(int64(len(all)))
	c.lists.Add(1)
	return all, err
}

func (c *rowCounter) zero() {
	for _, n := range []*atomic.Int64{&c.workflows, &c.versions, &c.incidents, &c.watched, &c.lists} {
		n.Store(0)
	}
}

// TestAlertsReadLittle counts rows. With hundreds of workflows of which few have rules, a takeover reads the
// rules of these few in one query and each open incident once. A refused transaction reads neither.
func TestAlertsReadLittle(t *testing.T) {
	const plain, ruled = 200, 5
	st := &rowCounter{Store: openMemory(t)}
	var failing atomic.Bool
	failing.Store(true)
	first := alerted(t, st, &failing)
	var all []store.Workflow
	for i := range ruled {
		wf := first.applyWatched(fmt.Sprintf("r%d", i), watched(`"failed"`))
		first.ends(first.submit(wf), dag.RunFailed)
		all = append(all, wf)
	}
	for i := range plain {
		all = append(all, first.applyWatched(fmt.Sprintf("p%d", i), []byte(`{}`)))
	}
	first.quiet()
	first.close()

	h := newHands(t)
	h.held = true
	n := start(t, st, h, func(c *engine.Config) { c.Rules = alert.Rules })
	for i := range all {
		n.submit(all[i])
	}
	n.close()

	st.zero()
	h = newHands(t)
	h.held = true
	n = start(t, st, h, func(c *engine.Config) { c.Rules = alert.Rules })
	n.submit(all[0])
	// Reads of versions are not compared, because the runs that continue need the graphs of their versions.
	if f, w, l, o := st.workflows.Load(), st.watched.Load(), st.lists.Load(), st.incidents.Load(); f > ruled || w != ruled || l != 1 || o != ruled {
		t.Errorf("a takeover with %d workflows read %d of them, %d rows of rules in %d queries, and %d incidents; want at most %d, %d, 1, %d",
			len(all), f, w, l, o, ruled, ruled, ruled)
	}
	eventually(t, "the graphs of the runs that continue are read", func() bool { return st.versions.Load() >= int64(len(all)) })
	st.zero()
	st.refuse.Store(true)
	n.submit(all[ruled])
	if v, w, o, f := st.versions.Load(), st.watched.Load(), st.incidents.Load(), st.workflows.Load(); v != 0 || w != 0 || o != 0 || f > 3 {
		t.Errorf("a refused transaction read %d versions, %d rows of rules, %d incidents and %d workflows", v, w, o, f)
	}
	n.close()
}

// TestRefusedIncidentIsUndone: if the store refuses the transaction that opens an incident, memory no longer
// has the incident, and the repeated transaction opens it once. engine.MirrorShard compares memory with the
// rows.
func TestRefusedIncidentIsUndone(t *testing.T) {
	st := &rowCounter{Store: openMemory(t)}
	h := newHands(t)
	h.held = true
	n := start(t, st, h, func(c *engine.Config) { c.Rules = alert.Rules })
	wf := n.applyWatched("w", watched(`"failed"`))
	for range 3 {
		n.submit(wf)
	}
	for i, k := range h.holding(3) {
		st.refuse.Store(i < 2) // a success that is refused alone counts as a failure
		result := dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, Exited: true, ExitCode: 1}
		if i == 2 {
			result = dag.Result{State: dag.AttemptSucceeded, Exited: true}
		}
		h.end(k, result)
		n.ends(k.run, map[bool]dag.RunState{true: dag.RunSucceeded, false: dag.RunFailed}[i == 2])
	}
	n.quiet()
	wantIncidents(t, st, "resolved 2"+toldOpened+toldResolved)
	n.close()
}
