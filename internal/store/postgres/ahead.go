package postgres

import (
	"context"
	"slices"
	"sync"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// A transaction that is staged while the one before it is under way is written ahead: a second session carries out all of it but
// its end, which waits for Commit. A session of the database is one core at most, and at the end of a transaction it waits for the
// disk; so two of one writer are at work at once, and still commit one by one, in their order: the fence, which moves seq, is sent
// when the one before is known to be written. Until then nothing of it can be, whatever becomes of its client.
//
// It begins with hold, which looks at the epochs and locks the shards against whoever takes them, as the fence does, but not
// against the one under way. And nothing in it may touch a row of that one: it would wait for it, or not see it. So it is about
// other runs, and about nothing but runs.

// flight is a staged transaction, from Stage to the end of Commit.
type flight struct {
	batch  *store.Batch
	rows   int           // of batch as it was staged
	fences []store.Fence // likewise
	taken  bool          // Commit has it; protected by flights
	ahead  bool          // it may be written ahead
	before []*flight
	ctx    context.Context // of what is sent ahead
	cancel context.CancelFunc
	ready  chan struct{} // closed when what can be sent ahead was
	x      *tx           // what was sent; nil: nothing, it is committed like others

	once  sync.Once
	known chan struct{} // closed when runs are those that it is about, or are not to be known
	runs  *store.RunIndex
}

// flights are the staged transactions, in their order.
type flights struct {
	mu     sync.Mutex
	all    []*flight
	closed bool // none is written ahead any more
}

// stage takes in what is to be committed after all others; was is that of the same batch before it became another one, or nil.
func (s *flights) stage(b *store.Batch) (f, was *flight) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*commitMax) // of which one is that of the one before
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

// take gives the flight of a batch that is committed now, or nil. What was staged before it and is not
// committed yet never will be: it does not wait for that.
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

// remove ends a flight, if f is one.
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

// close has nothing be written ahead from now on.
func (s *flights) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// untaken removes those that are not being committed.
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

// onlyRuns reports whether a batch is about nothing but runs, which have rows of their own: the key of one may be that of another.
func onlyRuns(b *store.Batch) bool {
	return len(b.Fences) > 0 && b.Watermark == 0 && b.Rows() == b.Changes.Rows() && !small(b) &&
		!slices.ContainsFunc(b.RunInserts, func(r dag.RunRow) bool { return r.Key != "" })
}

// runsOf are the runs that a batch is about.
func runsOf(b *store.Batch) *store.RunIndex {
	runs := &store.RunIndex{}
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

// tell says which runs the transaction is about, which is all that others ask: those of the batch and those that leave a wave.
func (f *flight) tell(runs *store.RunIndex, plan *wavePlan) {
	for _, is := range plan.listed {
		runs.Add(is.run)
	}
	f.once.Do(func() {
		f.runs = runs
		close(f.known)
	})
}

// over ends the wait for tell: nobody is to be written ahead of it any more.
func (f *flight) over() { f.once.Do(func() { close(f.known) }) }

// apart waits until the transactions before it are known and reports whether none of them is about one of some runs.
func (f *flight) apart(runs *store.RunIndex) bool {
	for _, o := range f.before {
		select {
		case <-o.known:
		case <-f.ctx.Done():
			return false
		}
		if o.runs == nil || o.runs.Meets(runs) { // it failed, or does not know
			return false
		}
	}
	return true
}

// writeAhead sends what can be sent of a transaction before those before it have committed.
func (d *DB) writeAhead(f *flight) {
	defer close(f.ready)
	b, runs := f.batch, runsOf(f.batch)
	if !f.apart(runs) || d.stands.Load() < formatAhead || !d.waves.known(b) || !d.handed.Planned(b) {
		return
	}
	c, err := d.writers.try(f.ctx)
	if err != nil {
		return // who commits it will meet that
	}
	if err := c.prepareWrites(f.ctx); err != nil {
		d.writers.give(c)
		return
	}
	x := &tx{ctx: f.ctx, conn: c, batch: b, ahead: true, waves: d.waves.plan(b)}
	if err := x.plan(d); err != nil || x.waves.unpack != nil {
		d.writers.give(c)
		d.forget(b)
		return // likewise
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

// warm has two sessions at hand that know all statements: for a transaction, and for the next. What fails here is met by whoever writes.
func (d *DB) warm(ctx context.Context) {
	for range 2 {
		c, err := d.writers.try(ctx) // who has one must not wait for another
		if err != nil {
			return
		}
		defer d.writers.give(c)
		if c.prepareWrites(ctx) != nil {
			return
		}
	}
}

// hold is a fence that the transaction before passes.
func (x *tx) hold() {
	epochs := make([]int64, 0, len(x.batch.Fences))
	for _, f := range x.batch.Fences {
		x.owned, epochs = append(x.owned, int32(f.Shard)), append(epochs, f.Epoch)
	}
	x.send("hold", args{}.shards(x.owned).array(int8s(epochs)))
}

// finish ends a transaction that was written ahead; ahead is false if it was not.
func (d *DB) finish(f *flight) (now dag.Micros, ahead bool, err error) {
	<-f.ready
	x := f.x
	if x == nil {
		return 0, false, nil
	}
	if f.rows != f.batch.Rows() || !slices.Equal(f.fences, f.batch.Fences) { // it is another one now: what was sent is not to be
		d.drop(f)
		return 0, false, nil
	}
	defer d.writers.give(x.conn)
	x.fence()
	now, err = x.end()
	return now, true, err
}

// drop takes back what was written ahead.
func (d *DB) drop(f *flight) {
	f.over()
	f.cancel()
	if !f.ahead {
		return
	}
	<-f.ready
	if x := f.x; x != nil {
		hangUp(x.conn) // and the database forgets what it has of it
		_ = x.p.Close()
		d.writers.give(x.conn)
		d.forget(f.batch)
	}
}

// forget drops what is known by plans of which one was not carried out.
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
	d.handed.Stage(b, store.HandPacker{Hands: d.stands.Load() >= formatHands, Ends: d.stands.Load() >= formatEnds, Late: true, History: b.Tells()})
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
