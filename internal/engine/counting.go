package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// To enforce the first quota of runs of a namespace, the writer needs the number of its unfinished runs. Only
// a read of all these runs can count them. The writer does not wait for this read: a helper reads the runs as
// of one instant, and the writer notes each run that begins or ends meanwhile. Afterwards the writer adds the
// changes made by transactions after that instant.

// counting is a count in progress.
type counting struct {
	since []move // the changes by transactions since the count began
	done  atomic.Pointer[countResult]
}

// move is a change of the number of unfinished runs of a workflow.
type move struct {
	workflow dag.WorkflowID
	shard    dag.ShardID
	seq      int64 // seq of the transaction
	n        int64
}

// movesMax bounds the moves that are noted during one count. If there are more, the writer counts the runs
// itself.
const movesMax = 1 << 20

// countResult is the result of a count.
type countResult struct {
	runs []store.WorkflowRuns
	uses []store.NamespaceUse
	err  error
}

func (c *counting) over() bool { return c.done.Load() != nil || len(c.since) > movesMax }

// countsBeside begins a count, or takes the result of one. It returns false if the writer must count all runs
// itself, because the owned shards have changed or the count has failed.
func (q *quotas) countsBeside() bool {
	set := q.known.is.Load()
	if !q.loaded || q.slow || set == nil || (set.counts || q.set.counts) && !q.sameShards() {
		return false
	}
	if c := q.counting; c != nil && c.over() {
		is := c.done.Load()
		if is == nil || is.err != nil || q.take(c, is) != nil {
			q.slow = true
			return false
		}
		if q.counted(set) {
			return true
		}
	}
	fresh := map[string]bool{}
	for name, bounds := range set.of {
		was := q.set.of[name]
		if bounds.Counted() && (!was.Counted() || q.pending[name]) {
			fresh[name] = true
		}
	}
	shards := q.ownedShards()
	c := &counting{}
	q.counting, q.pending, q.set, q.shards = c, fresh, set, shards
	if q.uses == nil {
		q.uses = map[string][]*use{}
	}
	st, poke := q.store, q.poke
	q.helper(func(ctx context.Context) {
		is := &countResult{}
		is.uses, is.err = st.NamespaceUses(ctx, "")
		if is.err == nil {
			is.runs, is.err = st.UnfinishedOf(ctx, shards)
		}
		c.done.Store(is)
		poke()
	})
	return true
}

// take adds the result of a count to the counts. The caller calls it at a moment when the rows contain every
// change of the writer.
func (q *quotas) take(c *counting, is *countResult) error {
	pending := q.pending
	q.counting, q.pending = nil, nil
	was := map[*use]int64{}
	for i := range is.uses {
		if u := &is.uses[i]; pending[u.Namespace] && q.held(u.Shard) != nil {
			of := q.useOf(u.Namespace, u.Shard)
			of.NamespaceUse, was[of] = *u, u.Runs
			of.Runs = 0
		}
	}
	seqs := map[dag.ShardID]int64{}
	add := func(w dag.WorkflowID, shard dag.ShardID, n int64) error {
		wf, err := q.defs.workflow(w)
		if err == nil && pending[wf.Namespace] {
			q.names[wf.ID] = wf.Namespace
			q.useOf(wf.Namespace, shard).Runs += n
		}
		return err
	}
	for i := range is.runs {
		r := &is.runs[i]
		if seqs[r.Shard] = r.Seq; r.Workflow == 0 {
			continue
		}
		if err := add(r.Workflow, r.Shard, r.Runs); err != nil {
			return err
		}
	}
	for _, m := range c.since {
		seq, known := seqs[m.shard]
		if !known {
			return errors.New("a shard was not counted")
		}
		if m.seq <= seq {
			continue
		}
		if err := add(m.workflow, m.shard, m.n); err != nil {
			return err
		}
	}
	for name := range pending {
		for _, u := range q.uses[name] {
			if u.Runs != was[u] {
				q.differs(u)
			}
		}
	}
	return nil
}

// moved records a change of the number of unfinished runs, if a count is in progress.
func (q *quotas) moved(r *dag.Run, n int64) {
	if q.counting != nil {
		q.txn().recount.moves = append(q.txn().recount.moves, move{workflow: r.Workflow, shard: r.Shard, n: n})
	}
}

// moveOn adds the moves of the transaction to the count, with the numbers that the store will assign.
func (q *quotas) moveOn() {
	r := &q.txn().recount
	if q.counting == nil {
		r.moves = r.moves[:0]
		return
	}
	r.kept = len(q.counting.since)
	for _, m := range r.moves {
		if f := q.held(m.shard); f != nil {
			m.seq = f.Seq + 1
			q.counting.since = append(q.counting.since, m)
		}
	}
	r.moves = r.moves[:0]
}

// unmove removes the moves of a transaction that was not committed.
func (q *quotas) unmove(r *recount) {
	if q.counting != nil && r.kept >= 0 {
		q.counting.since = q.counting.since[:min(r.kept, len(q.counting.since))]
	}
}

const (
	// heldMax bounds the time for which held waits, and heldEach is the time between two checks.
	heldMax  = 10 * time.Second
	heldEach = 20 * time.Millisecond
)

// held waits until this node enforces the quotas that it has read most recently. If counting for a first
// quota takes longer than heldMax, held returns, and the node enforces the quotas later, when it has counted.
func (n Namespaces) held(ctx context.Context) {
	e := n.e
	set := e.quotas.is.Load()
	for waited := time.Duration(0); waited < heldMax && ctx.Err() == nil; waited += heldEach {
		if !e.quotas.on || set == nil || len(e.owned()) == 0 || e.quotas.held.Load() >= set.order {
			return
		}
		e.writer.inbox.poke()
		e.host.Await(ctx, nil, heldEach)
	}
}
