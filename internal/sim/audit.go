package sim

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"skein.dev/skein/internal/audit"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// audits models the audit log of a world. It records the changes that people made, and every row that the
// tree has held.
type audits struct {
	calls  int
	acked  map[string]order          // order of each acknowledged call, by the call's name
	leaves map[int64]store.AuditLeaf // by index
	grown  int                       // number of steps that have added rows to the tree
}

// order is a command of a person about a run.
type order struct {
	run    dag.RunID
	intent dag.Intent
}

// growEach is the interval at which a node looks for rows without an index.
const growEach = 500 * time.Millisecond

// audited gives an order and makes it write an audit row. It records an acknowledged order. send calls Do or
// Post of an engine.
func audited(w *World, l *life, o order, send func(context.Context) error) error {
	if !w.stage.Audit {
		return send(l.root)
	}
	w.audits.calls++
	call := fmt.Sprint("call", w.audits.calls)
	err := send(store.WithAudit(l.root, &store.Audit{Principal: "ada", Action: o.intent.String(), Object: o.run.String(), Request: call}))
	if err == nil && !l.dead {
		w.audits.acked[call] = o
	}
	return err
}

// order sends a command to the owner of the run. In a cluster it sometimes posts the command instead.
func (c *client) order(w *World, l *life, cmd engine.Command) error {
	return audited(w, l, order{cmd.Run, cmd.Intent}, func(ctx context.Context) error {
		if w.stage.Audit && w.swarm.nodes > 1 && w.rng.IntN(3) == 0 {
			return l.eng.Post(ctx, cmd)
		}
		return l.eng.Do(ctx, cmd)
	})
}

// growAudit makes a node give audit rows their index, until the node ends. The node does not sign the tree,
// because a signature would depend on real time.
func growAudit(w *World, l *life) {
	if !w.stage.Audit {
		return
	}
	k, err := audit.NewKeeper(audit.Config{Store: w.mutant.store(l, true), Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	must(err)
	w.spawn(l, "audit", func() {
		for !l.dead && l.ctx.Err() == nil {
			_ = k.Step(l.ctx, false) // if it fails, the next step tries again
			l.Await(l.ctx, nil, growEach)
		}
	})
}

// noted checks the audit rows of a batch. A row needs its change in the same batch, and a person's order
// needs its row. The latter is not checked in rich and timed worlds, because there others give orders, too.
func (v *witness) noted(b *store.Batch) {
	if !v.w.stage.Audit {
		return
	}
	changed, rows := map[string]bool{}, map[string]bool{}
	for _, id := range touched(b) {
		changed[id.String()] = true
	}
	for i := range b.Audit {
		r := &b.Audit[i]
		if rows[r.Object] = true; len(b.Fences) > 0 && !changed[r.Object] {
			v.w.violate("audit", "%s has a row, and run %s does not change with it", r.Request, r.Object)
		}
		if len(b.Fences) == 0 && len(b.Messages) == 0 {
			v.w.violate("audit", "%s has a row, and nothing is posted with it", r.Request)
		}
	}
	if len(b.Fences) == 0 && len(b.Messages) > 0 && len(b.Audit) == 0 {
		v.w.violate("audit", "an order is posted, and no row says by whom")
	}
	if v.w.rich != nil || v.w.timed != nil || len(b.Consumed) > 0 {
		return // a posted order got its row when it was posted
	}
	ends := map[dag.RunID]bool{} // runs that may have been stopped because a task failed
	for i := range b.AttemptUpdates {
		ends[b.AttemptUpdates[i].Run] = true
	}
	for i := range b.RunUpdates {
		r := &b.RunUpdates[i]
		if sh := v.runs[r.ID]; sh != nil && !ends[r.ID] && sh.row.Intent != r.Intent && sh.row.Generation == r.Generation && !rows[r.ID.String()] {
			v.w.violate("audit", "run %s is told to %s, and no row says by whom", v.w.runName(r.ID), r.Intent)
		}
	}
}

// treed checks that the tree of audit rows only grows. No leaf may change, whichever node advances the tree
// and dies.
func (v *witness) treed() {
	w := v.w
	w.aside++
	defer func() { w.aside-- }()
	ctx := context.Background()
	tree, err := w.st.AuditTree(ctx)
	must(err)
	rows, err := w.st.AuditLeaves(ctx, tree.First, 1<<20)
	must(err)
	check := audit.NewVerifier(tree, nil, 0, time.Time{})
	calls := map[string]bool{}
	for i := range rows {
		r := &rows[i]
		if r.Object != "" && calls[r.Request] {
			w.violate("audit", "%s has two rows", r.Request)
		}
		calls[r.Request] = true
		was, known := w.audits.leaves[r.Index]
		if leaf := (store.AuditLeaf{ID: r.ID, Hash: r.Hash}); known && w.backs == 0 && (was.ID != leaf.ID || string(was.Hash) != string(leaf.Hash)) {
			w.violate("audit", "index %d was that of row %d, and is now that of row %d", r.Index, was.ID, r.ID)
		} else {
			w.audits.leaves[r.Index] = leaf
		}
		must(check.Row(r))
	}
	report := check.Report()
	for _, f := range report.Findings {
		w.violate("audit", "%s: %s", f.Kind, f.Text)
	}
	w.audits.grown++
}

// auditLeft describes the audit rows that have no index yet.
func auditLeft(w *World) string {
	rows, err := w.st.AuditFresh(context.Background(), 1)
	must(err)
	if len(rows) == 0 {
		return ""
	}
	return fmt.Sprintf(" audit row %s has no index;", rows[0].Request)
}

// closeAudit checks the audit rows at the end of a history. An acknowledged order has at most one row. An
// order that changed nothing has none.
func (v *witness) closeAudit() {
	w := v.w
	if !w.stage.Audit {
		return
	}
	v.treed()
	w.aside++
	defer func() { w.aside-- }()
	rows, err := w.st.AuditLeaves(context.Background(), 0, 1<<20)
	must(err)
	have := map[string]int{}
	for i := range rows {
		have[rows[i].Request]++
	}
	for call, o := range w.audits.acked {
		if have[call] > 1 {
			w.violate("audit", "%s told run %s to %s and was acknowledged; it has %d rows", call, w.runName(o.run), o.intent, have[call])
		}
	}
	w.Faults["audited order"] += len(rows)
}
