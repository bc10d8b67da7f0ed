package storetest

import (
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

func eras() []check {
	return []check{
		{"marks are what owners hold", marksAreFences},
		{"raising the era fences every owner", raiseFences},
		{"an era begins once", raisedOnce},
		{"the floor of an era rises once", floorRises},
		{"members read the marks, too", clustered(marksOfMembers)},
	}
}

func (b *bed) marks() []store.Fence {
	b.Helper()
	all, err := b.s.Marks(b.ctx)
	b.ok(err)
	return all
}

func (b *bed) raise(from, to dag.Era, letter string) dag.Era {
	b.Helper()
	is, err := b.s.Raise(b.ctx, from, to, []byte(letter))
	b.ok(err)
	return is
}

// letters returns the messages of all shards, ordered by shard.
func (b *bed) letters() (all []string) {
	b.Helper()
	for _, f := range b.fences {
		page, err := b.s.Messages(b.ctx, f.Shard, 0)
		b.ok(err)
		for _, m := range page {
			if m.From != f.Shard || m.To != f.Shard || m.Created <= 0 {
				b.Errorf("a message from shard %d to %d, made at %d, waits for shard %d", m.From, m.To, m.Created, f.Shard)
			}
			all = append(all, string(m.Payload))
		}
	}
	return all
}

func marksAreFences(b *bed) {
	b.same(b.marks(), b.fences, "marks")
	b.put(func(x *store.Batch) { x.RunInserts = append(x.RunInserts, b.run(dag.RunSubmitted)) })
	b.same(b.marks(), b.fences, "marks after a commit")
	b.take()
	b.same(b.marks(), b.fences, "marks of shards that were taken again")
}

// raiseFences checks that after Raise no earlier batch is written, that seq continues, and that a new owner
// of the shards gets an epoch of the new era.
func raiseFences(b *bed) {
	b.put(func(x *store.Batch) { x.RunInserts = append(x.RunInserts, b.run(dag.RunSubmitted)) })
	before := b.marks()
	x := b.batch()
	x.RunInserts = append(x.RunInserts, b.run(dag.RunSubmitted))
	b.stage(x)
	b.same(b.raise(0, 3, "told"), dag.Era(3), "the era")
	for i, m := range b.marks() {
		b.same(m, store.Fence{Shard: before[i].Shard, Epoch: 3 * store.EpochsOfEra, Seq: before[i].Seq}, "a mark of the new era")
	}
	_, err := b.s.Commit(b.ctx, x)
	b.is(err, store.ErrFenced)
	told := make([]string, len(b.fences))
	for i := range told {
		told[i] = "told"
	}
	b.same(b.letters(), told, "the letters")
	for i, a := range b.take() {
		b.same(a.Fence, store.Fence{Shard: before[i].Shard, Epoch: 3*store.EpochsOfEra + 1, Seq: before[i].Seq}, "a shard that was taken")
		b.same(a.Era(), dag.Era(3), "its era")
	}
	b.put(func(x *store.Batch) { x.RunInserts = append(x.RunInserts, b.run(dag.RunSubmitted)) })
}

func raisedOnce(b *bed) {
	b.same(b.raise(0, 1, ""), dag.Era(1), "the era")
	b.same(b.raise(0, 2, "late"), dag.Era(1), "the era for who comes late")
	b.same(b.letters(), []string(nil), "letters of who comes late")
	b.take()
	b.same(b.raise(1, 2, ""), dag.Era(2), "the era after it")
	b.same(store.EraOf(b.marks()), dag.Era(2), "the era of the marks")
}

func marksOfMembers(b *bed, c store.Cluster) {
	b.raise(0, 1, "")
	b.take()
	b.put(func(x *store.Batch) { x.RunInserts = append(x.RunInserts, b.run(dag.RunSubmitted)) })
	_, shards := b.look(c)
	for i, s := range shards {
		b.same(store.Fence{Shard: s.ID, Epoch: s.Epoch, Seq: s.Seq}, b.fences[i], "a row of a shard")
	}
}

// floorRises checks an era that began because of a loss. Its floor is the era itself and cannot rise, and no
// earlier era counts as having ended quietly.
func floorRises(b *bed) {
	b.same(b.raise(0, 2, ""), dag.Era(2), "the era")
	b.take()
	before := b.marks()
	b.same(b.raise(2, 2, "again"), dag.Era(2), "the era after the floor rose")
	b.same(b.marks(), before, "the marks of an era whose floor is the era")
	b.same(b.letters(), []string(nil), "letters")
	for _, era := range []dag.Era{0, 1, 2} {
		ended, err := b.s.EndOf(b.ctx, era)
		b.ok(err)
		b.same(len(ended), 0, "marks at the end of an era that did not end quietly")
	}
}
