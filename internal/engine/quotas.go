package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// quotas counts how much the runs of the owned shards use of the quotas of their namespaces. The store has
// such counts for all shards, as the last transaction of each owner left them. In the transaction that starts
// a run, the store compares the sum of the counts with the quotas. So a quota is exact even if several nodes
// start runs at the same time. The counts are absolute values. So an owner that did not know a quota for some
// time does no lasting damage: it counts again. In memory the counts are a cache of rows, so forget is
// allowed when the writer drops the runs in memory.
type quotas struct {
	known   *quotaBook
	set     *quotaSet // the quotas for which the counts were made
	loaded  bool
	shards  []dag.ShardID     // the shards that were owned when the counts were made
	uses    map[string][]*use // namespace → the counts of each shard
	changed []*use            // counts that have changed and are not in their rows yet
	// names are the namespaces, by workflow, of the counted runs.
	names map[dag.WorkflowID]string
	// full holds the refusals of the store, by namespace, while a refused transaction is made again. Until
	// that transaction has committed, no run begins in these namespaces.
	full map[string]*store.QuotaError
	// counting counts the runs of namespaces that have got their first quota of runs, while the writer
	// continues. Until counting has ended, the runs of these namespaces are neither counted nor refused. slow
	// says that the runs cannot be counted in this way.
	counting *counting
	pending  map[string]bool
	slow     bool
	// waiting are the backfills that wait for room.
	waiting heldBackfills

	store store.Store
	defs  *definitions
	all   []dag.ShardID // all shards
	poke  func()        // wakes the writer
	core
}

type use struct {
	store.NamespaceUse
	changed, check bool
}

// quotaSet has the quotas of all namespaces from one reading. It does not change.
type quotaSet struct {
	of   map[string]store.Quotas
	rows []store.Namespace
	// isolation holds, by namespace, the lowest level of isolation that its tasks may have. It has no entry
	// for a namespace that demands none.
	isolation map[string]string
	users     map[string]string               // the Unix users of the namespaces that have one
	shared    map[string]bool                 // the namespaces that share the names of their locks
	uses      map[string][]store.NamespaceUse // namespace → the use by each shard
	stocks    map[string]store.NamespaceStock // stock of each namespace
	counts    bool                            // there is a namespace whose runs are counted
	order     uint64                          // the number of the reading: readings are numbered in the order in which they began
	at        time.Time                       // the time at which the reading began
}

// quotaBook holds the quotas as this process has last read them.
type quotaBook struct {
	is    atomic.Pointer[quotaSet]
	order atomic.Uint64
	// awaited says that a backfill waits for quota. The writer then checks after each reading.
	awaited atomic.Bool
	on      bool
	// held is the number of the reading whose quotas the writer enforces.
	held atomic.Uint64

	now    func() time.Time          // the clock of this machine
	oldest time.Duration             // the greatest age of a reading that is still used: see rulesMax
	since  atomic.Pointer[time.Time] // the last change by this process that narrowed rules: see Reading
	// rereads lets one caller read again while the other callers wait for the result.
	rereads sync.Mutex
}

func (b *quotaBook) quotasOf(namespace string) store.Quotas {
	if set := b.is.Load(); set != nil {
		return set.of[namespace]
	}
	return store.Quotas{}
}

// read reads the quotas. changed reports whether they differ from the previous ones. If a read that began
// later has already ended, its result is kept, because it may contain quotas that a caller has just set.
func (b *quotaBook) read(ctx context.Context, st store.Store) (changed bool, err error) {
	order, at := b.order.Add(1), b.now()
	rows, err := st.NamespaceList(ctx)
	if err != nil {
		return false, errkind.FromStore("read the quotas", err)
	}
	next := &quotaSet{of: map[string]store.Quotas{}, isolation: map[string]string{}, users: map[string]string{}, shared: map[string]bool{}, rows: rows, order: order, at: at}
	for i := range rows {
		if rows[i].Isolation != "" {
			next.isolation[rows[i].Name] = rows[i].Isolation
		}
		if rows[i].RunAs != "" {
			next.users[rows[i].Name] = rows[i].RunAs
		}
		if rows[i].Locks == store.LocksShared {
			next.shared[rows[i].Name] = true
		}
		if rows[i].Quotas != (store.Quotas{}) {
			next.of[rows[i].Name] = rows[i].Quotas
			next.counts = next.counts || rows[i].Counted()
		}
	}
	if next.counts {
		uses, err := st.NamespaceUses(ctx, "")
		if err != nil {
			return false, errkind.FromStore("read the use of quotas", err)
		}
		next.uses = byNamespace(uses)
	}
	if slices.ContainsFunc(rows, func(n store.Namespace) bool { return n.StoredBytes > 0 }) {
		if next.stocks, err = stocksOf(ctx, st, ""); err != nil {
			return false, err
		}
	}
	for {
		was := b.is.Load()
		if was != nil && was.order > order {
			return false, nil
		}
		if b.is.CompareAndSwap(was, next) {
			return was == nil || !slices.Equal(was.rows, rows), nil
		}
	}
}

func byNamespace(uses []store.NamespaceUse) map[string][]store.NamespaceUse {
	of := map[string][]store.NamespaceUse{}
	for i := range uses {
		of[uses[i].Namespace] = append(of[uses[i].Namespace], uses[i])
	}
	return of
}

func (q *quotas) forget() {
	q.loaded, q.uses, q.changed, q.names = false, nil, nil, map[dag.WorkflowID]string{}
	q.counting, q.pending = nil, nil
}

// recount holds the changes that a transaction makes to the counts.
type recount struct {
	before  map[*use]store.NamespaceUse // the values of the changed counts before the transaction
	flushed []*use                      // the counts in its batch
	stocks  []store.StockUpdate         // the amounts that the transaction adds to the stocks of namespaces
	keeps   []store.StockUpdate         // the amounts that the runs which end in the transaction add to these stocks
	moves   []move                      // the moves of the transaction, for a count in progress
	kept    int                         // how many moves that count had before this transaction
}

func (r *recount) reset() {
	clear(r.before)
	clear(r.flushed)
	r.flushed, r.stocks, r.keeps, r.moves, r.kept = r.flushed[:0], r.stocks[:0], r.keeps[:0], r.moves[:0], -1
}

// undo restores the counts to their values before the transaction being made.
func (q *quotas) undo() {
	r := &q.txn().recount
	q.unmove(r)
	if !q.loaded {
		r.reset()
		return
	}
	for u, was := range r.before {
		u.NamespaceUse, u.check = was, false
	}
	for _, u := range r.flushed { // the rows may still differ from the counts
		q.differs(u)
	}
	r.reset()
}

// differs records that a count differs from its row.
func (q *quotas) differs(u *use) {
	if !u.changed {
		u.changed, q.changed = true, append(q.changed, u)
	}
}

// fresh reports whether the counts were made for the present quotas and shards.
func (q *quotas) fresh() bool {
	if !q.known.on {
		return true
	}
	set := q.known.is.Load()
	if !q.loaded || set == nil || q.set != set && !q.counted(set) || set.counts && !q.sameShards() {
		return false
	}
	q.set = set // only the bounds may have changed; the use by other shards was read again
	if q.counting != nil {
		return !q.counting.over()
	}
	q.known.held.Store(set.order)
	return true
}

// counted reports whether the present counts suffice for the quotas in set. They do if the runs of every
// namespace whose runs these quotas limit are counted already. So only the first quota of a namespace makes
// the writer count the runs.
func (q *quotas) counted(set *quotaSet) bool {
	for name, bounds := range set.of {
		if was := q.set.of[name]; bounds.Counted() && !was.Counted() {
			return false
		}
	}
	return true
}

func (q *quotas) sameShards() bool {
	for _, s := range q.shards {
		if q.held(s) == nil {
			return false
		}
	}
	return len(q.shards) == q.shardCount()
}

// load counts the runs of the owned shards again, if that is necessary. The caller calls it before a
// transaction, at a moment when the rows contain every change of this writer.
func (q *quotas) load(ctx context.Context) error {
	if q.fresh() {
		return nil
	}
	if q.countsBeside() {
		return nil
	}
	q.forget()
	if q.known.is.Load() == nil {
		if _, err := q.known.read(ctx, q.store); err != nil {
			return err
		}
	}
	set, shards := q.known.is.Load(), q.ownedShards()
	q.slow = false
	q.uses = map[string][]*use{}
	if set.counts {
		if err := q.count(ctx, set, shards); err != nil {
			q.forget()
			return err
		}
	}
	q.set, q.shards, q.loaded = set, shards, true
	return nil
}

// count counts the runs of the owned shards.
func (q *quotas) count(ctx context.Context, set *quotaSet, shards []dag.ShardID) error {
	rows, err := q.store.NamespaceUses(ctx, "")
	if err != nil {
		return errkind.FromStore("read the use of quotas", err)
	}
	runs, err := q.store.UnfinishedOf(ctx, shards)
	if err != nil {
		return errkind.FromStore("count the runs of namespaces", err)
	}
	was := map[*use]int64{}
	for i := range rows {
		if bounds := set.of[rows[i].Namespace]; q.held(rows[i].Shard) != nil && bounds.Counted() {
			u := q.useOf(rows[i].Namespace, rows[i].Shard)
			u.NamespaceUse, was[u] = rows[i], rows[i].Runs
			u.Runs = 0
		}
	}
	for i := range runs {
		if runs[i].Workflow == 0 {
			continue
		}
		wf, err := q.defs.workflow(runs[i].Workflow)
		if err != nil {
			return err
		}
		if bounds := set.of[wf.Namespace]; bounds.Counted() {
			q.names[wf.ID] = wf.Namespace
			q.useOf(wf.Namespace, runs[i].Shard).Runs += runs[i].Runs
		}
	}
	for _, all := range q.uses {
		for _, u := range all {
			if u.Runs != was[u] {
				q.differs(u)
			}
		}
	}
	return nil
}

func (q *quotas) useOf(namespace string, shard dag.ShardID) *use {
	for _, u := range q.uses[namespace] {
		if u.Shard == shard {
			return u
		}
	}
	u := &use{NamespaceUse: store.NamespaceUse{Namespace: namespace, Shard: shard}}
	q.uses[namespace] = append(q.uses[namespace], u)
	return u
}

func (q *quotas) ownedShards() (owned []dag.ShardID) {
	for _, shard := range q.all {
		if q.held(shard) != nil {
			owned = append(owned, shard)
		}
	}
	return owned
}

// of returns the use of a namespace's quotas by the shard of a run. It returns nil if the runs of the
// namespace are not counted. It also returns nil if the shard was taken in this transaction: the next
// transaction counts its runs. begins says that perhaps no run of the workflow was counted yet. In that case
// the workflow is read, unless it was just read. If that read fails, all runs are counted again.
func (q *quotas) of(r *dag.Header, begins bool) *use {
	if !q.loaded || !q.set.counts || !slices.Contains(q.shards, r.Shard) {
		return nil
	}
	namespace, known := q.names[r.Workflow]
	if !known && !begins {
		return nil
	}
	if !known {
		wf, err := q.defs.workflow(r.Workflow)
		if err != nil {
			q.loaded = false
			return nil
		}
		if bounds := q.set.of[wf.Namespace]; !bounds.Counted() || q.pending[wf.Namespace] {
			return nil
		}
		namespace, q.names[r.Workflow] = wf.Namespace, wf.Namespace
	}
	u := q.useOf(namespace, r.Shard)
	before := q.txn().recount.before
	if _, noted := before[u]; !noted {
		before[u] = u.NamespaceUse
	}
	q.differs(u)
	return u
}

// began counts a new run.
func (q *quotas) began(r *dag.Run) {
	q.keepParams(r)
	q.moved(r, 1)
	if u := q.of(&r.Header, true); u != nil {
		if hour := store.QuotaHour(q.txn().now.Wall); u.Since != hour {
			u.Since, u.Started = hour, 0
		}
		u.Runs++
		u.Started++
	}
}

// revived counts a run that continues after its end.
func (q *quotas) revived(r *dag.Run) {
	q.moved(r, 1)
	if u := q.of(&r.Header, true); u != nil {
		u.Runs++
	}
}

// ended counts the end of a run.
func (q *quotas) ended(r *dag.Run) {
	q.keepRun(r)
	if r.Gate == beyond { // such a run was not counted
		return
	}
	q.moved(r, -1)
	if u := q.of(&r.Header, false); u != nil {
		u.Runs--
		q.waiting.freed(u.Namespace)
	}
}

// loggedMax bounds the length of one log, because a worker states it.
const loggedMax = 1 << 40

// logged counts the log of an attempt that has ended, if its namespace has a quota of logs.
func (q *quotas) logged(r *dag.Run, size int64) {
	namespace, known := q.names[r.Workflow]
	if bounds := q.boundsOf(namespace); !known || bounds.LogsPerDay == 0 || size <= 0 {
		return
	}
	if u := q.of(&r.Header, false); u != nil {
		if day := store.QuotaDay(q.txn().now.Wall); u.Day != day {
			u.Day, u.Logged = day, 0
		}
		u.Logged += min(size, loggedMax)
	}
}

// boundsOf returns the quotas of a namespace that the counts belong to.
func (q *quotas) boundsOf(namespace string) store.Quotas {
	if q.set == nil {
		return store.Quotas{}
	}
	return q.set.of[namespace]
}

// flush adds the changed counts to the transaction.
func (q *quotas) flush(b *store.Batch) {
	b.Stocks, b.Kept = append(b.Stocks, q.txn().recount.stocks...), append(b.Kept, q.txn().recount.keeps...)
	for _, all := range [][]store.StockUpdate{b.Stocks, b.Kept} {
		sort.Slice(all, func(i, j int) bool {
			a, b := &all[i], &all[j]
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Shard, b.Shard)) < 0
		})
	}
	q.moveOn()
	if !q.loaded {
		return
	}
	for _, u := range q.changed {
		if q.held(u.Shard) != nil {
			b.Uses = append(b.Uses, store.UseUpdate{NamespaceUse: u.NamespaceUse, Check: u.check})
		}
		u.changed, u.check = false, false
	}
	q.txn().recount.flushed = append(q.txn().recount.flushed, q.changed...)
	q.changed = q.changed[:0]
	sort.Slice(b.Uses, func(i, j int) bool {
		x, y := &b.Uses[i], &b.Uses[j]
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Shard, y.Shard)) < 0
	})
}

// buried counts the end of a run that is written in a separate transaction. If that transaction fails, the
// counts are forgotten.
func (q *quotas) buried(row *dag.RunRow, b *store.Batch) {
	if row.State == dag.RunSubmitted { // the run was never counted, but its parameters have to be counted as stored now
		q.keepParams(&dag.Run{Header: row.Header})
		q.flush(b)
		q.txn().recount.reset()
		return
	}
	if q.counting != nil {
		q.forget()
	}
	if u := q.of(&row.Header, false); u != nil {
		u.Runs--
		q.flush(b)
		q.txn().recount.reset()
	}
}

// waits reports whether there are counts to make or to write, or backfills to try again.
func (q *quotas) waits() bool { return !q.fresh() || len(q.changed) > 0 || q.heldOpen() }

// admitQuotas refuses a submission that exceeds a quota of its namespace. In a cluster it first reads the use
// by all shards, so that a flood of submissions above the quota does not reach the writer. It does not check
// a submission with a key, because such a submission may repeat an earlier one.
func admitQuotas(ctx context.Context, e *Engine, s *Submission) error {
	ns := s.Workflow.Namespace
	bounds := e.quotas.quotasOf(ns)
	if bounds == (store.Quotas{}) {
		return nil
	}
	if n := bounds.ParamsBytes; n > 0 && int64(len(s.Params)) > n {
		return &store.QuotaError{Namespace: ns, Quota: store.QuotaParamsBytes, Bound: n, Used: int64(len(s.Params))}
	}
	if err := roomToKeep(ctx, e, s, &bounds); err != nil {
		return err
	}
	if e.cluster == nil || s.Key != "" || s.named || !bounds.Counted() {
		return nil
	}
	uses, err := e.store.NamespaceUses(ctx, ns)
	if err != nil {
		return errkind.FromStore("read the use of quotas", err)
	}
	now, err := e.store.Clock(ctx)
	if err != nil {
		return errkind.FromStore("read the clock", err)
	}
	hour := store.QuotaHour(now)
	runs, started := store.Sum(uses, hour)
	if over := bounds.Exceeded(ns, runs+1, started+1, hour); over != nil {
		return over
	}
	day := store.QuotaDay(now)
	if over := bounds.Overlogged(ns, store.Logged(uses, day), day); over != nil {
		return over
	}
	return nil
}

// quotaRefusal returns the error for a caller whose submission exceeds a quota, if cause is such an error.
func quotaRefusal(cause error) (*store.QuotaError, bool) {
	var over *store.QuotaError
	return over, errors.As(cause, &over)
}

// watchQuotas reads the quotas regularly, because other nodes may have changed them.
func watchQuotas(ctx context.Context, e *Engine, wg *sync.WaitGroup) {
	if !e.quotas.on {
		return
	}
	e.host.Go(wg, func() {
		for ctx.Err() == nil {
			e.host.Await(ctx, nil, e.cfg.QuotasEach)
			if ctx.Err() == nil {
				_ = NamespacesOf(e).Changed(ctx) // the next reading repeats this
			}
		}
	})
}

// checkTasks returns a QuotaError if a namespace may not have a workflow with this number of tasks.
func checkTasks(e *Engine, namespace string, tasks int) error {
	if n := e.quotas.quotasOf(namespace).Tasks; n > 0 && int64(tasks) > n {
		return &store.QuotaError{Namespace: namespace, Quota: store.QuotaTasks, Bound: n, Used: int64(tasks)}
	}
	return nil
}
