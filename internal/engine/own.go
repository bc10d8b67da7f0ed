package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

const (
	// loadPage is the number of runs that one read of a reload returns.
	loadPage = 1000
	// ownPauseMin is the first pause between two tries to take the shards.
	ownPauseMin = 10 * time.Millisecond
	// ownPauseMax bounds the pause between two tries to take the shards.
	ownPauseMax = 2 * time.Second
)

// taken holds the shards as they were after the first successful try to take them again. The results of later
// tries are not used. An earlier try may have written something, such as a quarantine, which could then be
// mistaken for the transaction in doubt.
type taken struct {
	shards []store.Acquired
	tries  int64 // the number of tries; any of them but the last may have committed a write
}

// own takes the shards and loads them. It tries again until it succeeds or ctx ends. When ctx ends, it
// returns nil. It returns an error only if another try cannot help.
func (w *writer) own(ctx context.Context) (*taken, error) {
	var first *taken
	for tries := int64(1); ; tries++ {
		w.forget()
		if !w.breathe(ctx) {
			return nil, nil
		}
		got, err := w.acquire(ctx)
		if err == nil && first == nil {
			first = &taken{got, tries}
		}
		if err == nil {
			err = w.loadShards(ctx, got)
		}
		switch {
		case err == nil:
			endHeld(w)
			w.e.setState(StateRunning)
			return first, nil
		case ctx.Err() != nil:
			return nil, nil
		case hopeless(err):
			return nil, errkind.FromStore("take the shards", err)
		}
		w.e.setState("retaking its shards: " + err.Error())
		w.e.log.Warn("the node cannot take its shards yet; it tries again", "code", "shards_not_taken", "err", err)
		w.refuse(err)
	}
}

// breathe pauses before the shards are taken again. There is no pause after a successful commit, and each
// further pause is twice as long as the last. Without pauses, a store that allows the acquisition of shards
// but no other writes would be asked in a hot loop. breathe returns false if ctx has ended.
func (w *writer) breathe(ctx context.Context) bool {
	pause := w.pause
	w.pause = min(max(2*pause, ownPauseMin), ownPauseMax)
	if pause == 0 {
		return ctx.Err() == nil
	}
	w.e.host.Await(ctx, nil, pause)
	return ctx.Err() == nil
}

func (w *writer) acquire(ctx context.Context) ([]store.Acquired, error) {
	w.fences = nil
	var got []store.Acquired
	var err error
	if w.e.cluster == nil {
		got, err = w.e.store.Acquire(ctx, w.e.me().ID, w.want)
	} else { // shards that another node has taken meanwhile stay with that node
		got, err = w.claim(ctx)
	}
	if err == nil {
		err = compared(ctx, w.e)
	}
	if err != nil {
		return nil, err
	}
	for _, a := range got {
		w.clock.start(a.Now)
	}
	w.hold(got)
	return got, nil
}

// claim takes those of the wanted shards that are free. There may be none.
func (w *writer) claim(ctx context.Context) ([]store.Acquired, error) {
	now, err := w.e.store.Clock(ctx)
	if err != nil {
		return nil, err
	}
	w.clock.start(now)
	w.schedule.due.setClock(now)
	if len(w.want) == 0 {
		return nil, nil
	}
	return w.e.cluster.Claim(ctx, w.e.me().ID, w.want)
}

// alive reports whether a handler is listed as another member. The attempts of a listed handler are not lost.
func (e *Engine) alive(h dag.HandlerID) bool { return e.holders != nil && e.holders.Alive(h) }

// found holds the results of a load, apart from the runs.
type found struct {
	fx   dag.Effects
	lost []dag.AttemptRow // held by earlier handlers of this node, or by this handler in an earlier process
	mine []Assignment     // held by this handler according to the rows, but not by this process
	away []Assignment     // held by other listed handlers, which may not have received these attempts
}

// loadShards loads every unfinished run of the given shards. An attempt is lost if its handler is no longer
// listed, if it is Leader work of another handler, or if an earlier process of this node had it and this one
// has not taken it over. The processes that lost attempts left running on this machine are killed before the
// tasks get new attempts.
func (w *writer) loadShards(ctx context.Context, got []store.Acquired) error {
	var f found
	if err := w.defs.findSystem(ctx); err != nil {
		return err
	}
	// The history of the runs must say that the database has gone back, before they end. A node that is alone
	// sends itself the starts of errands.
	if w.clock.floor > 0 || w.e.cluster == nil {
		if err := w.collect(ctx); err != nil {
			return err
		}
	}
	for i := range got {
		var after dag.RunID
		for {
			page, err := w.e.store.Load(ctx, store.LoadQuery{Shard: got[i].Shard, After: after, Limit: loadPage, Moving: true})
			if err != nil {
				return err
			}
			for i := range page {
				after = page[i].Run.ID
				if err := w.adopt(&page[i], &f); err != nil {
					return err
				}
			}
			if len(page) < loadPage {
				break
			}
		}
	}
	w.e.stats.ActiveRuns.Store(int64(len(w.runs)))
	if err := w.schedule.loadBackfills(ctx); err != nil {
		return err
	}
	return w.takeOver(ctx, &f)
}

// reload loads the given runs from their rows. None of these runs may be in memory.
func (w *writer) reload(ctx context.Context, ids []dag.RunID) error {
	if len(ids) == 0 {
		return nil
	}
	page, err := w.e.store.Load(ctx, store.LoadQuery{IDs: ids})
	if err != nil {
		return err
	}
	var f found
	for i := range page {
		if page[i].Bad == nil && page[i].Run.State.Terminal() {
			continue
		}
		if err := w.adopt(&page[i], &f); err != nil {
			return err
		}
	}
	return w.takeOver(ctx, &f)
}

// adopt makes a run from its rows. If the rows are invalid, it quarantines the run and returns nil. An error
// comes from the store.
func (w *writer) adopt(rec *store.RunRecord, f *found) error {
	r, err := w.takeUp(rec, f)
	if r != nil {
		w.rouse(r)
	}
	return err
}

// takeUp does the same as adopt, but does not step the run. It returns nil if the run is in quarantine.
func (w *writer) takeUp(rec *store.RunRecord, f *found) (*dag.Run, error) {
	r, err := w.revived(rec, &f.fx)
	if errors.Is(err, errkind.ErrUnavailable) {
		return nil, err
	}
	if err != nil {
		for _, a := range rec.Attempts { // includes processes of earlier handlers, which are killed
			if !a.State.Ended() && a.Handler != 0 && a.Handler != w.e.me().ID && !w.e.alive(a.Handler) {
				f.lost = append(f.lost, a)
			}
		}
		return nil, bury(w, rec, err)
	}
	w.runs[r.ID] = r
	w.limits.count(r)
	w.alerts.expect(r)
	r.Held(func(a *dag.AttemptRow) {
		k := dag.KeyOf(r.ID, a.Task, a.Token)
		switch {
		case ofOldEra(w, a):
			endOld(w, r, a, f)
		// The handler lives and will report.
		case a.Handler != w.e.me().ID && a.Task != dag.LeaderTask && w.e.alive(a.Handler):
			w.others(r, a, w.e.slots.isWorker(a.Handler), f)
		case a.Handler != w.e.me().ID: // only the owner does Leader work, so the Leader work of another handler is lost
			f.lost = append(f.lost, *a)
		case a.Task == dag.LeaderTask:
			f.mine = append(f.mine, assignment(r, a))
		// the attempt runs here, or its end has been reported or will be
		case w.e.cfg.Executor.Running(r.ID, a.Task, a.Token) || w.carried.has(k):
		case w.e.slots.has(k):
			f.mine = append(f.mine, assignment(r, a))
		default: // an earlier process assigned the attempt, and this process has not taken it over
			f.lost = append(f.lost, *a)
		}
	})
	return r, nil
}

// others collects the attempts that other present members hold.
func (w *writer) others(r *dag.Run, a *dag.AttemptRow, worker bool, f *found) {
	if worker {
		f.away = append(f.away, assignment(r, a))
	} else {
		w.abroad.add(r.ID)
	}
}

// certain reads the list of members again, and removes from the lost attempts those whose holder is listed
// now. The list in memory may be too old: for example, after a freeze this node may not know yet that such a
// holder has joined.
func (w *writer) certain(ctx context.Context, f *found) error {
	doubted := func(a dag.AttemptRow) bool { return a.Handler != w.e.me().ID && a.Task != dag.LeaderTask }
	if w.e.cluster == nil || !slices.ContainsFunc(f.lost, doubted) {
		return nil
	}
	members, _, err := w.e.cluster.Members(ctx)
	if err != nil {
		return fmt.Errorf("list the members: %w", err)
	}
	f.lost = slices.DeleteFunc(f.lost, func(a dag.AttemptRow) bool {
		i := slices.IndexFunc(members, func(m store.Member) bool { return m.Handler == a.Handler })
		if i < 0 || !doubted(a) {
			return false
		}
		if r := w.runs[a.Run]; r != nil {
			w.others(r, &a, members[i].Worker, f)
		}
		return true
	})
	return nil
}

// rouse makes a loaded run continue.
func (w *writer) rouse(r *dag.Run) {
	if len(r.NewShares()) > 0 { // the transaction in which the tasks became ready had no time left for evaluations
		keysLater(&w.limits, r)
	}
	stuck := r.Active() == 0 && (r.Unsettled() == 0 || r.Intent != dag.IntentRun) || r.Stirs()
	switch {
	case r.State == dag.RunSubmitted, r.State == dag.RunSplitting, stuck:
		w.nudge(r)
	default:
		w.queue.Update(r)
	}
}

// nudge moves a run that no other event would move. Such a run was inserted as submitted, its Leader work was
// never assigned, or its end was not written.
func (w *writer) nudge(r *dag.Run) {
	ev := dag.Event{Kind: dag.EvCheck}
	if r.State == dag.RunSubmitted {
		ev = dag.Event{Kind: dag.EvSubmit, Handler: w.e.me().ID, Graph: w.e.graphs.Peek(r.Workflow, r.Version)}
	}
	w.todo.push(item{run: r.ID, ev: &ev})
}

func (w *writer) revived(rec *store.RunRecord, fx *dag.Effects) (r *dag.Run, err error) {
	if rec.Bad != nil {
		return nil, rec.Bad
	}
	var g *dag.Graph
	if rec.Run.SplitAt != 0 {
		if g, err = w.e.graphs.Own(&rec.Run); err != nil {
			return nil, err
		}
	}
	if fx.Evaluate == nil {
		fx.Evaluate = w.evaluating.evaluate
	}
	if p := errkind.Guarded(func() { r, err = dag.Load(&rec.Run, g, rec.Attempts, w.clock.now(), fx) }); p != nil {
		return nil, p
	}
	if err == nil {
		err = w.spaces.house(r)
	}
	return r, err
}

// takeOver processes the results of a load. It sends the attempts of this process that the executor does not
// have again, under the same tokens. The attempts of earlier handlers are lost.
func (w *writer) takeOver(ctx context.Context, f *found) error {
	if err := w.certain(ctx, f); err != nil {
		return err
	}
	if len(f.lost) > 0 && w.e.cfg.Reap != nil {
		if err := w.e.cfg.Reap(ctx, f.lost); err != nil {
			return fmt.Errorf("end the processes that an earlier process of this node left running: %w", err)
		}
	}
	for i := range f.lost {
		a := &f.lost[i]
		it := lostItem(a.Run, a)
		if a.Handler == w.e.me().ID && a.Task != dag.LeaderTask {
			it.ev.Here, it.ev.Reason = true, "its node has not got it"
		}
		w.todo.push(it)
	}
	w.arm(&f.fx)
	for _, e := range f.fx.Errands { // the messages that start these errands may be lost
		w.todo.push(w.calls.again(e))
	}
	if len(f.fx.Cancels) > 0 {
		w.e.slots.cancel(f.fx.Cancels)
	}
	w.resend(f.mine)
	if len(f.away) > 0 && w.e.cfg.Market != nil {
		w.e.cfg.Market.Send(f.away)
	}
	return nil
}

// resend sends those attempts again that do not run and whose report is not being delivered.
func (w *writer) resend(mine []Assignment) {
	var start []Assignment
	for _, a := range w.unsent(mine) {
		if a.Task == dag.LeaderTask || a.Workflow == w.defs.system {
			w.lead(a)
			continue
		}
		w.e.slots.book(a.key())
		start = append(start, a)
	}
	for i := range mine { // the resources of the attempts are known only after the load
		if a := &mine[i]; a.Place != dag.Anywhere && w.e.slots.has(a.key()) {
			w.e.slots.room.book(a.key(), a.Place)
		}
	}
	if w.e.slots.send(start) {
		w.e.cfg.Market.Settled()
	}
}

// unsent returns the assignments that this node does not run and whose ends it has not reported.
func (w *writer) unsent(mine []Assignment) []Assignment {
	if len(mine) == 0 {
		return nil
	}
	told := w.told()
	return slices.DeleteFunc(slices.Clone(mine), func(a Assignment) bool {
		return told[a.key()] || w.carried.has(a.key()) || w.leading[a.key()]
	})
}

// told returns the attempts whose reports wait in the inbox.
func (w *writer) told() map[dag.AttemptKey]bool {
	told := map[dag.AttemptKey]bool{}
	see := func(it *item) {
		if it.kind() == dag.EvReport || it.kind() == dag.EvSplit {
			told[dag.KeyOf(it.run, it.ev.Task, it.ev.Token)] = true
		}
	}
	for i := range w.kept {
		see(&w.kept[i])
	}
	w.inbox.eachEvent(see)
	return told
}

// doubt holds the parts of a transaction that are needed until the shards are taken again, because the
// transaction may not have committed. Invariant: the transaction committed as a whole or not at all. It
// committed if the seq of each of its fences has risen by one and no other owner had the shards meanwhile
// (see happened).
type doubt struct {
	n       int  // the number of items of the transaction; they are the first items of kept
	unknown bool // the outcome of the transaction is unknown
	fences  []store.Fence
	answers []answer
	assigns []Assignment
	cancels []dag.Cancel
	events  []dag.EventRow
	tally   tally

	poisoned []dag.Poisoned
	orphans  []dag.Orphan
}

// failed handles a transaction of n items whose commit failed or has an unknown outcome.
func (w *writer) failed(ctx context.Context, n int, cause error) error {
	if errors.Is(cause, errkind.ErrPanic) || errors.Is(cause, store.ErrRefused) {
		return w.halve(ctx, n, cause)
	}
	if hopeless(cause) {
		return errkind.FromStore("write", cause)
	}
	return w.retake(ctx, n, cause)
}

// hopeless reports whether another try cannot help, because the database is damaged or a new process must
// open it.
func hopeless(err error) bool {
	return errors.Is(err, store.ErrFormat) || errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrLost)
}

// retake takes the shards again, and finds out whether the transaction committed.
func (w *writer) retake(ctx context.Context, n int, cause error) error {
	w.e.stats.Retaken.Add(1)
	w.e.log.Warn("the outcome of a transaction is unknown; the node takes the shards again", "code", "commit_unknown", "err", cause)
	w.e.setState("retaking its shards: " + cause.Error())
	d := doubt{unknown: errors.Is(cause, store.ErrUnknown) && w.unsure == nil, assigns: slices.Clone(w.tx.assigns)}
	if d.unknown {
		d.n, d.fences, d.tally = n, slices.Clone(w.tx.batch.Fences), w.tx.tally
		d.answers, d.cancels = slices.Clone(w.tx.answers), slices.Clone(w.tx.fx.Cancels)
		d.events, d.poisoned, d.orphans = slices.Clone(w.tx.batch.Events), slices.Clone(w.tx.fx.Poisoned), slices.Clone(w.tx.fx.Orphans)
		for i := range n {
			w.kept[i].again = true
		}
	}
	if errors.Is(cause, store.ErrUnavailable) {
		w.refuse(cause) // callers do not have to wait until the disk has space again
	}
	first, err := w.own(ctx)
	if err != nil || first == nil {
		return err
	}
	w.resolve(ctx, &d, first)
	w.unread()
	return nil
}

// resolve completes a transaction in doubt. If the transaction committed, resolve answers its items.
// Otherwise the items stay in kept and are applied again.
func (w *writer) resolve(ctx context.Context, d *doubt, first *taken) {
	if d.happened(ctx, w.e.store, first, w.e.me().ID) {
		w.e.stats.add(&d.tally, len(d.assigns))
		w.alert(d.poisoned)
		tellOrphans(w.e, d.orphans)
		if len(d.cancels) > 0 {
			w.e.slots.cancel(d.cancels)
		}
		for i := range d.n {
			w.kept[i].reply(d.answers[i])
		}
		if len(d.events) > 0 {
			w.e.hub.publish(d.events)
		}
		w.e.noticed() // the transaction may contain notices
		w.drop(d.n)
	}
	for i := range d.assigns { // assignments that were not written need no slot
		a := &d.assigns[i]
		r := w.runs[a.Run]
		if r != nil {
			if h, token, held := r.Holder(a.Task); held && h == a.Handler && token == a.Token {
				continue
			}
		}
		w.e.slots.unassign(a)
	}
}

// happened finds out from the shards' seq whether the transaction committed. If another owner has changed the
// shards in between, happened returns false. The items are then applied again, which is safe because they are
// recognised by token, id or key. happened also returns false if the era has risen because of a loss. If the
// era has risen without a loss, the fences at the end of the transaction's era decide.
func (d *doubt) happened(ctx context.Context, st store.Eras, first *taken, me dag.HandlerID) bool {
	if !d.unknown || len(d.answers) < d.n {
		return false
	}
	var ended []store.Fence // the fences of the shards at the end of the era
	for _, was := range d.fences {
		i := slices.IndexFunc(first.shards, func(a store.Acquired) bool { return a.Shard == was.Shard })
		if i < 0 {
			return false
		}
		is := &first.shards[i]
		if is.Seq != was.Seq+1 || is.Previous != me {
			return false
		}
		if is.Era() == was.Era() && is.Epoch-was.Epoch <= first.tries {
			continue
		}
		if is.Era() <= was.Era() || is.Floor() != was.Floor() || is.Takes() > first.tries {
			return false
		}
		if ended == nil {
			var err error
			if ended, err = st.EndOf(ctx, was.Era()); err != nil {
				return false
			}
		}
		if !slices.Contains(ended, store.Fence{Shard: was.Shard, Epoch: was.Epoch, Seq: was.Seq + 1}) {
			return false
		}
	}
	return len(d.fences) > 0
}

// refuse answers all waiting callers with an error, except those whose items may have been written. So no
// caller waits for a store that does not answer. Reports stay in the inbox.
func (w *writer) refuse(cause error) {
	err := errkind.FromStore("nothing was accepted", cause)
	if !errors.Is(err, errkind.ErrUnavailable) { // the store does answer, but this error also blocks the shards
		err = fmt.Errorf("%w: %w", errkind.ErrUnavailable, err)
	}
	rest := w.kept[:0]
	for i := range w.kept {
		it := &w.kept[i]
		if it.done == nil || it.again {
			rest = append(rest, *it)
			continue
		}
		it.reply(answer{run: it.run, err: err})
	}
	clear(w.kept[len(rest):])
	w.kept = rest
	w.inbox.refuse(err)
}
