package engine

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Memory is only a cache: this file compares it with the rows. The simulator does so after every commit, the
// engine's tests when they check.

// Mirror says where memory differs from the rows of unfinished runs, as a fresh load would make
// them, or "". It is called on the writer's goroutine, when what it knows of these is committed.
func (e *Engine) Mirror(recs []store.RunRecord) (string, error) {
	for i := range recs {
		if diff, err := e.writer.mirrorRun(&recs[i]); diff != "" || err != nil {
			return diff, err
		}
	}
	return "", nil
}

// MirrorShard does so for all runs of a shard, and for the counts of the gates. It is called
// between transactions.
func (e *Engine) MirrorShard(ctx context.Context, s dag.ShardID) (string, error) {
	diff, err := e.writer.mirror(ctx, s)
	if diff == "" && err == nil {
		diff = e.writer.gatesDiff()
	}
	if diff == "" && err == nil && s == store.GateShard && e.cluster == nil {
		diff, err = e.writer.commonsDiff(ctx)
	}
	return diff, err
}

// MirrorGate compares what the owner of the gate knows of queues and locks with the rows of all shards.
// No message may be on its way.
func (e *Engine) MirrorGate(ctx context.Context) (string, error) { return e.writer.commonsDiff(ctx) }

// commonsDiff says where what is known of queues and locks differs from the rows, or "". Nothing may be
// on its way.
func (w *writer) commonsDiff(ctx context.Context) (string, error) {
	g := &w.commons
	if !g.loaded {
		return "", nil
	}
	stored, shares := map[dag.RunID]string{}, map[crewKey]dag.Share{}
	for after := (dag.RunID{}); ; {
		page, err := w.e.store.Holding(ctx, after, loadPage)
		if err != nil {
			return "", err
		}
		if len(page) == 0 {
			break
		}
		for i := range page {
			after = page[i].Run
			if page[i].Claim.Holds() {
				stored[after] = string(page[i].Claim.Pack())
			}
			for _, s := range page[i].Shares {
				shares[crewKey{after, s.Queue}] = s
			}
		}
	}
	if diff := g.crewsDiff(shares); diff != "" {
		return diff, nil
	}
	past, inLine := map[*line]int{}, map[stand]int{}
	for id, c := range g.of {
		if c.claim.InLine() {
			inLine[stand{c.line.name, c.claim.Level}]++
		}
		if c.slot {
			past[c.line]++
		}
		if !c.claim.Holds() {
			continue
		}
		if stored[id] != string(c.claim.Pack()) {
			return fmt.Sprintf("run %s holds %+v in memory, its row says otherwise", id, c.claim), nil
		}
		delete(stored, id)
	}
	for id := range stored {
		return fmt.Sprintf("run %s holds something that memory does not know", id), nil
	}
	waiting, err := w.e.store.Lines(ctx)
	if err != nil {
		return "", err
	}
	for i := range waiting {
		at := stand{waiting[i].Name, waiting[i].Level}
		if l := g.lines[at.line]; l == nil || inLine[at] != int(waiting[i].Runs) && !l.levels[at.level].more && !g.unread(at) {
			return fmt.Sprintf("line %s has %d runs at level %d, memory knows others", waiting[i].Name, waiting[i].Runs, waiting[i].Level), nil
		}
	}
	for name, l := range g.lines {
		if l.past != past[l] {
			return fmt.Sprintf("line %s: %d places are taken, by the runs %d", name, l.past, past[l]), nil
		}
		ok, _ := l.room(w.clock.now().Wall)
		if c := l.head(w.clock.now().Wall, w.ageing()); c != nil && ok && !g.open[name] {
			return fmt.Sprintf("line %s: run %s waits although there is room", name, c.run), nil
		}
	}
	return "", nil
}

// crewsDiff says where what is known of places for tasks differs from the rows, or "".
func (g *commons) crewsDiff(stored map[crewKey]dag.Share) string {
	past := map[*turns]int64{}
	for k, c := range g.crews {
		if s := stored[k]; s != c.share {
			return fmt.Sprintf("the tasks of run %s have %+v in memory, by the row %+v", k.run, c.share, s)
		}
		past[c.turns] += c.share.Has()
		delete(stored, k)
	}
	for k, s := range stored {
		return fmt.Sprintf("the tasks of run %s have %+v, memory knows nothing of that", k.run, s)
	}
	for name, t := range g.turns {
		if t.past != past[t] {
			return fmt.Sprintf("line %s: %d places for tasks are taken, by the runs %d", name, t.past, past[t])
		}
	}
	return ""
}

// unread reports whether the store holds runs at that stand that want a lock and are not in memory.
func (g *commons) unread(at stand) bool {
	for _, k := range g.locks {
		if _, more := k.more[at]; more {
			return true
		}
	}
	return false
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
		return "", nil // memory is ahead of the transaction under way
	}
	if r.Evaluating() {
		return "", nil // memory lags behind the rows until the results are there
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

// gateCounts is what the runs in memory say of a gate.
type gateCounts struct{ past, waiting, members int }

// gatesDiff says where the counts of the gates differ from what the runs in memory say, or "".
func (w *writer) gatesDiff() string {
	want := map[store.TriggerKey]*gateCounts{}
	of := func(k store.TriggerKey) *gateCounts {
		if want[k] == nil {
			want[k] = &gateCounts{}
		}
		return want[k]
	}
	for id, r := range w.runs {
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
	for k, g := range w.gates.of {
		if is := (gateCounts{g.past, g.waiting.Len(), len(g.members)}); is != *of(k) {
			return fmt.Sprintf("gate %v: %+v, by the runs %+v", k, is, *want[k])
		}
	}
	for k, c := range want {
		if w.gates.of[k] == nil && *c != (gateCounts{}) {
			return fmt.Sprintf("gate %v is not there, by the runs %+v", k, *c)
		}
	}
	return w.gateStuck()
}

// gateStuck names a limit at which a run waits although there is room, and which the writer is not going to
// try.
func (w *writer) gateStuck() string {
	for k, g := range w.gates.of {
		if w.gates.open[k] { // as after a reload: the transaction being made lets them through
			continue
		}
		limit, err := w.limit(k)
		if err == nil && g.waiting.Len() > 0 && (limit == 0 || g.past < limit) {
			return fmt.Sprintf("gate %v: %d wait, %d of %d are through", k, g.waiting.Len(), g.past, limit)
		}
	}
	return ""
}
