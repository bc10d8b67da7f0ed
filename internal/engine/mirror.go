package engine

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"skein.dev/skein/internal/admission"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Memory is only a cache, so it must equal the rows. This file compares the two. The simulator does so after
// every commit, and the engine's tests do so at their checks.

// Mirror describes how memory differs from the given rows of unfinished runs. It returns "" if a load of
// these rows would give the same memory. The caller must be on the writer's goroutine, and all changes of
// these runs must be committed.
func (e *Engine) Mirror(recs []store.RunRecord) (string, error) {
	for i := range recs {
		if diff, err := e.writer.mirrorRun(&recs[i]); diff != "" || err != nil {
			return diff, err
		}
	}
	return "", nil
}

// MirrorShard compares all runs of a shard with their rows, and the counts of the gates with the runs. It is
// called between transactions.
func (e *Engine) MirrorShard(ctx context.Context, s dag.ShardID) (string, error) {
	diff, err := e.writer.mirror(ctx, s)
	if diff == "" && err == nil {
		diff = e.writer.limits.gatesDiff()
	}
	if diff == "" && err == nil {
		diff, err = e.writer.alerts.diff(ctx, s)
	}
	if diff == "" && err == nil && s == store.GateShard && e.cluster == nil {
		diff, err = e.writer.limits.admissionDiff(ctx, e.writer.clock.now().Wall)
	}
	return diff, err
}

// MirrorGate compares the admission owner's memory of queues and locks with the rows of all shards. No
// message may be in flight. MirrorGate reads the store's clock, because the writer's clock may change
// meanwhile.
func (e *Engine) MirrorGate(ctx context.Context) (string, error) {
	now, err := e.store.Clock(ctx)
	if err != nil {
		return "", err
	}
	return e.writer.limits.admissionDiff(ctx, now)
}

// admissionDiff describes how the state of queues and locks differs from the rows, or returns "". No message
// may be in flight.
func (l *limits) admissionDiff(ctx context.Context, now dag.Micros) (string, error) {
	if !l.admission.Loaded {
		return "", nil
	}
	rows := admission.Rows{Claims: map[dag.RunID]*dag.Claim{}, Shares: map[admission.CrewKey]dag.Share{}}
	for after := (dag.RunID{}); ; {
		page, err := l.store.Holding(ctx, after, loadPage)
		if err != nil {
			return "", err
		}
		if len(page) == 0 {
			break
		}
		for i := range page {
			after = page[i].Run
			if page[i].Claim.Holds() {
				rows.Claims[after] = &page[i].Claim
			}
			for _, s := range page[i].Shares {
				rows.Shares[admission.CrewKey{Run: after, Queue: s.Queue}] = s
			}
		}
	}
	var err error
	if rows.Lines, err = l.store.Lines(ctx); err != nil {
		return "", err
	}
	return l.admission.Diff(&rows, now), nil
}

// diff describes how the cache differs from the unresolved incidents of a shard.
func (a *alerts) diff(ctx context.Context, s dag.ShardID) (string, error) {
	if !a.loaded {
		return "", nil
	}
	rows, err := a.store.OpenIncidents(ctx, s, uuid.UUID{}, incidentsPage)
	if err != nil {
		return "", err
	}
	n := 0
	for _, of := range a.open {
		for _, is := range of {
			if is.Shard == s {
				n++
			}
		}
	}
	if n != len(rows) && len(rows) < incidentsPage {
		return fmt.Sprintf("%d incidents are in memory, and %d have rows", n, len(rows)), nil
	}
	for i := range rows {
		is := a.open[rows[i].Workflow][rows[i].Rule]
		if is == nil || is.ID != rows[i].ID || is.Revision != rows[i].Revision || is.State != rows[i].State {
			return fmt.Sprintf("incident %s is not in memory as its row has it", rows[i].ID), nil
		}
	}
	return "", nil
}

func (w *writer) mirrorRun(rec *store.RunRecord) (string, error) {
	id := rec.Run.ID
	if _, bad := w.bad[id]; bad {
		return "", nil
	}
	r := w.runs[id]
	if r == nil && rec.Bad == nil && rec.Run.Claim.Aside() {
		return "", nil
	}
	if r == nil {
		return fmt.Sprintf("run %s is not in memory", id), nil
	}
	if w.spare == nil && w.tx != nil && w.tx.touches(r) {
		return "", nil // memory already has the changes of the next transaction
	}
	if r.Evaluating() {
		return "", nil // memory is behind the rows until the results of the evaluations arrive
	}
	fx := dag.Effects{Evaluate: func(c dag.Condition, v dag.View) (bool, error) {
		v.Light = false
		return c.Holds(v)
	}}
	loaded, err := w.revived(rec, &fx)
	if err != nil {
		return "", err
	}
	if d := dag.Diff(r, loaded); d != "" {
		return fmt.Sprintf("run %s: %s", id, d), nil
	}
	return "", nil
}

func (w *writer) mirror(ctx context.Context, s dag.ShardID) (string, error) {
	var after dag.RunID
	seen := 0
	for {
		page, err := w.e.store.Load(ctx, store.LoadQuery{Shard: s, After: after, Limit: loadPage})
		if err != nil {
			return "", err
		}
		for i := range page {
			after = page[i].Run.ID
			if diff, err := w.mirrorRun(&page[i]); diff != "" || err != nil {
				return diff, err
			}
			if w.runs[after] != nil {
				seen++
			}
		}
		if len(page) < loadPage {
			break
		}
	}
	have := 0
	for _, r := range w.runs {
		if r.Shard == s {
			have++
		}
	}
	if seen != have {
		return fmt.Sprintf("%d runs of shard %d in memory, %d in the store", have, s, seen), nil
	}
	return "", nil
}

// gateCounts are the counts of a gate, as computed from the runs in memory.
type gateCounts struct{ past, waiting, members int }

// gatesDiff describes how the counts of the gates differ from the runs in memory. It returns "" if they
// agree.
func (l *limits) gatesDiff() string {
	want := map[store.TriggerKey]*gateCounts{}
	of := func(k store.TriggerKey) *gateCounts {
		if want[k] == nil {
			want[k] = &gateCounts{}
		}
		return want[k]
	}
	for id, r := range l.inMemory() {
		if waits := r.State == dag.RunWaiting; r.State == dag.RunSubmitted || (r.Gate == through) == waits || r.Gate == gateNone {
			return fmt.Sprintf("run %s is %s, at gate %d", id, r.State, r.Gate)
		}
		k, triggered := triggerGate(r)
		if triggered {
			of(k).members++
		}
		switch {
		case r.Gate == atTrigger:
			of(k).waiting++
			continue
		case triggered:
			of(k).past++
		}
		if r.Gate == atWorkflow {
			of(workflowGate(r)).waiting++
		} else {
			of(workflowGate(r)).past++
		}
	}
	for k, g := range l.gates.of {
		if is := (gateCounts{g.past, g.waiting.Len(), len(g.members)}); is != *of(k) {
			return fmt.Sprintf("gate %v: %+v, by the runs %+v", k, is, *want[k])
		}
	}
	for k, c := range want {
		if l.gates.of[k] == nil && *c != (gateCounts{}) {
			return fmt.Sprintf("gate %v is not there, by the runs %+v", k, *c)
		}
	}
	return l.gateStuck()
}

// gateStuck returns the name of a gate at which a run waits although there is room, and which the writer will
// not try. It also returns a trigger's gate whose limit is exceeded while a run that has passed it has not
// begun, because a lower limit moves such runs back to the gate.
func (l *limits) gateStuck() string {
	for k, g := range l.gates.of {
		limit, err := l.limit(k)
		if err != nil {
			continue
		}
		stuck := g.waiting.Len() > 0 && (limit == 0 || g.past < limit)
		if stuck && !l.gates.open[k] { // after a reload the gate has room, and the present transaction admits the runs
			return fmt.Sprintf("gate %v: %d wait, %d of %d are through", k, g.waiting.Len(), g.past, limit)
		}
		for id, r := range g.members {
			if limit > 0 && g.past > limit && r.Gate == atWorkflow {
				return fmt.Sprintf("gate %v: %d of %d are through, and run %s is one of them and has not begun", k, g.past, limit, id)
			}
		}
	}
	return ""
}
