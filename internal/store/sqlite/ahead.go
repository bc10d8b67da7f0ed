package sqlite

import (
	"slices"
	"sync"

	"skein.dev/skein/internal/store"
)

// A transaction that is staged is carried out as soon as the one before it is in the log, while that is still on its way to the
// disk: all of it but its COMMIT, which waits for Commit. So the core that writes need not wait for the disk, nor for the engine.
// Whoever else wants to write comes first: what is written ahead is taken back then, and written again.

// ahead is a transaction that is staged.
type ahead struct {
	batch  *store.Batch
	rows   int           // of batch as it was staged
	fences []store.Fence // likewise
	failed error         // it could not be carried out; protected by DB.mu
}

// is reports whether it is that of a batch as it is now.
func (a *ahead) is(b *store.Batch) bool {
	return a != nil && a.batch == b && a.rows == b.Rows() && slices.Equal(a.fences, b.Fences)
}

// stages are the staged transactions that are not in the log, in their order.
type stages struct {
	mu  sync.Mutex
	all []*ahead
}

// add takes in a batch, and reports whether it is the first.
func (s *stages) add(b *store.Batch) (a *ahead, first bool) {
	a = &ahead{batch: b, rows: b.Rows(), fences: slices.Clone(b.Fences)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(slices.DeleteFunc(s.all, func(o *ahead) bool { return o.batch == b }), a)
	return a, s.all[0] == a
}

// first is the one that may be carried out now, or nil.
func (s *stages) first() *ahead {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return nil
	}
	return s.all[0]
}

// over takes out a batch that is in the log, or never will be, and those before it: nobody can commit them any more.
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
	d.handed.Stage(b, store.HandPacker{Hands: true, Ends: true, History: b.Tells()})
	if a, first := d.stages.add(b); first {
		go d.writeAhead(a)
	}
}

// Unstage implements store.Stager.
func (d *DB) Unstage() {
	d.stages.clear()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropAhead()
	d.handed.Forget()
}

// writeAhead carries out what is staged, if it is the next. What fails here is what Commit says.
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

// dropAhead takes back what is written ahead.
func (d *DB) dropAhead() {
	if d.ahead != nil {
		d.ahead = nil
		d.rollback()
		d.handed.Forget()
	}
}
