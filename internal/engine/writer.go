package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

const (
	// batchRowsMax bounds a transaction, in rows; an item is never split.
	batchRowsMax = 4000
	// rowsPerItem is what an item is taken to write, before it is known.
	rowsPerItem = 2
	// takeMax is how many items a transaction takes: they leave a quarter of it to the
	// filling of free slots, so that no flood of items keeps ready tasks waiting.
	takeMax = batchRowsMax * 3 / 4 / rowsPerItem
	// grantRowsMax bounds the rows up to which a transaction grants queue slots, so that a flood of items does
	// not keep queued runs waiting.
	grantRowsMax = batchRowsMax * 7 / 8
)

// writer is the only one who writes for its shards: one goroutine, one transaction at a
// time. All its fields are its goroutine's.
type writer struct {
	e     *Engine
	inbox *inbox
	todo  fifo   // what a load found to be done
	kept  []item // taken, not yet in a committed transaction
	base  []item // the array behind kept

	clock  clock
	fences []store.Fence // the owned shards, as the last commit left them, in order
	want   []dag.ShardID // the shards to own
	runs   map[dag.RunID]*dag.Run
	bad    map[dag.RunID]string // quarantined for this ownership: their rows cannot be read
	blamed dag.RunID            // of the last refusal that named a run
	queue  dag.Board
	timers timers
	defs   definitions

	gates     gates
	commons   commons
	naming    naming
	aside     int // queued runs that are not in memory
	triggers  triggers
	backfills backfills
	due       due
	reading   map[int64]dag.ShardID // messages on their way to a transaction, and those that cannot be taken in
	abroad    abroad
	marks     []store.Fence       // room for confirmed
	telling   map[int64]dag.RunID // by message: the last run that was told; see tellBack

	leading map[dag.AttemptKey]bool // Leader work under way in other goroutines
	carried map[dag.AttemptKey]bool // whose reports the peers have, or had: see onItsWay
	system  dag.WorkflowID          // whose tasks are carried out here, without a slot; 0: not known
	// Deferred tasks that are prepared in other goroutines.
	preparing preparing
	// Conditions that are evaluated in other goroutines.
	evaluating evaluating

	tx    *transaction
	spare *transaction // empty; nil while one is under way: see ahead.go
	// flying is the transaction that is being written while the next is made; nil: there is none.
	flying *transaction
	asks   []store.RunKey // the array of lookForKeys
	// itemsMax bounds the items of a transaction: halved when one is refused for its
	// content, doubled when one commits. See halve.go.
	itemsMax int
	// unsure is set when the seq of the shards is unknown: nothing may be written until they are taken again.
	unsure error

	ctx context.Context // of run: what lead stops for
	wg  *sync.WaitGroup
	// pause is how long to wait before the shards are taken again; a commit resets it.
	pause time.Duration
}

// transaction is the one being made. Nothing in it counts until it has committed.
type transaction struct {
	side    int    // 0 or 1: which of the two
	serial  uint64 // rises: it has been another one before
	batch   store.Batch
	fx      dag.Effects
	now     dag.Now
	due     dag.Micros // instants up to here are due
	touched []*dag.Run
	ended   []*dag.Run   // those of touched that came to their end in it
	current *dag.Run     // the one being stepped: a panic leaves it half changed
	assigns []Assignment // to dispatch
	splits  []Assignment // Leader work to dispatch
	answers []answer     // by item
	keys    map[keyOf]*dag.Run
	looked  map[keyOf]*dag.Header       // runs that the store has under the keys of the items; nil: no run
	written map[store.TriggerKey]bool   // triggers with a row in the batch
	lines   map[store.TriggerKey]lineAt // the newest ledger line, if it is in the batch
	filled  map[int64]bool              // backfills with a row in the batch
	// letters are what the transaction says to shards of other nodes; addressed are the shards
	// whose messages it consumes, or to which it says something here.
	letters   map[dag.ShardID][]letter
	addressed []dag.ShardID
	common    bool // what all shards share is looked at or changed
	// declared: a trigger is another than it was, not only further on.
	declared  bool
	evaluated time.Duration // how long it has evaluated expressions
	shown     int           // answers that show how their run stands
	rows      int           // estimate
	tried     int           // items and assignments begun
	tally     tally
	draft     draft        // of the metrics
	staged    bool         // the store has taken its batch in: it is not to change
	next      *transaction // made on top of it while it was under way, and not written yet; nil: none was
}

// tally is what the counters rise by when the transaction commits.
type tally struct {
	accepted, ended, attemptsEnded, rejected, lost, repaired, revived int64
	faults                                                            [faults]int64
}

// newTransaction makes the first of the two that a writer has, or the second.
func newTransaction(side int) *transaction {
	return &transaction{
		side: side, serial: 1, keys: map[keyOf]*dag.Run{}, written: map[store.TriggerKey]bool{}, lines: map[store.TriggerKey]lineAt{},
		filled: map[int64]bool{}, letters: map[dag.ShardID][]letter{}, draft: newDraft(),
	}
}

// mark notes that it touches a run, and reports whether it had not.
func (t *transaction) mark(r *dag.Run) bool {
	if t.touches(r) {
		return false
	}
	r.Marks[t.side] = t.serial
	return true
}

func (t *transaction) touches(r *dag.Run) bool { return r.Marks[t.side] == t.serial }

// reset empties the transaction and keeps its arrays.
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
	clear(t.letters)
	t.addressed = t.addressed[:0]
	clear(t.ended)
	t.ended, t.declared, t.common = t.ended[:0], false, false
	t.touched, t.assigns, t.splits, t.answers = t.touched[:0], t.assigns[:0], t.splits[:0], t.answers[:0]
	t.serial++
	t.draft.reset()
	t.current, t.rows, t.tried, t.tally, t.staged, t.next, t.evaluated, t.shown = nil, 0, 0, tally{}, false, nil, 0, 0
}

func newWriter(e *Engine) *writer {
	w := &writer{e: e, inbox: newInbox(e.host, e.pulse, e.cfg.SubmitMax), itemsMax: batchRowsMax, leading: map[dag.AttemptKey]bool{}, carried: map[dag.AttemptKey]bool{}}
	w.tx, w.spare, w.reading = newTransaction(0), newTransaction(1), map[int64]dag.ShardID{}
	w.tx.fx.Evaluate, w.spare.fx.Evaluate = w.evaluate, w.evaluate
	w.queue.Ageing, w.defs.names = e.cfg.Ageing, &e.directory
	w.clock.read, w.due.read = e.host.Now, e.host.Now
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
	w.gates.forget()
	w.commons.forget()
	w.naming, w.aside = naming{}, 0
	w.abroad.forget()
	w.triggers.forget()
	w.triggers.touched = nil // another may have written
	clear(w.reading)
	w.telling = map[int64]dag.RunID{}
	w.backfills.forget()
	w.due.looked = time.Time{}
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

// wait is how long the writer may sleep without being woken.
func (w *writer) wait() time.Duration {
	wait := w.timers.wait(w.clock.mono())
	switch {
	case w.e.cfg.Planner == nil:
	case w.byHand():
		wait = min(wait, dueLook) // it may say otherwise by then
	default:
		wait = min(wait, w.due.wait())
	}
	if at := w.commons.wake; at != 0 {
		wait = min(wait, max(time.Duration(at-w.clock.now().Wall)*time.Microsecond, 0))
	}
	return wait
}

// abandon answers what is not going to be written by this process.
func (w *writer) abandon() {
	not := fmt.Errorf("%w: the node stopped before it was written", ErrUnavailable)
	w.inbox.close(not)
	for i := range w.kept {
		err := not
		if w.kept[i].again {
			err = fmt.Errorf("%w: the node stopped before it learned whether it was written", ErrUnavailable)
		}
		w.kept[i].reply(answer{run: w.kept[i].run, err: err})
	}
	w.drop(len(w.kept))
}

// busy reports whether there is something to do without waiting for anybody.
func (w *writer) busy() bool {
	return len(w.kept) > 0 || w.todo.len() > 0 || w.inbox.len() > 0 || w.timers.due(w.clock.mono()) ||
		w.queue.Some(w.open) || len(w.gates.open) > 0 || len(w.backfills.open) > 0 ||
		w.commons.busy(w.clock.now().Wall) || !w.commons.loaded && w.held(store.GateShard) != nil
}

// transact makes one transaction of what waits, and carries it out.
func (w *writer) transact(ctx context.Context) error {
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

// take collects the items of the next transactions. Each source may have a share of the
// room before the first one may have all that is left: a flood of one does not starve
// the others. They come behind those that are kept.
func (w *writer) take() {
	w.kept = append(w.base[:0], w.kept...)
	until := len(w.kept) + takeMax
	for _, most := range [...]int{takeMax / 4, takeMax} {
		w.kept = w.dueTimers(w.kept, min(most, until-len(w.kept)))
		w.kept = w.todo.move(w.kept, min(most, until-len(w.kept)))
		w.kept = w.inbox.takeEvents(w.kept, min(most, until-len(w.kept)))
		w.kept = w.inbox.takeCalls(w.kept, min(most, until-len(w.kept)))
	}
	w.base = w.kept[:0]
}

// make applies as many items as fit and fills free slots. It returns how many items it took.
func (w *writer) make(ctx context.Context, items []item) (n int, err error) {
	w.tx.now, w.tx.due = w.clock.now(), w.due.now()
	if err := w.loadCommons(ctx); err != nil {
		return 0, err
	}
	if err := w.fillWindows(ctx); err != nil {
		return 0, err
	}
	w.commons.grants = 0
	w.lookForKeys(items[:min(len(items), w.itemsMax, takeMax)])
	err = guarded(func() {
		for n < len(items) && n < w.itemsMax && w.tx.rows < takeMax*rowsPerItem && (n == 0 || !w.full()) {
			if items[n].ask != nil && n > 0 {
				break // it looks before anything is half done
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
			if err := w.loadCommons(ctx); err != nil { // it may have taken, or given up, the shard
				w.unsure = errors.Join(w.unsure, err)
				return
			}
			w.lookForKeys(items[n:min(len(items), w.itemsMax, takeMax)]) // it may have taken a shard
		}
		w.follow()
		w.fill(w.itemsMax - n)
		w.flush()
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
		n, inserts, updates, runs := len(c.Events), len(c.AttemptInserts), len(c.AttemptUpdates), len(c.RunUpdates)
		r.Flush(c, w.tx.now.Wall)
		w.tx.draft.flushed(r, c, inserts, updates, runs)
		if f := w.held(r.Shard); f != nil && len(w.tx.batch.Events) > n {
			w.tx.batch.Events[n].Seq = f.Seq + 1 // as the store will number it
		}
		if !r.Unfinished() {
			w.tx.tally.ended++
		}
	}
	if w.tx.shown > 0 {
		w.show()
	}
}

// show completes the answers of those who want to know how the run stands that they started.
func (w *writer) show() {
	inserts, at := w.tx.batch.RunInserts, 0
	for i := range w.tx.answers {
		a := &w.tx.answers[i]
		if a.view == nil {
			continue
		}
		for at < len(inserts) && inserts[at].ID != a.run { // both are in the order of the items
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

// commit writes the transaction, if there is anything to write.
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

// write commits a batch under the fences that are held.
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
	w.due.watermark = max(w.due.watermark, b.Watermark)
	w.committed(wall)
	return nil
}

// committed takes note of a transaction that committed when the store's clock said wall.
func (w *writer) committed(wall dag.Micros) {
	w.clock.set(wall)
	w.due.setClock(wall)
	w.pause = 0
	w.e.stats.Commits.Add(1)
}

// guarded turns a panic of f (an illegal move, an impossible count) into an error.
func guarded(f func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", errGuilty, p, debug.Stack())
		}
	}()
	f()
	return nil
}

// settle tells the world about a committed transaction of n items. Work is handed out
// before anybody is answered: it takes longer.
func (w *writer) settle(n int) {
	w.retire()
	w.standAside()
	if b := &w.tx.batch; len(b.WorkflowInserts)+len(b.WorkflowUpdates) > 0 {
		w.e.directory.forget()
	}
	abroad := w.dispatch(w.tx.assigns)
	for i := range w.tx.splits {
		w.lead(w.tx.splits[i])
	}
	if len(w.tx.fx.Cancels) > 0 {
		w.cancel(w.tx.fx.Cancels)
	}
	w.arm(&w.tx.fx)
	for i := range n {
		w.kept[i].reply(w.tx.answers[i])
	}
	if abroad {
		w.e.cfg.Market.Settled()
	}
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
	w.e.stats.add(&w.tx.tally, len(w.tx.assigns))
	w.e.stats.meter.take(&w.tx.draft, w.e.host.Now())
	w.alert(w.tx.fx.Poisoned)
	w.drop(n)
	w.tx.reset()
	w.demand()
	w.e.pulse.beat()
	w.defs.trim()
	w.triggers.trim()
	w.backfills.retire()
	w.itemsMax = min(2*w.itemsMax, batchRowsMax)
	w.e.stats.ActiveRuns.Store(int64(len(w.runs) + w.aside))
	w.e.stats.ReadyTasks.Store(int64(w.queue.Len()))
	w.e.stats.InboxItems.Store(int64(w.inbox.len() + len(w.kept)))
}

// drop takes n answered items off the kept ones.
func (w *writer) drop(n int) {
	clear(w.kept[:n])
	w.kept = w.kept[n:]
}

// retire forgets the runs that ended: their rows say it all.
func (w *writer) retire() {
	for _, r := range w.tx.touched {
		if !r.Unfinished() {
			w.queue.Remove(r)
			delete(w.runs, r.ID)
			w.evaluating.drop(r.ID)
		}
	}
}

// errGuilty is a bug or a corrupt row met while stepping: an item is guilty, not the store.
var errGuilty = errors.New("panic")
