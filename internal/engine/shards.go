package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sort"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// Holders are the other members that may hold attempts: the nodes and workers of a cluster, or the workers of
// a node that is alone. The methods do not block. Any goroutine may call them.
type Holders interface {
	// Alive reports whether a handler is listed. The attempts of a listed handler are not lost.
	Alive(h dag.HandlerID) bool
	// Cancel asks another handler to end attempts. The request may be lost, and a reload repeats it.
	Cancel(h dag.HandlerID, cs []dag.Cancel)
}

// Peers is the part of the cluster that an engine needs. Its methods do not block. Any goroutine may call
// them.
type Peers interface {
	Holders
	// Report sends reports of attempts of this process to the owners of their runs on other nodes. While this
	// process lives, no report is lost.
	Report(r Report)
	// Pending reports whether a report of the attempt was passed to Report and the owner has not applied it
	// yet.
	Pending(id AttemptID) bool
	// Confirm asks another handler which of these attempts it does not hold. That handler reports them as
	// lost. If the request is lost, it is repeated.
	Confirm(h dag.HandlerID, ids []AttemptID)
	// Nudge asks the owner of a shard to read the store at once. A nudge may be lost: owners also read the
	// store every second.
	Nudge(s dag.ShardID)
}

// held returns the fence of a shard, or nil if the shard is not owned here.
func (w *writer) held(s dag.ShardID) *store.Fence {
	i, ok := slices.BinarySearchFunc(w.fences, s, func(f store.Fence, s dag.ShardID) int { return int(f.Shard - s) })
	if !ok {
		return nil
	}
	return &w.fences[i]
}

// here returns nil if a shard is owned here, and otherwise an error that names the owner.
func (w *writer) here(s dag.ShardID) error {
	if w.held(s) == nil {
		return &errkind.Elsewhere{Shard: s}
	}
	return nil
}

// shards lists the shards that the writer holds.
func (w *writer) shards() []dag.ShardID {
	all := make([]dag.ShardID, len(w.fences))
	for i := range w.fences {
		all[i] = w.fences[i].Shard
	}
	return all
}

// owned returns the owned shards. Goroutines other than the writer's may call it.
func (e *Engine) owned() []dag.ShardID { return *e.holding.Load() }

// Owns reports whether a shard is owned now. Another node may own it a moment later.
func (e *Engine) Owns(s dag.ShardID) bool { return slices.Contains(e.owned(), s) }

// fenced returns the fences of the shards that a batch writes to, in order. If a batch contains only
// requests, the fences may be of any shards.
func (w *writer) fenced(b *store.Batch) []store.Fence {
	if len(w.fences) <= 1 {
		return slices.Clone(w.fences)
	}
	use := map[dag.ShardID]bool{}
	for _, r := range w.tx.touched {
		use[r.Shard] = true
	}
	for i := range b.RunUpdates {
		use[b.RunUpdates[i].Shard] = true
	}
	for _, s := range w.tx.addressed {
		use[s] = true
	}
	if w.tx.common || b.QueueChanges.Rows() > 0 {
		use[store.GateShard] = true
	}
	for _, list := range [...][]store.Workflow{b.WorkflowInserts, b.WorkflowUpdates} {
		for i := range list {
			use[list[i].Shard] = true
		}
	}
	for _, list := range [...][]store.Trigger{b.TriggerInserts, b.TriggerUpdates, b.TriggerDeletes} {
		for i := range list {
			use[list[i].Shard] = true
		}
	}
	for i := range b.Uses {
		use[b.Uses[i].Shard] = true
	}
	for i := range b.Stocks {
		use[b.Stocks[i].Shard] = true
	}
	for i := range b.Incidents {
		use[b.Incidents[i].Shard] = true
	}
	for _, list := range [...][]store.Backfill{b.BackfillInserts, b.BackfillUpdates} {
		for i := range list {
			use[list[i].Shard] = true
		}
	}
	var fences []store.Fence
	for _, f := range w.fences {
		if use[f.Shard] {
			fences = append(fences, f)
		}
	}
	if fences == nil {
		fences = append(fences, w.fences[0])
	}
	return fences
}

// Own sets the shards that this engine is to own. It releases owned shards that are not in the list. It takes
// and loads those shards of the list that are free. It returns the shards that it owns afterwards. Own may be
// called only on an engine with Peers.
func (e *Engine) Own(ctx context.Context, shards []dag.ShardID) ([]dag.ShardID, error) {
	if e.cfg.Peers == nil {
		return nil, errors.New("engine: this node is alone and owns every shard")
	}
	want := slices.Compact(slices.Sorted(slices.Values(shards)))
	return ask(ctx, e.writer.inbox, func(w *writer) ([]dag.ShardID, error) {
		err := w.change(ctx, want)
		return w.shards(), err
	})
}

// change releases shards and takes others. It runs between transactions.
func (w *writer) change(ctx context.Context, want []dag.ShardID) error {
	w.want = want
	w.defs.forget() // while a shard had another owner, that node may have changed its workflows
	w.schedule.triggers.forget()
	w.schedule.triggers.touched = nil
	var leave []store.Fence
	keep := w.fences[:0:0]
	for _, f := range w.fences {
		if slices.Contains(want, f.Shard) {
			keep = append(keep, f)
		} else {
			leave = append(leave, f)
		}
	}
	w.fences = keep
	w.announce()
	w.limits.forgetAdmission()
	w.alerts.forget()
	for _, f := range leave {
		w.abandonShard(f.Shard)
	}
	if len(leave) > 0 {
		if err := w.e.cluster.Release(ctx, leave); err != nil {
			return errkind.FromStore("give shards back", err) // the shards become free when this node is declared dead
		}
	}
	var take []dag.ShardID
	for _, s := range want {
		if w.held(s) == nil {
			take = append(take, s)
		}
	}
	if len(take) == 0 {
		return nil
	}
	got, err := w.e.cluster.Claim(ctx, w.e.me().ID, take)
	if err == nil {
		err = compared(ctx, w.e)
	}
	if errors.Is(err, errBack) {
		w.unsure = errors.Join(w.unsure, err)
	}
	if err != nil {
		return errkind.FromStore("take shards", err)
	}
	w.hold(got)
	if err := w.loadShards(ctx, got); err != nil {
		w.unsure = errors.Join(w.unsure, err) // the runs are loaded only in part, so all of them are loaded again
		return errkind.FromStore("load shards", err)
	}
	w.schedule.due.looked = w.schedule.due.looked.AddDate(-1, 0, 0) // triggers of the new shards may be due
	return nil
}

// hold adds acquired shards to the fences.
func (w *writer) hold(got []store.Acquired) {
	for _, a := range got {
		w.fences = append(w.fences, a.Fence)
		w.e.stats.loads.begin(a.Shard, w.e.host.Now())
		w.e.cfg.Past.Confirm([]store.Fence{a.Fence})
		w.schedule.due.watermark = max(w.schedule.due.watermark, a.Watermark)
		w.schedule.due.setClock(a.Now)
		w.clock.era = max(w.clock.era, a.Era())
		w.clock.floor = max(w.clock.floor, a.Floor())
		w.tx.now.Era, w.tx.now.Floor = w.clock.era, w.clock.floor // the transaction in flight gets the new era, too
	}
	sort.Slice(w.fences, func(i, j int) bool { return w.fences[i].Shard < w.fences[j].Shard })
	w.announce()
}

// announce publishes the owned shards to other goroutines.
func (w *writer) announce() {
	all := w.shards()
	was := w.e.holding.Swap(&all)
	w.e.directory.forget()
	if w.e.cfg.Declared != nil && !slices.Equal(*was, all) {
		w.e.cfg.Declared() // the set of sensors that this node must run has changed
	}
	w.e.noticed()
}

// abandonShard forgets everything about a shard. Running attempts of its runs continue, because the next
// owner sees that this handler is alive, and gets its reports.
func (w *writer) abandonShard(s dag.ShardID) {
	w.e.stats.loads.end(s)
	for id, r := range w.runs {
		if r.Shard == s {
			w.leave(id)
		}
	}
	w.schedule.triggers.forget()
	w.alerts.forget()
	w.defs.forget()
	maps.DeleteFunc(w.reading, func(_ int64, to dag.ShardID) bool { return to == s })
	for id, b := range w.schedule.backfills.known {
		if b.Shard == s {
			w.schedule.backfills.over = append(w.schedule.backfills.over, id)
			delete(w.schedule.backfills.open, id)
		}
	}
	w.schedule.backfills.retire()
}

// Bury marks as lost the attempts of handlers that are gone, because the cluster no longer lists them.
func (e *Engine) Bury(gone func(dag.HandlerID) bool) {
	_ = e.writer.inbox.put(item{op: func(w *writer) answer {
		for _, r := range sortedRuns(w.runs) {
			r.Held(func(a *dag.AttemptRow) {
				if a.Handler != w.e.me().ID && gone(a.Handler) {
					w.todo.push(lostItem(r.ID, a))
				}
			})
		}
		return answer{}
	}})
}

func lostItem(id dag.RunID, a *dag.AttemptRow) item {
	return item{run: id, ev: &dag.Event{Kind: dag.EvLost, Task: a.Task, Token: a.Token, Handler: a.Handler, Reason: "its node ended"}}
}

// Reborn continues this process under a new handler, because the other nodes declared the old one dead. The
// process owns no shard afterwards. Its attempts are killed, and the fence refuses their reports.
func (e *Engine) Reborn(ctx context.Context) (store.Handler, error) {
	h, err := e.store.Register(ctx, e.host.ID().String(), e.cfg.Node)
	if err != nil {
		return h, errkind.FromStore("register this process under a new handler", err)
	}
	_, err = e.writer.inbox.send(ctx, item{ask: func(w *writer) error {
		for _, s := range w.shards() {
			w.e.stats.loads.end(s)
		}
		w.want, w.fences = nil, nil
		w.announce()
		w.forget()
		e.handler.Store(&h)
		if e.cfg.Market != nil {
			e.cfg.Market.Reset()
		}
		var kills []dag.Cancel
		for _, k := range e.slots.attempts() {
			kills = append(kills, dag.Cancel{Run: k.Run, Task: dag.TaskID(k.Task), Token: k.Token, Handler: h.ID, Kill: true})
		}
		if len(kills) > 0 {
			e.cfg.Executor.Cancel(kills)
		}
		return nil
	}})
	return h, err
}

// Meet takes up the runs that other programs or nodes have inserted as submitted, and reads the messages of
// other shards. On an engine that is alone, it only repeats the requests about attempts of an older era.
func (e *Engine) Meet(ctx context.Context) error {
	if e.cluster == nil && e.holders == nil {
		return nil
	}
	_, err := e.writer.inbox.send(ctx, item{ask: func(w *writer) error {
		if len(w.fences) == 0 {
			return nil
		}
		if e.cluster == nil {
			w.abroad.ask(w)
			return nil
		}
		ids, err := e.cluster.Submitted(ctx, w.shards(), loadPage)
		if err != nil {
			return errkind.FromStore("look for submitted runs", err)
		}
		ids = slices.DeleteFunc(ids, func(id dag.RunID) bool { return w.runs[id] != nil || w.bad[id] != "" })
		if err := w.reload(ctx, ids); err != nil {
			w.unsure = errors.Join(w.unsure, err)
			return errkind.FromStore("load submitted runs", err)
		}
		w.abroad.ask(w)
		return w.collect(ctx)
	}})
	return err
}

// moved handles an event of a run that is not in memory. Another node may own the run now. If the store does
// not answer, the peers deliver the report to the owner.
func (w *writer) moved(it *item) error {
	row, err := w.e.store.Run(context.Background(), it.run)
	away := errors.Is(err, store.ErrUnavailable)
	if !away && (err != nil || row.State.Terminal() || w.held(row.Shard) != nil) {
		return nil // the run has ended or is damaged, so the caller gets the ordinary answer
	}
	if ev := it.ev; it.done == nil && ev.Handler == w.e.me().ID && (ev.Kind == dag.EvReport || ev.Kind == dag.EvStarted || ev.Kind == dag.EvLost) {
		if ev.Kind != dag.EvStarted {
			w.carried.add(dag.KeyOf(it.run, ev.Task, ev.Token))
		}
		w.e.cfg.Peers.Report(Report{Run: it.run, Task: ev.Task, Token: ev.Token, Result: ev.Result, Started: ev.At, Handle: ev.Handle,
			Adopts: ev.Adopts, Lost: ev.Reason})
	}
	if away {
		return errkind.FromStore("look for the run", err)
	}
	return &errkind.Elsewhere{Shard: row.Shard}
}

// Hear takes a report about an attempt of another handler and waits until it is durable. A verdict other than
// Accepted and Duplicate tells the holder that it no longer holds the attempt.
func (e *Engine) Hear(ctx context.Context, from dag.HandlerID, r Report) (dag.Verdict, error) {
	a, err := e.writer.inbox.send(ctx, e.reported(from, r)[0])
	return a.verdict, err
}

// HearAll is like Hear for several reports at once, but does not wait. It calls heard once for each report,
// with the report's index, on the writer's goroutine. heard must not block. If HearAll returns an error, it
// does not call heard.
func (e *Engine) HearAll(from dag.HandlerID, rs []Report, heard func(i int, v dag.Verdict, err error)) error {
	items := e.reported(from, rs...)
	for i := range items {
		items[i].done = func(a answer) { heard(i, a.verdict, a.err) }
	}
	return e.writer.inbox.put(items...)
}
