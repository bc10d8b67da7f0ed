package sqlite

import (
	"slices"
	"sync"

	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

// A staged transaction is written ahead: as soon as the previous transaction is in the log, SQLite executes
// all of the staged one except its COMMIT, which waits for Commit. Meanwhile the log is being synced to the
// disk. So the thread that writes waits neither for the disk nor for the engine. Any other write has
// priority: then the transaction that was written ahead is rolled back and is written again later.

// ahead is a staged transaction.
type ahead struct {
	batch  *store.Batch
	rows   int           // the number of rows of batch when it was staged
	fences []store.Fence // the fences of batch when it was staged
	failed error         // the error that stopped it; protected by DB.mu
}

// is reports whether the staged transaction is for a batch in its present form.
func (a *ahead) is(b *store.Batch) bool {
	return a != nil && a.batch == b && a.rows == b.Rows() && slices.Equal(a.fences, b.Fences)
}

// stages holds, in order, the staged transactions that are not in the log yet.
type stages struct {
	mu  sync.Mutex
	all []*ahead
}

// add adds a batch, and reports whether it is the first.
func (s *stages) add(b *store.Batch) (a *ahead, first bool) {
	a = &ahead{batch: b, rows: b.Rows(), fences: slices.Clone(b.Fences)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(slices.DeleteFunc(s.all, func(o *ahead) bool { return o.batch == b }), a)
	return a, s.all[0] == a
}

// first returns the transaction that may be written ahead now, or nil.
func (s *stages) first() *ahead {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return nil
	}
	return s.all[0]
}

// over removes a batch that is in the log, or that will never be in it, and all batches before it. None of
// these batches can be committed any more.
func (s *stages) over(b *store.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, func(a *ahead) bool { return a.batch == b })
	s.all = slices.Delete(s.all, 0, i+1)
}

func (s *stages) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = nil
}

// Stage implements store.Stager.
func (d *DB) Stage(b *store.Batch) {
	d.handed.Stage(b, stagePacker(b))
	if a, first := d.stages.add(b); first {
		go d.writeAhead(a)
	}
}

// stagePacker returns the HandPacker for a plan of a batch that reads nothing.
func stagePacker(b *store.Batch) packed.HandPacker {
	return packed.HandPacker{Hands: true, Ends: true, Weights: true, History: packed.Tells(b)}
}

// Unstage implements store.Stager.
func (d *DB) Unstage() {
	d.stages.clear()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropAhead()
	d.handed.Forget()
}

// writeAhead executes the staged transaction if it is the next one. Commit reports the errors that occur
// here.
func (d *DB) writeAhead(a *ahead) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stages.first() != a || d.begin() != nil {
		return
	}
	if a.failed = d.apply(a.batch); a.failed != nil {
		d.rollback()
	}
	d.ahead = a
}

// dropAhead rolls back the transaction that was written ahead.
func (d *DB) dropAhead() {
	if d.ahead != nil {
		d.ahead = nil
		d.rollback()
		d.handed.Forget()
	}
}
