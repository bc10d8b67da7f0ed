package postgres

import (
	"context"
	"slices"
	"sync"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

// A staged transaction is written ahead while the transaction before it is in flight. A second session
// carries out all of it except its end, which waits for Commit. One session of the database uses at most one
// core, and waits for the disk at the end of a transaction. With two sessions, a writer uses the time of both
// waits. It still commits its transactions one by one, in order: it sends the fence, which raises seq, only
// when it knows that the transaction before was committed. Until then nothing of the staged transaction can
// be committed, even if the client dies.

// flight is a staged transaction, from Stage to the end of Commit.
type flight struct {
	batch  *store.Batch
	rows   int           // the number of rows of the batch when it was staged
	fences []store.Fence // the fences of the batch when it was staged
	taken  bool          // Commit was called for the batch; protected by flights
	ahead  bool          // whether the transaction may be written ahead
	before []*flight
	ctx    context.Context // the context of the part that is sent ahead
	cancel context.CancelFunc
	ready  chan struct{} // closed when the part that can be sent ahead has been sent
	x      *tx           // the sent transaction; nil if nothing was sent, and it is committed like others

	once  sync.Once
	known chan struct{} // closed when runs is complete, or will never be known
	runs  *packed.RunIndex
}

// flights holds the staged transactions in their order.
type flights struct {
	mu     sync.Mutex
	all    []*flight
	closed bool // no further transaction may be written ahead
}

// stage adds a batch that will be committed after all others. The result was is the flight of an earlier form
// of the same batch, or nil.
func (s *flights) stage(b *store.Batch) (f, was *flight) {
	// twice commitMax, because the transaction before may take as long
	ctx, cancel := context.WithTimeout(context.Background(), 2*commitMax)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(o *flight) bool {
		if o.batch == b && !o.taken {
			was = o
		}
		return o.batch == b
	})
	f = &flight{batch: b, rows: b.Rows(), fences: slices.Clone(b.Fences), before: slices.Clone(s.all), known: make(chan struct{}),
		ready: make(chan struct{}), ctx: ctx, cancel: cancel}
	f.ahead = len(f.before) > 0 && !s.closed && onlyRuns(b)
	s.all = append(s.all, f)
	return f, was
}

// take returns the flight of a batch that is being committed, or nil. take does not wait for batches that
// were staged earlier and are not committed yet, because they will never be committed.
func (s *flights) take(b *store.Batch) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.all {
		if f.batch != b {
			continue
		}
		f.taken = true
		for _, o := range f.before {
			if !o.taken {
				o.over()
			}
		}
		return f
	}
	return nil
}

// remove ends flight f if it is not nil.
func (s *flights) remove(f *flight) {
	if f == nil {
		return
	}
	f.over()
	f.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(o *flight) bool { return o == f })
}

// close prevents that further transactions are written ahead.
func (s *flights) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// untaken removes the flights that are not being committed.
func (s *flights) untaken() (gone []*flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(f *flight) bool {
		if !f.taken {
			gone = append(gone, f)
		}
		return !f.taken
	})
	return gone
}

// onlyRuns reports whether a batch writes only runs and their rows, and incidents, is not small, inserts no
// run with a key, and completes no parameters. Otherwise another transaction could insert the same key, or
// change the same row of namespace_stock.
func onlyRuns(b *store.Batch) bool {
	return len(b.Fences) > 0 && b.Watermark == 0 && b.Rows() == b.Changes.Rows()+b.AlertChanges.Rows() && !small(b) &&
		!slices.ContainsFunc(b.RunInserts, func(r dag.RunRow) bool { return r.Key != "" }) &&
		!slices.ContainsFunc(b.RunUpdates, func(u dag.RunUpdate) bool { return u.Filled })
}

// runsOf returns the runs that a batch writes.
func runsOf(b *store.Batch) *packed.RunIndex {
	runs := &packed.RunIndex{}
	runs.Reset(len(b.Events))
	for i := range b.RunInserts {
		runs.Add(b.RunInserts[i].ID)
	}
	for i := range b.RunUpdates {
		runs.Add(b.RunUpdates[i].ID)
	}
	for i := range b.AttemptInserts {
		runs.Add(b.AttemptInserts[i].Run)
	}
	for i := range b.AttemptUpdates {
		runs.Add(b.AttemptUpdates[i].Run)
	}
	for i := range b.Events {
		runs.Add(b.Events[i].Run)
	}
	return runs
}

// tell publishes the runs of the transaction: the runs of the batch, and the runs that leave a wave. Later
// flights need no other information.
func (f *flight) tell(runs *packed.RunIndex, plan *wavePlan) {
	for _, is := range plan.listed {
		runs.Add(is.run)
	}
	f.once.Do(func() {
		f.runs = runs
		close(f.known)
	})
}

// over ends the wait for tell. It is called when no later transaction can be written ahead after this one.
func (f *flight) over() { f.once.Do(func() { close(f.known) }) }

// apart waits until the runs of all earlier transactions are known. It reports whether none of these
// transactions changes one of the given runs.
func (f *flight) apart(runs *packed.RunIndex) bool {
	for _, o := range f.before {
		select {
		case <-o.known:
		case <-f.ctx.Done():
			return false
		}
		if o.runs == nil || o.runs.Meets(runs) { // the other transaction has failed, or its runs are unknown
			return false
		}
	}
	return true
}

// writeAhead sends the part of a transaction that can be sent before the earlier ones have committed.
func (d *DB) writeAhead(f *flight) {
	defer close(f.ready)
	b, runs := f.batch, runsOf(f.batch)
	if !f.apart(runs) || d.stands.Load() < formatAhead || !d.waves.known(b) || !d.handed.Planned(b) {
		return
	}
	c, err := writerOf(f.ctx, d, d.writers.try)
	if err != nil {
		return // Commit will return the error
	}
	if err := c.prepareWrites(f.ctx); err != nil {
		d.writers.give(c)
		return
	}
	x := &tx{ctx: f.ctx, conn: c, batch: b, ahead: true, waves: d.waves.plan(b), tags: d.stands.Load() >= formatTags, keeps: d.stands.Load() >= formatKept}
	if err := x.plan(d); err != nil || x.waves.unpack != nil {
		d.writers.give(c)
		d.forget(b)
		return // Commit will write the whole batch, and return any error
	}
	f.x = x
	f.tell(runs, &x.waves)
	x.begin()
	x.hold()
	x.write()
	if x.fail == nil {
		x.fail = x.p.Flush()
	}
}

// warm prepares all statements in two sessions, for a transaction and for the one that is written ahead. If
// an error occurs, a later write reports it.
func (d *DB) warm(ctx context.Context) {
	for range 2 {
		c, err := writerOf(ctx, d, d.writers.try) // the caller may already have a connection, and must not wait for another
		if err != nil {
			return
		}
		defer d.writers.give(c)
		if c.prepareWrites(ctx) != nil {
			return
		}
	}
}

// hold fences the transaction without waiting for the previous one.
func (x *tx) hold() {
	epochs := make([]int64, 0, len(x.batch.Fences))
	for _, f := range x.batch.Fences {
		x.owned, epochs = append(x.owned, int32(f.Shard)), append(epochs, f.Epoch)
	}
	x.send("hold", args{}.shards(x.owned).array(int8s(epochs)))
}

// finish ends a transaction that was written ahead. If it was not written ahead, finish returns false for
// ahead.
func (d *DB) finish(f *flight) (now dag.Micros, ahead bool, err error) {
	<-f.ready
	x := f.x
	if x == nil {
		return 0, false, nil
	}
	// the batch has changed since it was staged, so the sent transaction is rolled back
	if f.rows != f.batch.Rows() || !slices.Equal(f.fences, f.batch.Fences) {
		d.drop(f)
		return 0, false, nil
	}
	defer d.writers.give(x.conn)
	x.alertRows(f.batch) // the method write has left these rows out
	x.fence()
	now, err = x.end()
	return now, true, err
}

// drop rolls back a transaction that was written ahead.
func (d *DB) drop(f *flight) {
	f.over()
	f.cancel()
	if !f.ahead {
		return
	}
	<-f.ready
	if x := f.x; x != nil {
		hangUp(x.conn) // the database then rolls back everything that was sent
		_ = x.p.Close()
		d.writers.give(x.conn)
		d.forget(f.batch)
	}
}

// forget drops what memory knows from the plan of a batch that was not carried out.
func (d *DB) forget(b *store.Batch) {
	d.handed.Forget()
	d.waves.failed(b)
}

// Stage implements store.Stager.
func (d *DB) Stage(b *store.Batch) {
	f, was := d.flights.stage(b)
	if was != nil {
		d.drop(was)
	}
	d.handed.Stage(b, packed.HandPacker{Hands: d.stands.Load() >= formatHands, Ends: d.stands.Load() >= formatEnds, Weights: d.stands.Load() >= formatKept, Late: true, History: packed.Tells(b)})
	if f.ahead {
		go d.writeAhead(f)
	}
}

// Unstage implements store.Stager.
func (d *DB) Unstage() {
	for _, f := range d.flights.untaken() {
		d.drop(f)
	}
	d.handed.Forget()
}
