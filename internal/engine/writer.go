package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

const (
	// batchRowsMax bounds the rows of a transaction. An item is never split.
	batchRowsMax = 4000
	// rowsPerItem is the assumed number of rows of an item, until the real number is known.
	rowsPerItem = 2
	// takeMax bounds the items of a transaction. They fill at most three quarters of its rows. The last
	// quarter is for filling free slots, so that a flood of items does not delay ready tasks.
	takeMax = batchRowsMax * 3 / 4 / rowsPerItem
	// grantRowsMax is the number of rows up to which a transaction grants queue slots. Items fill at most
	// three quarters of the rows of a transaction, so a flood of items does not keep queued runs waiting.
	grantRowsMax = batchRowsMax * 7 / 8
)

// writer is the only writer of its shards. It is one goroutine, which writes one transaction at a time. All
// fields belong to this goroutine. Invariant: memory is a cache. After a commit, if flying is nil, the map
// runs equals the result of dag.Load for the rows of the owned shards, except for two kinds of runs: those in
// bad, and queued runs that are set aside (aside.go).
type writer struct {
	e     *Engine
	inbox *inbox
	todo  fifo // work that a load has found
	// kept holds the items that were taken from the inbox and are not in a committed transaction yet. Invariant:
	// an item is answered without an error only after its commit.
	kept []item
	base []item // the array of kept

	clock clock
	// fences are the owned shards in order, as the last commit left them. Invariant: a shard without a fence
	// here is not written.
	fences []store.Fence
	want   []dag.ShardID // the shards to own
	runs   map[dag.RunID]*dag.Run
	// bad holds the runs that are quarantined for this ownership: their rows cannot be read. Invariant: a run is
	// in at most one of runs and bad, so one bad run stops no other run.
	bad    map[dag.RunID]string
	blamed dag.RunID // the run that the store named in its last refusal
	queue  dag.Board
	timers timers
	defs   definitions

	limits   limits
	schedule schedule
	alerts   alerts
	quotas   quotas
	spaces   spaces
	// messages that wait for a transaction, and messages that cannot be processed, with their shards
	reading map[int64]dag.ShardID
	abroad  abroad
	marks   []store.Fence       // the buffer of the method confirmed
	telling map[int64]dag.RunID // message id → the last run to whose history the entry was added; see tellBack

	leading map[dag.AttemptKey]bool // Leader work that other goroutines are doing
	carried carried
	calls   calls
	// The conditions that other goroutines evaluate.
	evaluating evaluating

	tx    *transaction
	spare *transaction // an empty transaction for reuse; nil while one is in flight: see ahead.go
	// flying is the transaction that is being written while the next one is made. It is nil if there is none.
	// Invariant: tx is sent to the store only after flying has committed. If flying fails, fold drops tx.
	flying *transaction
	asks   []store.RunKey // the buffer of lookForKeys
	// itemsMax bounds the items of a transaction. It is halved when a transaction is refused for its content,
	// and doubled when one commits. See halve.go.
	itemsMax int
	// unsure is set while the seq of the shards is unknown. In this state nothing may be written until the
	// shards are taken again.
	unsure error

	ctx context.Context // the context of run; when it ends, lead stops
	wg  *sync.WaitGroup
	// pause is the delay before the shards are taken again. A commit resets it.
	pause time.Duration
}

// transaction is one transaction that the writer makes. Nothing in it has an effect until it has committed.
type transaction struct {
	side    int    // index of this one of the two transactions: 0 or 1
	serial  uint64 // rises each time the struct is used for a new transaction
	batch   store.Batch
	fx      dag.Effects
	now     dag.Now
	due     dag.Micros // instants up to this time are due
	touched []*dag.Run
	ended   []*dag.Run   // the runs of touched that ended in this transaction
	current *dag.Run     // the run being stepped; if it is set after a panic, this run is incomplete
	assigns []Assignment // attempts to dispatch
	splits  []Assignment // Leader work to dispatch
	answers []answer     // answer to each item
	keys    map[keyOf]*dag.Run
	looked  map[keyOf]*dag.Header       // key → the run in the store; nil if there is none
	written map[store.TriggerKey]bool   // triggers whose row is in the batch
	lines   map[store.TriggerKey]lineAt // trigger → its newest ledger line, if the batch has it
	filled  map[int64]bool              // backfills whose row is in the batch
	// incidents are the indexes of incidents in the batch.
	incidents map[uuid.UUID]int
	// timed says that the batch has an incident of a rule about the times of runs. Such rules read incidents
	// from the store.
	timed bool
	// letters are the messages that the transaction sends to shards of other nodes. addressed are the shards
	// whose messages the transaction processes, or to which it sends a message within this node.
	letters   map[dag.ShardID][]letter
	addressed []dag.ShardID
	common    bool // the transaction reads or changes queues or locks of all shards
	// declared says that the declaration of a trigger has changed, and not only its progress.
	declared    bool
	evaluated   time.Duration // the time that it has spent on evaluating expressions
	evaluations int           // the number of expressions that it has evaluated
	shown       int           // answers that contain the state of their run
	rows        int           // the estimated number of rows of the batch
	tried       int           // the number of items and assignments that were begun
	tally       tally
	draft       draft       // changes of the metrics
	recount     recount     // the changes of the counts for quotas of namespaces
	rowsOf      []shardRows // the rows by shard
	staged      bool        // the store already has the batch. Invariant: the batch does not change after that
	// The transaction that was made while this one was in flight, and is not written yet; nil if there is
	// none.
	next *transaction
}

// tally holds the amounts that are added to the counters when the transaction commits.
type tally struct {
	accepted, ended, attemptsEnded, rejected, lost, repaired, revived int64
	faults                                                            [faults]int64
}

// newTransaction makes one of the two transactions of a writer; side is its index.
func newTransaction(side int) *transaction {
	return &transaction{
		side: side, serial: 1, keys: map[keyOf]*dag.Run{}, written: map[store.TriggerKey]bool{}, lines: map[store.TriggerKey]lineAt{},
		filled: map[int64]bool{}, incidents: map[uuid.UUID]int{}, letters: map[dag.ShardID][]letter{}, draft: newDraft(), recount: recount{before: map[*use]store.NamespaceUse{}, kept: -1},
	}
}

// mark adds a run to the touched runs of the transaction. It reports whether the run was not among them.
func (t *transaction) mark(r *dag.Run) bool {
	if t.touches(r) {
		return false
	}
	r.Marks[t.side] = t.serial
	return true
}

func (t *transaction) touches(r *dag.Run) bool { return r.Marks[t.side] == t.serial }

// reset empties the transaction, but keeps the memory of its arrays.
func (t *transaction) reset() {
	t.batch.Reset()
	t.fx.Reset()
	clear(t.touched)
	clear(t.assigns)
	clear(t.splits)
	clear(t.answers)
	clear(t.keys)
	clear(t.looked)
	clear(t.written)
	clear(t.lines)
	clear(t.filled)
	clear(t.incidents)
	t.timed = false
	clear(t.letters)
	t.addressed = t.addressed[:0]
	clear(t.ended)
	t.ended, t.declared, t.common = t.ended[:0], false, false
	t.touched, t.assigns, t.splits, t.answers = t.touched[:0], t.assigns[:0], t.splits[:0], t.answers[:0]
	t.serial++
	t.draft.reset()
	t.recount.reset()
	t.rowsOf = t.rowsOf[:0]
	t.current, t.rows, t.tried, t.tally, t.staged, t.next, t.evaluated, t.evaluations, t.shown = nil, 0, 0, tally{}, false, nil, 0, 0, 0
}

func newWriter(e *Engine) *writer {
	w := &writer{e: e, inbox: newInbox(e.host, e.pulse, e.cfg.SubmitMax), itemsMax: batchRowsMax, leading: map[dag.AttemptKey]bool{}, carried: carried{e.cfg.Peers, map[dag.AttemptKey]bool{}}}
	w.tx, w.spare, w.reading = newTransaction(0), newTransaction(1), map[int64]dag.ShardID{}
	w.tx.fx.Evaluate, w.spare.fx.Evaluate = w.evaluating.evaluate, w.evaluating.evaluate
	w.queue.Ageing = e.cfg.Ageing
	w.defs.set(e, w)
	w.spaces = spaces{known: &e.quotas, store: e.store, defs: &w.defs}
	w.quotas = quotas{known: &e.quotas, store: e.store, defs: &w.defs, all: e.shards, poke: w.inbox.poke, core: w}
	w.limits, w.schedule, w.calls, w.alerts = newLimits(e, w), newSchedule(e, w), newCalls(e, w), newAlerts(e, w)
	w.evaluating.set(e, w)
	w.clock.read, w.schedule.due.read = e.host.Now, e.host.Now
	if e.cluster == nil {
		w.want = e.shards
	}
	w.forget()
	return w
}

// forget drops everything that is only a cache.
func (w *writer) forget() {
	w.runs = map[dag.RunID]*dag.Run{}
	w.bad, w.blamed = map[dag.RunID]string{}, dag.RunID{}
	w.queue = dag.Board{Ageing: w.queue.Ageing}
	w.timers = timers{}
	w.defs.forget()
	w.limits.forget()
	w.abroad.forget()
	w.schedule.forget()
	w.alerts.forget()
	w.quotas.forget()
	clear(w.reading)
	w.telling = map[int64]dag.RunID{}
	w.todo = fifo{}
	w.evaluating.dropAll()
	w.unsure = nil
	w.tx.reset()
}

func (w *writer) run(ctx context.Context, wg *sync.WaitGroup) error {
	w.ctx, w.wg = ctx, wg
	defer w.abandon()
	taken, err := w.own(ctx)
	if err != nil || taken == nil {
		return err
	}
	close(w.e.ready)
	defer w.e.pulse.end()
	for ctx.Err() == nil {
		w.e.pulse.beat()
		if err := w.transact(ctx); err != nil {
			return err
		}
		w.look(ctx)
		if !w.busy() {
			w.e.pulse.rest()
			w.e.host.Await(ctx, w.inbox.wake, w.wait())
		}
	}
	return nil
}

// wait bounds the sleep of the writer until something wakes it.
func (w *writer) wait() time.Duration {
	wait := min(w.timers.wait(w.clock.mono()), w.alerts.wait())
	switch {
	case w.e.cfg.Planner == nil:
	case w.schedule.byHand():
		wait = min(wait, dueLook) // makes sure that ByHand is called again soon
	default:
		wait = min(wait, w.schedule.due.wait())
	}
	if at := w.limits.admission.Wake(); at != 0 {
		wait = min(wait, max(time.Duration(at-w.clock.now().Wall)*time.Microsecond, 0))
	}
	return wait
}

// abandon answers the items that this process will not write.
func (w *writer) abandon() {
	not := fmt.Errorf("%w: the node stopped before the change was written", errkind.ErrUnavailable)
	w.inbox.close(not)
	for i := range w.kept {
		err := not
		if w.kept[i].again {
			err = fmt.Errorf("%w: the node stopped before it knew whether the change was written", errkind.ErrUnavailable)
		}
		w.kept[i].reply(answer{run: w.kept[i].run, err: err})
	}
	w.drop(len(w.kept))
}

// busy reports whether the writer has work that need not wait for another process.
func (w *writer) busy() bool {
	return len(w.kept) > 0 || w.todo.len() > 0 || w.inbox.len() > 0 || w.timers.due(w.clock.mono()) || w.alerts.due() ||
		w.queue.Some(w.e.slots.open) || len(w.schedule.backfills.open) > 0 || w.limits.busy(w.clock.now().Wall) || w.quotas.waits()
}

// transact makes one transaction from the waiting work, and carries it out.
func (w *writer) transact(ctx context.Context) error {
	w.e.stats.loads.began = w.e.host.Now()
	if len(w.kept) == 0 {
		w.take()
	}
	n, err := w.make(ctx, w.kept)
	if err == nil {
		if f := w.depart(w.kept[:n]); f != nil {
			return w.fly(ctx, f)
		}
		err = w.commit(ctx)
	}
	if err != nil {
		return w.failed(ctx, n, err)
	}
	w.settle(n)
	return nil
}

// take collects the items of the next transaction. Each source first gets a part of the capacity. Then the
// first source gets the rest. So a flood from one source does not starve the others. New items follow the
// kept items.
func (w *writer) take() {
	w.e.stats.loads.arrived = w.inbox.oldest()
	w.kept = append(w.base[:0], w.kept...)
	until := len(w.kept) + takeMax
	for _, most := range [...]int{takeMax / 4, takeMax} {
		w.kept = w.dueTimers(w.kept, min(most, until-len(w.kept)))
		w.kept = w.alerts.dueItems(w.kept, min(most, until-len(w.kept)))
		w.kept = w.todo.move(w.kept, min(most, until-len(w.kept)))
		w.kept = w.inbox.takeEvents(w.kept, min(most, until-len(w.kept)))
		w.kept = w.inbox.takeCalls(w.kept, min(most, until-len(w.kept)))
	}
	w.base = w.kept[:0]
	w.inbox.begun()
}

// make applies as many items as fit and fills free slots. It returns the number of items that it applied.
func (w *writer) make(ctx context.Context, items []item) (n int, err error) {
	w.tx.now, w.tx.due = w.clock.now(), w.schedule.due.now()
	if err := w.limits.loadAdmission(ctx); err != nil {
		return 0, err
	}
	if err := w.limits.fillWindows(ctx); err != nil {
		return 0, err
	}
	if err := w.alerts.load(ctx); err != nil {
		return 0, err
	}
	if w.flying == nil { // the store does not have the runs of a transaction that is still in flight
		w.alerts.settled()
		if err := w.quotas.load(ctx); err != nil {
			return 0, err
		}
	}
	if err := rehouse(w); err != nil {
		return 0, err
	}
	w.limits.admission.Begin()
	w.lookForKeys(items[:min(len(items), w.itemsMax, takeMax)])
	err = errkind.Guarded(func() {
		for n < len(items) && n < w.itemsMax && w.tx.rows < takeMax*rowsPerItem && (n == 0 || !w.evaluating.full()) {
			if (items[n].ask != nil || !w.quotas.fresh()) && n > 0 {
				break // runs must be counted first, or the item must be the first of its transaction
			}
			if w.endedNow(&items[n]) {
				break
			}
			n++
			w.tx.tried++
			w.apply(&items[n-1])
			if items[n-1].ask == nil {
				continue
			}
			// the item may have changed the set of owned shards
			if err := errors.Join(w.limits.loadAdmission(ctx), w.alerts.load(ctx)); err != nil {
				w.unsure = errors.Join(w.unsure, err)
				return
			}
			w.lookForKeys(items[n:min(len(items), w.itemsMax, takeMax)]) // the item may have taken a shard
		}
		w.follow()
		w.fill(w.itemsMax - n)
		if err := w.alerts.begun(); err != nil {
			w.broken(err)
			return
		}
		w.flush()
		w.quotas.flush(&w.tx.batch)
		w.post()
	})
	if err == nil {
		err = w.unsure
	}
	return n, err
}

func (w *writer) flush() {
	for _, r := range w.tx.touched {
		c := &w.tx.batch.Changes
		n, inserts, updates, runs, rows := len(c.Events), len(c.AttemptInserts), len(c.AttemptUpdates), len(c.RunUpdates), c.Rows()
		began := len(c.RunInserts)
		r.Flush(c, w.tx.now.Wall)
		// the run had ended before, and only an errand of the run has ended now
		late := len(c.RunInserts)+len(c.RunUpdates) == began+runs && !r.Unfinished()
		if !late {
			w.tx.draft.flushed(r, c, inserts, updates, runs)
		}
		w.tx.work(r.Shard, c.Rows()-rows)
		if f := w.held(r.Shard); f != nil && len(w.tx.batch.Events) > n {
			w.tx.batch.Events[n].Seq = f.Seq + 1 // the number that the store will give to the event
		}
		if !r.Unfinished() && !late {
			w.tx.tally.ended++
		}
	}
	if w.tx.shown > 0 {
		w.show()
	}
}

// show completes the answers to callers that want to see the run that they started.
func (w *writer) show() {
	inserts, at := w.tx.batch.RunInserts, 0
	for i := range w.tx.answers {
		a := &w.tx.answers[i]
		if a.view == nil {
			continue
		}
		for at < len(inserts) && inserts[at].ID != a.run { // inserts and answers are in the order of the items
			at++
		}
		if at == len(inserts) {
			a.view, at = nil, 0
			continue
		}
		a.view.RunRow, a.view.Modified = inserts[at], w.tx.now.Wall
		a.view.Counts = w.runs[a.run].Counts()
	}
}

// commit writes the transaction, unless it is empty.
func (w *writer) commit(ctx context.Context) error {
	rows := w.tx.batch.Rows()
	if rows == 0 {
		return nil
	}
	began := w.e.host.Now()
	if err := w.write(ctx, &w.tx.batch); err != nil {
		return err
	}
	w.e.stats.count(rows, w.e.host.Now().Sub(began))
	return nil
}

// write commits a batch under its fences.
func (w *writer) write(ctx context.Context, b *store.Batch) error {
	b.Fences = w.fenced(b)
	wall, err := w.e.store.Commit(context.WithoutCancel(ctx), b)
	if err != nil {
		return err
	}
	for _, f := range b.Fences {
		w.held(f.Shard).Seq++
	}
	w.confirmed(b)
	w.schedule.due.watermark = max(w.schedule.due.watermark, b.Watermark)
	w.committed(wall)
	return nil
}

// committed processes a transaction that committed at the time wall of the store's clock.
func (w *writer) committed(wall dag.Micros) {
	w.clock.set(wall)
	w.schedule.due.setClock(wall)
	w.pause = 0
	w.e.stats.Commits.Add(1)
}

// settle releases the effects of a committed transaction with n items. It sends assignments before it answers
// callers, because assignments take longer. It is not related to dag/settle.go, which ends tasks.
func (w *writer) settle(n int) {
	w.retire()
	w.standAside()
	if b := &w.tx.batch; len(b.WorkflowInserts)+len(b.WorkflowUpdates) > 0 {
		w.e.directory.forget()
	}
	abroad := w.e.slots.send(w.tx.assigns)
	for i := range w.tx.splits {
		w.lead(w.tx.splits[i])
	}
	if len(w.tx.fx.Cancels) > 0 {
		w.e.slots.cancel(w.tx.fx.Cancels)
	}
	w.arm(&w.tx.fx)
	for i := range n {
		w.kept[i].reply(w.tx.answers[i])
	}
	if abroad {
		w.e.cfg.Market.Settled()
	}
	tellEnds(w, &w.tx.batch) // this comes before the events, because a caller that learns of an end may ask for the counts
	if len(w.tx.batch.Events) > 0 {
		w.e.hub.publish(w.tx.batch.Events)
	}
	for _, id := range w.tx.batch.Consumed {
		delete(w.reading, id)
	}
	w.announceMail()
	if w.tx.declared && w.e.cfg.Declared != nil {
		w.e.cfg.Declared()
	}
	if len(w.tx.batch.Notices) > 0 {
		w.e.noticed()
	}
	w.e.stats.add(&w.tx.tally, len(w.tx.assigns))
	now := w.e.host.Now()
	w.e.stats.meter.take(&w.tx.draft, now)
	w.e.stats.loads.take(w.tx, now, w.e.pulse.now())
	w.alert(w.tx.fx.Poisoned)
	tellOrphans(w.e, w.tx.fx.Orphans)
	w.drop(n)
	w.quotas.full = nil
	w.tx.reset()
	w.e.slots.demand(&w.queue, func() dag.Micros { return w.clock.now().Wall })
	w.e.pulse.beat()
	w.defs.trim()
	w.schedule.triggers.trim()
	w.schedule.backfills.retire()
	w.itemsMax = min(2*w.itemsMax, batchRowsMax)
	w.e.stats.ActiveRuns.Store(int64(len(w.runs) + w.limits.aside))
	w.e.stats.ReadyTasks.Store(int64(w.queue.Len()))
	w.e.stats.InboxItems.Store(int64(w.inbox.len() + len(w.kept)))
}

// drop removes n answered items from the kept ones.
func (w *writer) drop(n int) {
	clear(w.kept[:n])
	w.kept = w.kept[n:]
}

// retire removes ended runs from memory. Their rows contain everything.
func (w *writer) retire() {
	for _, r := range w.tx.touched {
		if !r.Unfinished() {
			w.queue.Remove(r)
			delete(w.runs, r.ID)
			w.evaluating.drop(r.ID)
		}
	}
}
