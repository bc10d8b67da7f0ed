package storetest

import "skein.dev/skein/internal/store"

// traceMarks checks that only the owner of a shard can move the position of the export of its traces.
func traceMarks(b *bed) {
	is := func(want store.TraceMark) {
		b.Helper()
		m, err := b.s.TraceMark(b.ctx, 0)
		b.ok(err)
		b.same(m, want, "trace mark")
	}
	_, err := b.s.TraceMark(b.ctx, 0)
	b.is(err, store.ErrNotFound)
	b.put(func(*store.Batch) {})
	b.put(func(*store.Batch) {})
	seq, epoch := b.fences[0].Seq, b.fences[0].Epoch
	put := func(m store.TraceMark) error { return b.s.PutTraceMark(b.ctx, b.owner, m) }
	b.is(put(store.TraceMark{Epoch: epoch, Seq: seq + 1, At: 5}), store.ErrFenced) // beyond the shard's seq
	b.is(put(store.TraceMark{Epoch: epoch + 1, Seq: seq, At: 5}), store.ErrFenced)
	b.is(b.s.PutTraceMark(b.ctx, b.owner+1, store.TraceMark{Epoch: epoch, Seq: seq, At: 5}), store.ErrFenced)
	b.is(put(store.TraceMark{Shard: 4711, Epoch: epoch, Seq: seq, At: 5}), store.ErrFenced)
	_, err = b.s.TraceMark(b.ctx, 0)
	b.is(err, store.ErrNotFound)
	b.ok(put(store.TraceMark{Epoch: epoch, Seq: seq - 1, At: 5}))
	is(store.TraceMark{Seq: seq - 1, At: 5})
	b.ok(put(store.TraceMark{Epoch: epoch, Seq: seq, At: 7}))
	b.ok(put(store.TraceMark{Epoch: epoch, Seq: seq, At: 7})) // the call is repeated, as if its answer was lost
	is(store.TraceMark{Seq: seq, At: 7})
}
