package engine_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/sim"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
	"skein.dev/skein/internal/store/sqlite"
	"skein.dev/skein/internal/store/storetest"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
)

// Tests of triggers run in a bubble of testing/synctest. Time passes only while all goroutines wait, so a
// test can sleep until an exact microsecond.

const second = dag.Micros(1_000_000)

// clocked is a store whose clock a test sets, and whose calls can fail. It records every commit that
// happened, whatever answer the caller got.
type clocked struct {
	store.Store
	ahead  atomic.Int64                                         // offset from the bubble's clock, in microseconds
	fault  atomic.Pointer[func(b *store.Batch) storetest.Fault] // draws the fault of the next commit
	dead   atomic.Bool                                          // the process that uses the store is gone
	read   atomic.Pointer[func()]                               // called after the due instants were read
	panics atomic.Bool                                          // a read of runs by their state panics
	race   atomic.Bool                                          // the next read of a request comes before another owner commits it
	books  *books

	clocks, dues, nexts, reads, commits atomic.Int64 // numbers of calls
}

// fails sets the faults of the following commits.
func (c *clocked) fails(f func(b *store.Batch) storetest.Fault) { c.fault.Store(&f) }

// Request implements store.Store.
func (c *clocked) Request(ctx context.Context, scope, key string) (store.Request, error) {
	if c.race.Swap(false) {
		return store.Request{}, store.ErrNotFound
	}
	return c.Store.Request(ctx, scope, key)
}

func (c *clocked) now() dag.Micros { return dag.Micro(time.Now()) + dag.Micros(c.ahead.Load()) }

func (c *clocked) gone() error {
	if c.dead.Load() {
		return fmt.Errorf("the process is gone: %w", store.ErrUnavailable)
	}
	return nil
}

func (c *clocked) Clock(ctx context.Context) (dag.Micros, error) {
	c.clocks.Add(1)
	if err := cmp.Or(ctx.Err(), c.gone()); err != nil {
		return 0, err
	}
	return c.now(), nil
}

func (c *clocked) Due(ctx context.Context, s []dag.ShardID, until dag.Micros, limit int) ([]store.Trigger, error) {
	c.dues.Add(1)
	page, err := c.Store.Due(ctx, s, until, limit)
	if read := c.read.Load(); read != nil && len(page) > 0 {
		(*read)()
	}
	return page, err
}

func (c *clocked) NextDue(ctx context.Context, s []dag.ShardID) (dag.Micros, error) {
	c.nexts.Add(1)
	return c.Store.NextDue(ctx, s)
}

func (c *clocked) Listening(ctx context.Context, workflow string, limit int) ([]store.TriggerKey, error) {
	c.reads.Add(1)
	return c.Store.Listening(ctx, workflow, limit)
}

func (c *clocked) Runs(ctx context.Context, q store.RunQuery) (store.RunPage, error) {
	if c.panics.Load() && len(q.States) > 0 {
		panic("injected")
	}
	return c.Store.Runs(ctx, q)
}

func (c *clocked) Acquire(ctx context.Context, h dag.HandlerID, s []dag.ShardID) ([]store.Acquired, error) {
	if err := c.gone(); err != nil {
		return nil, err
	}
	got, err := c.Store.Acquire(ctx, h, s)
	for i := range got {
		got[i].Now += dag.Micros(c.ahead.Load())
	}
	return got, err
}

func (c *clocked) Commit(ctx context.Context, b *store.Batch) (dag.Micros, error) {
	if err := c.gone(); err != nil {
		return 0, err
	}
	fault := storetest.NoFault
	if f := c.fault.Load(); f != nil {
		fault = (*f)(b)
	}
	switch fault {
	case storetest.Lost:
		return 0, fmt.Errorf("commit: injected: %w", store.ErrUnknown)
	case storetest.Unavailable:
		return 0, fmt.Errorf("commit: injected: %w", store.ErrUnavailable)
	case storetest.Refused:
		return 0, fmt.Errorf("commit: injected: %w", store.ErrRefused)
	}
	if c.books != nil { // a reader of both books and store then sees the same commits
		c.books.at.Lock()
		defer c.books.at.Unlock()
	}
	if _, err := c.Store.Commit(ctx, b); err != nil {
		if c.books != nil && errors.Is(err, store.ErrRefused) {
			c.books.refused(err)
		}
		return 0, err
	}
	c.commits.Add(1)
	if c.books != nil {
		c.books.commit(b, c.now())
	}
	if fault == storetest.Written {
		return 0, fmt.Errorf("commit: injected: %w", store.ErrUnknown)
	}
	return c.now(), nil
}

// timed is a node in a bubble with a planner. books follows its writes.
type timed struct {
	*node
	st     *clocked
	slow   atomic.Int64 // duration of a task, in nanoseconds
	past   *hands
	result func(a engine.Assignment) dag.Result
	alerts bool // the node knows the rules of alerts
	held   bool // tasks run until let ends them
}

// bubble runs a test in a bubble of synctest, on every store.
func bubble(t *testing.T, f func(t *testing.T, x *timed)) {
	t.Helper()
	for _, name := range []string{"memory", "sqlite"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { f(t, newTimed(t, openTimed(t, name, dir))) })
		})
	}
}

// openTimed opens a store inside of a bubble.
func openTimed(t *testing.T, name, dir string) store.Store {
	t.Helper()
	if name == "memory" {
		st := memory.New(memory.Options{})
		t.Cleanup(func() { _ = st.Close() })
		return st
	}
	st, err := sqlite.Open(filepath.Join(dir, "skein.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// newTimed starts a node over a store at a full hour.
func newTimed(t *testing.T, st store.Store, change ...func(*engine.Config)) *timed {
	t.Helper()
	x := &timed{st: &clocked{Store: st, books: newBooks(t)}}
	t.Cleanup(func() { // after the node has ended
		x.st.books.done()
	})
	x.start(t, change...)
	return x
}

// start starts a node, which continues the work of the previous one.
func (x *timed) start(t *testing.T, change ...func(*engine.Config)) {
	t.Helper()
	h := newHands(t)
	h.past, x.past, h.held = x.past, h, x.held
	h.result = func(a engine.Assignment) dag.Result {
		if d := x.slow.Load(); d > 0 {
			time.Sleep(time.Duration(d))
		}
		if x.result != nil {
			return x.result(a)
		}
		return success()
	}
	x.node = start(t, x.st, h, append([]func(*engine.Config){func(c *engine.Config) {
		c.Planner, c.Slots = trigger.New(x.st), 1000
		if x.alerts {
			c.Rules, c.Namer = alert.Rules, trigger.New(x.st)
		}
	}}, change...)...)
}

// restart ends the node, lets time pass while nothing runs, and starts the next one.
func (x *timed) restart(t *testing.T, after time.Duration) {
	t.Helper()
	x.close()
	x.st.dead.Store(false) // the last transaction may have killed it; the next process is alive
	time.Sleep(after)
	x.start(t)
}

// crash ends the node. The node can write nothing before it ends.
func (x *timed) crash(t *testing.T) {
	t.Helper()
	x.st.dead.Store(true)
	x.close()
	x.st.dead.Store(false)
	x.start(t)
}

// until sleeps until an offset from the full hour at which the bubble began.
func until(offset time.Duration) {
	base := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	time.Sleep(time.Until(base.Add(offset)))
	synctest.Wait()
}

// pass lets time pass, so that all due events happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// flow makes the definition of a workflow of one task: head is the text before its triggers, and triggers has
// one line of YAML for each trigger.
func flow(t testing.TB, name, head string, triggers ...string) engine.Definition {
	t.Helper()
	text := "name: " + name + "\nnamespace: test\n" + head
	if len(triggers) > 0 {
		text += "triggers:\n"
	}
	for _, line := range triggers {
		text += "  - {" + line + "}\n"
	}
	return parsed(t, text+"tasks:\n  a: {run: \"true\"}\n")
}

func parsed(t testing.TB, text string) engine.Definition {
	t.Helper()
	ws, errs := workflow.Parse([]byte(text), workflow.Options{File: "w.yaml"})
	if len(errs) > 0 {
		t.Fatalf("%v in\n%s", errs, text)
	}
	w := ws[0]
	g, err := w.Graph(0)
	if err != nil {
		t.Fatal(err)
	}
	def, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	return engine.Definition{Namespace: w.Namespace, Name: w.Name, Source: []byte(text), Def: def, Graph: g.Pack(), Digest: []byte(text), User: "ada"}
}

// set applies a workflow.
func (x *timed) set(name, head string, triggers ...string) store.Workflow {
	x.t.Helper()
	w, _, err := x.Apply(x.t.Context(), flow(x.t, name, head, triggers...))
	if err != nil {
		x.t.Fatal(err)
	}
	return w
}

func (x *timed) become(w store.Workflow, state string) {
	x.t.Helper()
	if _, err := x.SetState(x.t.Context(), w, state, 0, nil); err != nil {
		x.t.Fatal(err)
	}
}

func (x *timed) pause(w store.Workflow, name string, resume bool) {
	x.t.Helper()
	if err := x.PauseTrigger(x.t.Context(), store.TriggerKey{Workflow: w.ID, Name: name}, engine.Pause{Resume: resume, Actor: "ada", Reason: "because"}, nil); err != nil {
		x.t.Fatal(err)
	}
}

// row returns the stored row of a trigger.
func (x *timed) row(w store.Workflow, name string) store.Trigger {
	x.t.Helper()
	row, err := x.st.Trigger(x.t.Context(), w.ID, name)
	if err != nil {
		x.t.Fatal(err)
	}
	return row
}

// ledger writes the lines of a trigger in the order of their instants, one for each:
// "0:03 fired", "0:06..0:12 3 skipped".
func (x *timed) ledger(w store.Workflow, name string) string {
	x.t.Helper()
	var out []string
	for _, l := range x.lines(w.ID, name) {
		text := stamp(l.At)
		if l.Count > 1 {
			text += fmt.Sprintf("..%s %d", stamp(l.Last), l.Count)
		}
		if l.Key != "" {
			text += " " + short(l.Key)
		}
		text += " " + l.Outcome
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}

func short(key string) string { return key[:min(len(key), 8)] }

func stamp(at dag.Micros) string {
	d := time.Duration(at-dag.Micro(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))) * time.Microsecond
	if d%time.Second != 0 {
		return d.String()
	}
	s := int(d / time.Second)
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// lines reads the whole ledger of a trigger, by instant.
func (x *timed) lines(w dag.WorkflowID, name string) []store.Fire {
	x.t.Helper()
	var all []store.Fire
	q := store.FireQuery{Workflow: w, Trigger: name, Limit: 1000}
	for {
		page, err := x.st.Fires(x.t.Context(), q)
		if err != nil {
			x.t.Fatal(err)
		}
		all = append(all, page...)
		if len(page) < 1000 {
			break
		}
		last := page[len(page)-1]
		q.Before = store.FireKey{Decided: last.Decided, Workflow: last.Workflow, Trigger: last.Trigger, At: last.At, Key: last.Key}
	}
	slices.SortFunc(all, func(a, b store.Fire) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Key, b.Key)) })
	return all
}

func (x *timed) ledgerIs(w store.Workflow, name, want string) {
	x.t.Helper()
	want = strings.TrimSpace(strings.ReplaceAll(want, "\t", ""))
	if is := x.ledger(w, name); is != want {
		x.t.Errorf("the ledger of %s is\n%s\nwant\n%s", name, is, want)
	}
}

// runsOf lists the runs of a workflow, the oldest first.
func (x *timed) runsOf(w dag.WorkflowID) []dag.RunRow {
	x.t.Helper()
	return x.st.books.runsOf(w)
}

// rest lets all started runs end, and checks the invariants of that state.
func (x *timed) rest() {
	x.t.Helper()
	for range 1000 {
		synctest.Wait()
		if x.Idle() && x.Waiting() == 0 {
			break
		}
		time.Sleep(time.Second)
	}
	x.whole()
}

// whole checks the rules between transactions: memory equals the rows, the store is consistent, and every
// decided instant has one outcome.
func (x *timed) whole() {
	x.t.Helper()
	x.sound()
	if diff, err := x.GatesDiff(x.t.Context()); err != nil || diff != "" {
		x.t.Errorf("the gates are not what the rows say: %s %v", diff, err)
	}
	x.st.books.audit(x)
}

// books follow the written declarations, runs and limits. They are built from the batches, independent of
// the store and the engine.
type books struct {
	t  testing.TB
	at sync.Mutex // held during a commit
	mu sync.Mutex

	flows    map[dag.WorkflowID]store.Workflow
	ledger   *sim.Ledger
	runs     map[dag.RunID]dag.RunRow
	order    []dag.RunID
	fills    map[int64]store.Backfill
	filled   map[int64]map[dag.Micros]dag.RunID
	mark     dag.Micros
	refusals []error
	allowed  bool // refusals are part of the test
	rowsMax  int  // the largest number of rows of a transaction
	count    int  // the number of transactions
}

func newBooks(t testing.TB) *books {
	return &books{t: t, flows: map[dag.WorkflowID]store.Workflow{}, ledger: sim.NewLedger(),
		runs: map[dag.RunID]dag.RunRow{}, fills: map[int64]store.Backfill{},
		filled: map[int64]map[dag.Micros]dag.RunID{}}
}

func (b *books) refused(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusals = append(b.refusals, err)
}

// done reports the batches that the store refused although the test injected no fault.
func (b *books) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.allowed && len(b.refusals) > 0 {
		b.t.Errorf("the store refused %d batches, the first for: %v", len(b.refusals), b.refusals[0])
	}
}

func (b *books) runsOf(w dag.WorkflowID) []dag.RunRow {
	b.mu.Lock()
	defer b.mu.Unlock()
	var rows []dag.RunRow
	for _, id := range b.order {
		if r := b.runs[id]; r.Workflow == w {
			rows = append(rows, r)
		}
	}
	return rows
}

// allFills returns the present rows of all backfills.
func (b *books) allFills() map[int64]store.Backfill {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.fills)
}

func (b *books) fill(id int64) store.Backfill {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fills[id]
}

// commit records a transaction, and checks that no gate admits more runs than its limit.
func (b *books) commit(c *store.Batch, now dag.Micros) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rowsMax = max(b.rowsMax, c.Rows())
	b.count++
	b.mark = max(b.mark, c.Watermark)
	moved := map[store.TriggerKey]bool{} // limits that this transaction changes
	for _, list := range [][]store.Workflow{c.WorkflowInserts, c.WorkflowUpdates} {
		for _, w := range list {
			b.flows[w.ID] = w
			moved[store.TriggerKey{Workflow: w.ID}] = true
		}
	}
	changed, wrong := b.ledger.Commit(c)
	for _, k := range changed {
		moved[k] = true
	}
	b.complain(wrong)
	var began []store.TriggerKey
	for i := range c.RunInserts {
		began = append(began, b.moved(c.RunInserts[i])...)
	}
	for i := range c.RunUpdates {
		began = append(began, b.moved(c.RunUpdates[i].RunRow)...)
	}
	for _, k := range began {
		if limit := b.limit(k); limit > 0 && !moved[k] && b.active(k) > limit {
			b.t.Errorf("%d runs of %v are active, at most %d may be", b.active(k), k, limit)
		}
	}
	b.backfilled(c)
}

func (b *books) complain(wrong []string) {
	for _, w := range wrong {
		b.t.Error(w)
	}
}

// moved records a run's row, and returns the gates that the run has passed with this change.
func (b *books) moved(r dag.RunRow) []store.TriggerKey {
	was, known := b.runs[r.ID]
	if !known {
		b.order = append(b.order, r.ID)
	} else {
		r.Header = was.Header
	}
	b.runs[r.ID] = r
	if !begun(r.State) || known && (begun(was.State) || was.State.Terminal()) {
		return nil
	}
	gates := []store.TriggerKey{{Workflow: r.Workflow}}
	if f := r.Fire; f != nil && f.Trigger != "" && f.Backfill == 0 {
		gates = append(gates, store.TriggerKey{Workflow: r.Workflow, Name: f.Trigger})
	}
	return gates
}

// begun reports whether a run has passed its gates and has not ended.
func begun(s dag.RunState) bool {
	return s != dag.RunSubmitted && s != dag.RunWaiting && !s.Terminal()
}

func (b *books) limit(k store.TriggerKey) int {
	if k.Name == "" {
		return int(b.flows[k.Workflow].MaxRuns)
	}
	return int(b.ledger.Triggers[k].MaxRuns)
}

func (b *books) active(k store.TriggerKey) int {
	n := 0
	for _, r := range b.runs {
		f := r.Fire
		if r.Workflow == k.Workflow && begun(r.State) && r.Generation == 1 &&
			(k.Name == "" || f != nil && f.Trigger == k.Name && f.Backfill == 0) {
			n++
		}
	}
	return n
}

func (b *books) backfilled(c *store.Batch) {
	for _, list := range [][]store.Backfill{c.BackfillInserts, c.BackfillUpdates} {
		for _, f := range list {
			was := b.fills[f.ID]
			if f.Started < was.Started || f.Ended < was.Ended || f.Ended > f.Started || f.Started > f.Total || f.Failed > f.Ended {
				b.t.Errorf("backfill %d: %d of %d started, %d ended, %d failed; before %d, %d", f.ID, f.Started, f.Total, f.Ended, f.Failed, was.Started, was.Ended)
			}
			b.fills[f.ID] = f
		}
	}
	for _, r := range c.BackfillRuns {
		if b.filled[r.Backfill] == nil {
			b.filled[r.Backfill] = map[dag.Micros]dag.RunID{}
		}
		if _, twice := b.filled[r.Backfill][r.Instant]; twice {
			b.t.Errorf("backfill %d: %s was started twice", r.Backfill, stamp(r.Instant))
		}
		b.filled[r.Backfill][r.Instant] = r.Run
	}
	for id, f := range b.fills {
		n := 0
		for _, run := range b.filled[id] {
			if r := b.runs[run]; !r.State.Terminal() && r.Generation == 1 {
				n++
			}
		}
		if n > int(f.Parallel) {
			b.t.Errorf("backfill %d: %d runs, at most %d at a time", id, n, f.Parallel)
		}
	}
}
