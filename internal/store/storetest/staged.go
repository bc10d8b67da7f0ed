package storetest

import (
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// staged covers batches that an engine gets before the previous batch is written.
func staged() []check {
	return []check{
		{"one on top of another", func(b *bed) {
			s := b.stages()
			b.stage(s.second)
			s.both()
		}},
		{"on top of one that is staged", func(b *bed) {
			s := b.stages()
			b.stage(s.first)
			b.stage(s.second)
			s.both()
		}},
		{"by an owner that knows nothing yet", func(b *bed) {
			s := b.stages()
			b.take()
			s.fence(b)
			b.stage(s.first)
			b.stage(s.second)
			s.both()
		}},
		{"on top of one that fails", func(b *bed) {
			s := b.stages()
			good := s.first.Consumed
			s.first.Consumed = []int64{999}
			b.stage(s.first)
			b.stage(s.second)
			_, err := b.s.Commit(b.ctx, s.first)
			b.is(err, store.ErrFenced)
			_, err = b.s.Commit(b.ctx, s.second)
			b.is(err, store.ErrFenced)
			s.first.Consumed = good // commit the same again, without staging
			s.both()
		}},
		{"and never sent", func(b *bed) {
			s := b.stages()
			b.stage(s.first)
			b.take()
			s.fence(b)
			s.both()
		}},
		{"and made anew in the same place, by the same owner", func(b *bed) {
			s := b.stages()
			s.second.AttemptInserts, s.second.AttemptUpdates = []dag.AttemptRow{b.attempt(s.run.ID, 4, 1)}, nil
			_, err := b.s.Commit(b.ctx, &store.Batch{Fences: s.first.Fences, Consumed: []int64{999}})
			b.is(err, store.ErrFenced)
			b.stage(s.second) // the writer does not know of the failed commit yet
			if e, can := b.s.(store.Stager); can {
				e.Unstage()
			}
			s.second.AttemptInserts[0].Assigned++
			s.all = append(s.all, s.second.AttemptInserts[0])
			s.all[2], s.all[3] = b.attempt(s.run.ID, 2, 1), b.attempt(s.run.ID, 3, 1)
			for _, x := range []*store.Batch{s.first, s.second} {
				_, err := b.s.Commit(b.ctx, x)
				b.ok(err)
			}
			b.same(b.record(s.run.ID).Attempts, s.all, "the attempts")
		}},
		{"and changed before it was sent", func(b *bed) {
			s := b.stages()
			b.stage(s.first)
			s.first.AttemptUpdates = append(s.first.AttemptUpdates, plainly(s.all[1]))
			s.all[1] = plainly(s.all[1]).AttemptRow
			s.both()
		}},
		{"that ends what the one before ended", func(b *bed) {
			s := b.stages()
			s.second.AttemptUpdates = append(s.second.AttemptUpdates, s.first.AttemptUpdates...)
			b.stage(s.first)
			b.stage(s.second)
			b.ok(b.commit(s.first))
			b.fails(s.second, store.ErrFenced)
		}},
	}
}

// stages is a run with two batches. The second batch ends the attempts that the first one assigns.
type stages struct {
	b             *bed
	run           dag.RunRow
	all           []dag.AttemptRow
	first, second *store.Batch
}

func (b *bed) stages() *stages {
	b.Helper()
	s := &stages{b: b, run: b.run(dag.RunRunning)}
	for t := range dag.TaskID(4) {
		s.all = append(s.all, b.attempt(s.run.ID, t, 1))
	}
	b.put(func(x *store.Batch) {
		x.RunInserts, x.AttemptInserts, x.Events = []dag.RunRow{s.run}, s.all[:3:3], []dag.EventRow{event(s.run.ID, 5)}
	})
	s.first, s.second = &store.Batch{}, &store.Batch{}
	s.first.AttemptUpdates = []dag.AttemptUpdate{plainly(s.all[0])}
	s.first.AttemptInserts, s.first.Events = s.all[3:4:4], []dag.EventRow{event(s.run.ID, 6)}
	failed := plainly(s.all[2])
	failed.State, failed.ExitCode = dag.AttemptFailed, 1
	s.second.AttemptUpdates = []dag.AttemptUpdate{plainly(s.all[3]), failed}
	s.second.Events = []dag.EventRow{event(s.run.ID, 7)}
	s.all = []dag.AttemptRow{plainly(s.all[0]).AttemptRow, s.all[1], failed.AttemptRow, plainly(s.all[3]).AttemptRow}
	s.fence(b)
	return s
}

// fence gives the batches the owner's next sequence numbers.
func (s *stages) fence(b *bed) {
	s.first.Fences, s.second.Fences = slices.Clone(b.fences), slices.Clone(b.fences)
	for i := range s.second.Fences {
		s.second.Fences[i].Seq++
	}
}

// both commits both batches. It requires their rows, and that no attempt is open.
func (s *stages) both() {
	s.b.Helper()
	s.b.ok(s.b.commit(s.first))
	s.b.ok(s.b.commit(s.second))
	s.b.same(s.b.record(s.run.ID).Attempts, s.all, "the attempts")
	for _, i := range []int{0, 2, 3} {
		open := s.b.attempt(s.run.ID, dag.TaskID(i), 1)
		x := s.b.batch()
		x.AttemptUpdates, x.Events = []dag.AttemptUpdate{plainly(open)}, []dag.EventRow{event(s.run.ID, 9)}
		s.b.fails(x, store.ErrFenced)
	}
}
