package tally

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

const (
	// foldEvery is the time between two steps. When foldEarly ends wait, the next step begins early.
	foldEvery = 5 * time.Second
	foldEarly = 5000
	// heldMax bounds the number of ends that wait for the folder. Each takes about 100 bytes. At this number,
	// the waiting ends of the shard are dropped, and the folder later finds them in the rows.
	heldMax = 200_000
	// stepRuns is the number of ends after which a step writes its counts.
	stepRuns = 500
	// rest is the pause after a step, as a multiple of the step's duration. There is no pause while half of
	// heldMax ends wait.
	rest = 10
	// lookEvery is the time between two comparisons of the epochs.
	lookEvery = time.Minute
	// pageRuns and loadRuns bound the runs of one read, and loadAttempts is the number of attempts above which
	// the next read loads fewer runs.
	pageRuns, loadRuns = 1000, 200
	loadAttempts       = 10_000
)

// Graphs finds the graphs of runs and of versions.
type Graphs interface {
	Of(row *dag.RunRow) (*dag.Graph, error)
	Get(w dag.WorkflowID, version int32) (*dag.Graph, error)
}

// Config holds the dependencies of a Folder.
type Config struct {
	Store  store.Store
	Owner  func() dag.HandlerID // returns the owner of this node's shards
	Owns   func(dag.ShardID) bool
	Graphs Graphs
	Log    *slog.Logger
}

// Folder counts the ended runs of the shards that this node owns.
type Folder struct {
	cfg  Config
	wake chan struct{}

	mu   sync.Mutex // protects the following fields
	held map[dag.ShardID][]store.Ended
	all  int
	lost map[dag.ShardID]bool // some ends of the shard were dropped
	// known are the shards that have a progress after the last step. At the first end of another shard, the next
	// step begins at once, because it reads the earlier ends from the rows, and they should be few.
	known map[dag.ShardID]bool

	stepping sync.Mutex // held by Step; protects the following fields
	shards   map[dag.ShardID]*progress
	count    int // the number of shards of the database; 0 if not read yet
	looked   time.Time
	loads    int // the number of runs that the next read loads; 0 means 1

	told string // used by Run: the last logged error
}

// progress is the position up to which the ends of a shard are counted.
//
// Invariant: every end after mark.Seq under epoch is in Folder.held, or will be added to it.
type progress struct {
	epoch int64
	mark  store.TallyMark
}

// NewFolder returns a Folder that knows no shard yet.
func NewFolder(c Config) *Folder {
	return &Folder{cfg: c, wake: make(chan struct{}, 1), held: map[dag.ShardID][]store.Ended{}, lost: map[dag.ShardID]bool{}, shards: map[dag.ShardID]*progress{}}
}

// Ended receives the ends of one committed transaction. It is called in the order of the shard's
// transactions.
func (f *Folder) Ended(ends []store.Ended) {
	f.mu.Lock()
	defer f.mu.Unlock()
	early := false
	for i := range ends {
		s := ends[i].Shard
		if f.all >= heldMax {
			f.all -= len(f.held[s])
			f.held[s], f.lost[s] = nil, true
		}
		if !f.lost[s] {
			early = early || !f.known[s] && len(f.held[s]) == 0
			f.held[s] = append(f.held[s], ends[i])
			f.all++
		}
	}
	if early || f.all >= foldEarly {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

// Run counts until ctx ends, and then one last time.
func (f *Folder) Run(ctx context.Context) {
	tick := time.NewTicker(foldEvery)
	defer tick.Stop()
	for {
		err := f.Step(ctx)
		switch {
		case ctx.Err() != nil:
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), foldEvery)
			_ = f.Step(last) // if this step fails, the next owner finds the ends in the rows
			cancel()
			return
		case err == nil:
			f.told = ""
		case err.Error() != f.told:
			f.told = err.Error()
			f.cfg.Log.Warn("ended runs cannot be counted now; the node tries again", "code", "tally_behind", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-f.wake:
		case <-tick.C:
		}
	}
}

// owned returns the shards of this node.
func (f *Folder) owned(ctx context.Context) (map[dag.ShardID]bool, error) {
	if f.count == 0 {
		info, err := f.cfg.Store.Info(ctx)
		if err != nil {
			return nil, err
		}
		f.count = info.Shards
	}
	owned := map[dag.ShardID]bool{}
	for s := range dag.ShardID(f.count) {
		if f.cfg.Owns(s) {
			owned[s] = true
		}
	}
	return owned, nil
}

// Step counts all known ends. A failure of one shard does not affect the other shards.
//
// A nil Folder counts nothing.
func (f *Folder) Step(ctx context.Context) (failed error) {
	if f == nil {
		return nil
	}
	f.stepping.Lock()
	defer f.stepping.Unlock()
	defer f.know()
	if !f.cfg.Store.TallyStands() { // some node has a version without the tally; the ends are read from the rows later
		f.drop(nil)
		return nil
	}
	owned, err := f.owned(ctx)
	if err != nil {
		return err
	}
	f.drop(owned)
	if err := f.look(ctx); err != nil {
		return err
	}
	for s := range owned {
		err := f.shard(ctx, s)
		if err != nil {
			delete(f.shards, s) // makes the folder read the shard's mark again
		}
		if err != nil && !errors.Is(err, store.ErrFenced) {
			failed = errors.Join(failed, fmt.Errorf("shard %d: %w", s, err))
		}
	}
	return failed
}

// know records the shards that have a progress.
func (f *Folder) know() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known = map[dag.ShardID]bool{}
	for s := range f.shards {
		f.known[s] = true
	}
}

// drop forgets shards of other nodes.
func (f *Folder) drop(owned map[dag.ShardID]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s, ends := range f.held {
		if !owned[s] {
			f.all -= len(ends)
			delete(f.held, s)
		}
	}
	for s := range f.shards {
		if !owned[s] {
			delete(f.shards, s)
		}
	}
}

// look removes the progress of shards that this node lost and got again since the last step.
func (f *Folder) look(ctx context.Context) error {
	if now := time.Now(); len(f.shards) == 0 || now.Sub(f.looked) < lookEvery && !now.Before(f.looked) {
		return nil
	}
	marks, err := f.cfg.Store.Marks(ctx)
	if err != nil {
		return err
	}
	f.looked = time.Now()
	for _, m := range marks {
		if p := f.shards[m.Shard]; p != nil && p.epoch != m.Epoch {
			delete(f.shards, m.Shard)
		}
	}
	return nil
}

// take removes and returns the waiting ends of a shard. behind reports whether ends are missing between the
// progress and the returned ends.
func (f *Folder) take(s dag.ShardID, p *progress) (ends []store.Ended, behind bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p == nil || f.lost[s] {
		return nil, true
	}
	for i := range f.held[s] {
		if f.held[s][i].Epoch > p.epoch {
			return nil, true
		}
	}
	for _, e := range f.held[s] {
		if e.Epoch == p.epoch && e.Seq > p.mark.Seq {
			ends = append(ends, e)
		}
	}
	f.all -= len(f.held[s])
	delete(f.held, s)
	return ends, false
}

// shard counts the ends of a shard.
func (f *Folder) shard(ctx context.Context, s dag.ShardID) error {
	p := f.shards[s]
	ends, behind := f.take(s, p)
	if behind {
		var err error
		if p, err = f.catchUp(ctx, s); err != nil {
			return err
		}
		f.shards[s] = p
		if ends, behind = f.take(s, p); behind {
			return nil // the next step tries again
		}
	}
	for len(ends) > 0 {
		n := min(stepRuns, len(ends))
		for n < len(ends) && ends[n].Seq == ends[n-1].Seq {
			n++ // a transaction is counted as a whole
		}
		began := time.Now()
		if err := f.fold(ctx, p, ends[:n]); err != nil {
			return err // the ends are still in the rows, and are counted later
		}
		if ends = ends[n:]; len(ends) == 0 {
			return nil
		}
		if err := f.pause(ctx, time.Since(began)); err != nil {
			return err
		}
	}
	return nil
}

// pause pauses after a step, unless many ends wait.
func (f *Folder) pause(ctx context.Context, took time.Duration) error {
	f.mu.Lock()
	many := f.all > heldMax/2
	f.mu.Unlock()
	if many || ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
	case <-time.After(rest * min(took, time.Second)):
	}
	return ctx.Err()
}

// fold counts ends. The caller passes all ends between the mark and the last one.
func (f *Folder) fold(ctx context.Context, p *progress, ends []store.Ended) error {
	b := batch{f: f, counts: Counts{}, ends: map[dag.RunID][]*store.Ended{}}
	for i := range ends {
		e := &ends[i]
		if e.Generation == 1 {
			tasks := false
			if !e.Fresh { // otherwise there is no attempt to count
				var err error
				if tasks, err = f.countsTasks(e.Workflow, e.Version); err != nil {
					return err
				}
			}
			if !tasks {
				end := EndOf(e)
				b.counts.Run(e.Workflow, &end)
				continue
			}
		}
		if b.ends[e.ID] == nil {
			b.ids = append(b.ids, e.ID)
		}
		b.ends[e.ID] = append(b.ends[e.ID], e)
	}
	if err := b.load(ctx); err != nil {
		return err
	}
	last := &ends[len(ends)-1]
	return f.write(ctx, p, b.counts, store.TallyStep{Seq: last.Seq, At: last.Finished})
}

// countsTasks reports whether the attempts of a version's tasks are counted.
func (f *Folder) countsTasks(w dag.WorkflowID, version int32) (bool, error) {
	g, err := f.cfg.Graphs.Get(w, version)
	if err != nil {
		return false, UnlessForever(err)
	}
	return g.Len() > 0 && g.Len() <= GraphMax, nil
}

// UnlessForever returns nil for an error about a version that can never be read, because it is damaged,
// deleted, or does not compile. It returns any other error of Graphs unchanged, because a later step can
// succeed.
func UnlessForever(err error) error {
	if errors.Is(err, store.ErrDamaged) { // the error is about the whole database, not about the version
		return err
	}
	for _, forever := range [...]error{errkind.ErrDamaged, errkind.ErrNotFound, errkind.ErrPanic, store.ErrCorrupt, store.ErrNotFound} {
		if errors.Is(err, forever) {
			return nil
		}
	}
	return err
}

// write adds counts to the rows of the tally, together with the marks of the step. Damaged rows are made
// again.
func (f *Folder) write(ctx context.Context, p *progress, counts Counts, step store.TallyStep) error {
	step.Shard, step.Epoch, step.Rev = p.mark.Shard, p.epoch, p.mark.Rev
	for w, of := range byWorkflow(counts) {
		rows, err := f.merged(ctx, w, of)
		if errors.Is(err, store.ErrCorrupt) {
			f.cfg.Log.Error("the counts of ended runs are damaged; the node counts the kept runs again", "code", "tally_damaged", "workflow", int64(w), "err", err)
			step.Drop = append(step.Drop, w)
			to := store.TallyMark{Seq: step.Seq}
			for _, m := range step.Marks {
				to.Seq = max(to.Seq, m.Seq)
			}
			if of, err = f.between(ctx, w, store.TallyMark{Seq: -1}, to); err == nil {
				of.bound(names{}, func(int32) *Cell { return nil })
				rows = append(packed(of), remade(w, step.At))
			}
		}
		if err != nil {
			return err
		}
		step.Rows = append(step.Rows, rows...)
	}
	if err := f.cfg.Store.PutTally(ctx, f.cfg.Owner(), step); err != nil {
		return err
	}
	p.mark.Rev++
	if step.Seq >= 0 {
		p.mark.Seq, p.mark.At = step.Seq, step.At
	}
	return nil
}

func byWorkflow(counts Counts) map[dag.WorkflowID]Counts {
	all := map[dag.WorkflowID]Counts{}
	for k, c := range counts {
		if all[k.Workflow] == nil {
			all[k.Workflow] = Counts{}
		}
		all[k.Workflow][k] = c
	}
	return all
}

func packed(counts Counts) []store.TallyRow {
	rows := make([]store.TallyRow, 0, len(counts))
	for k, c := range counts {
		rows = append(rows, store.TallyRow{TallyKey: k, N: c.N(), Data: c.Pack()})
	}
	return rows
}

// remade returns the row that records that the counts of a workflow were made again. The row is kept as long
// as these counts.
func remade(w dag.WorkflowID, now dag.Micros) store.TallyRow {
	return store.TallyRow{TallyKey: store.TallyKey{Workflow: w, Span: store.TallyGone, At: store.DayOf(now), Task: store.TallyRemade}, N: 1, Data: []byte{}}
}

// merged adds the existing rows to the counts of one workflow, and bounds the names of its tasks.
func (f *Folder) merged(ctx context.Context, w dag.WorkflowID, counts Counts) ([]store.TallyRow, error) {
	there, rest := names{}, map[int32]*Cell{}
	for _, q := range stretches(w, counts) {
		err := Rows(ctx, f.cfg.Store, q, func(r *store.TallyRow) error {
			there.add(r.TallyKey)
			c := counts[r.TallyKey]
			if c == nil && r.Task != store.TallyRest {
				return nil
			}
			is, err := Unpack(r)
			switch {
			case err != nil:
				return err
			case c != nil:
				c.Merge(&is)
			default:
				rest[r.At] = &is
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	counts.bound(there, func(day int32) *Cell { return rest[day] })
	return packed(counts), nil
}

// stretches returns queries for the existing rows of the periods that counts have, and of no other ones: two
// ends can be years apart. Neighbouring periods share a query.
func stretches(w dag.WorkflowID, counts Counts) (all []store.TallyQuery) {
	for _, span := range [...]store.TallySpan{store.TallyDay, store.TallyHour} {
		tasks := map[int32]bool{} // by period: whether tasks are counted
		for k := range counts {
			if k.Span == span {
				tasks[k.At] = tasks[k.At] || k.Task != ""
			}
		}
		begin := len(all)
		for _, at := range slices.Sorted(maps.Keys(tasks)) {
			if n := len(all); n > begin && all[n-1].To == at-1 {
				all[n-1].To, all[n-1].Tasks = at, all[n-1].Tasks || tasks[at]
			} else {
				all = append(all, store.TallyQuery{Workflow: w, Span: span, From: at, To: at, Tasks: tasks[at]})
			}
		}
	}
	return all
}

// Rows passes all rows of a query to a function.
func Rows(ctx context.Context, st store.Tallies, q store.TallyQuery, see func(*store.TallyRow) error) error {
	for q.Limit = pageRuns; ; {
		page, err := st.Tally(ctx, q)
		if err != nil {
			return err
		}
		for i := range page {
			if err := see(&page[i]); err != nil {
				return err
			}
		}
		if len(page) < q.Limit {
			return nil
		}
		q.After = page[len(page)-1].TallyKey
	}
}
