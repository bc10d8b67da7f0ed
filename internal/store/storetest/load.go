package storetest

import (
	"bytes"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// loads covers the reads by which a new owner continues.
func loads() []check {
	return []check{
		{"pages of unfinished runs in their order", loadPages},
		{"a run that ends leaves, one that recovers returns", loadFollowsState},
		{"by ids, finished or not, unknown left out", loadByIDs},
		{"no ids named", func(b *bed) {
			b.world()
			loaded, err := b.s.Load(b.ctx, store.LoadQuery{IDs: []dag.RunID{}, Limit: 10})
			b.ok(err)
			b.same(len(loaded), 0, "loaded")
		}},
		{"only of the shard", loadShard},
		{"without a limit", func(b *bed) {
			w := b.world()
			loaded, err := b.s.Load(b.ctx, store.LoadQuery{})
			b.ok(err)
			b.same(len(loaded), 1, "loaded")
			b.same(loaded[0].Run, w.run, "the run")
		}},
		{"outputs up to 64 KiB", loadOutputs},
		{"attempts by task, then token", loadAttemptOrder},
		{"inserted by a guest", loadGuests},
		{"among many that have ended", loadFew},
		{"how they stand", standing},
		{"how they stand, by pages", standingPages},
	}
}

// loadIDs reads the ids of all unfinished runs of shard 0, in pages.
func (b *bed) loadIDs(limit int) []dag.RunID {
	b.Helper()
	var all []dag.RunID
	for after := (dag.RunID{}); ; {
		page, err := b.s.Load(b.ctx, store.LoadQuery{After: after, Limit: limit})
		b.ok(err)
		if len(page) > limit {
			b.Fatalf("a page of %d runs, limit %d", len(page), limit)
		}
		for _, rec := range page {
			all = append(all, rec.Run.ID)
			after = rec.Run.ID
		}
		if len(page) == 0 {
			return all
		}
	}
}

func loadPages(b *bed) {
	var rows []dag.RunRow
	var want []dag.RunID
	for n := range 23 {
		state := dag.RunState(n) % (dag.RunSkipped + 1)
		r := b.run(state)
		rows = append(rows, r)
		if !state.Terminal() {
			want = append(want, r.ID)
		}
	}
	b.add(rows...)
	for _, limit := range []int{1, 2, 7, len(want), 1000} {
		b.same(b.loadIDs(limit), want, "ids by pages")
	}
}

func loadFollowsState(b *bed) {
	one, two := b.run(dag.RunRunning), b.run(dag.RunRunning)
	b.add(one, two)
	move := func(r *dag.RunRow, to dag.RunState, finished dag.Micros) {
		was := r.State
		r.State, r.FinishedAt = to, finished
		b.put(func(x *store.Batch) { x.RunUpdates = []dag.RunUpdate{{RunRow: *r, Was: was}} })
	}
	move(&one, dag.RunFailed, 9)
	b.same(b.loadIDs(10), []dag.RunID{two.ID}, "after the first ended")
	move(&one, dag.RunRunning, 0)
	b.same(b.loadIDs(10), []dag.RunID{one.ID, two.ID}, "after it was recovered")
	runs, err := b.s.Unfinished(b.ctx)
	b.ok(err)
	b.same(runs["running"], 2, "running runs")
}

func loadByIDs(b *bed) {
	one, two, three := b.run(dag.RunRunning), b.run(dag.RunSucceeded), b.run(dag.RunSubmitted)
	b.put(func(x *store.Batch) {
		x.RunInserts = []dag.RunRow{one, two, three}
		x.AttemptInserts = []dag.AttemptRow{b.attempt(two.ID, 0, 1)}
	})
	loaded, err := b.s.Load(b.ctx, store.LoadQuery{IDs: []dag.RunID{runID(99), two.ID, one.ID}})
	b.ok(err)
	slices.SortFunc(loaded, func(x, y store.RunRecord) int { return bytes.Compare(x.Run.ID[:], y.Run.ID[:]) })
	b.same(loaded, []store.RunRecord{{Run: one}, {Run: two, Attempts: []dag.AttemptRow{b.attempt(two.ID, 0, 1)}}}, "loaded")
}

func loadShard(b *bed) {
	r := b.run(dag.RunRunning)
	b.add(r)
	last := b.fences[len(b.fences)-1].Shard
	for _, shard := range []dag.ShardID{last, last + 1} {
		loaded, err := b.s.Load(b.ctx, store.LoadQuery{Shard: shard, Limit: 10})
		b.ok(err)
		if got := len(loaded) == 1; got != (shard == 0) {
			b.Fatalf("loaded %d runs of shard %d", len(loaded), shard)
		}
	}
}

func loadOutputs(b *bed) {
	r := b.run(dag.RunRunning)
	b.add(r)
	for task, size := range []int{0, 1, 64 << 10, 64<<10 + 1, 1 << 20} {
		a := b.attempt(r.ID, dag.TaskID(task), 1)
		if size > 0 {
			a.Outputs = bytes.Repeat([]byte("o"), size)
		}
		b.put(func(x *store.Batch) { x.AttemptInserts = []dag.AttemptRow{a} })
	}
	for _, q := range []store.LoadQuery{{Limit: 10}, {IDs: []dag.RunID{r.ID}}} {
		loaded, err := b.s.Load(b.ctx, q)
		b.ok(err)
		for task, want := range []int{0, 1, 64 << 10, 0, 0} {
			out := loaded[0].Attempts[task].Outputs
			if len(out) != want || want == 0 && out != nil {
				b.Fatalf("outputs of task %d: %d bytes (nil: %v), want %d", task, len(out), out == nil, want)
			}
		}
	}
}

func loadAttemptOrder(b *bed) {
	r := b.run(dag.RunRunning)
	b.add(r)
	want := []dag.AttemptRow{b.attempt(r.ID, dag.LeaderTask, 1), b.attempt(r.ID, 0, 1), b.attempt(r.ID, 0, 2),
		b.attempt(r.ID, 0, 300), b.attempt(r.ID, 2, 1), b.attempt(r.ID, 70_000, 1)}
	b.put(func(x *store.Batch) {
		x.AttemptInserts = slices.Clone(want)
		slices.Reverse(x.AttemptInserts)
	})
	loaded, err := b.s.Load(b.ctx, store.LoadQuery{Limit: 1})
	b.ok(err)
	b.same(loaded[0].Attempts, want, "attempts")
}

// loadGuests checks that an owner finds runs that others have inserted, even if their ids are older than the
// newest id that it has read.
func loadGuests(b *bed) {
	older, seen := b.run(dag.RunSubmitted), b.run(dag.RunRunning)
	b.add(seen)
	x := &store.Batch{}
	x.RunInserts = []dag.RunRow{older}
	b.ok(b.commit(x))
	got := b.loadIDs(1)
	slices.SortFunc(got, func(x, y dag.RunID) int { return bytes.Compare(x[:], y[:]) })
	b.same(got, []dag.RunID{older.ID, seen.ID}, "ids")
	u := dag.RunUpdate{RunRow: older, Was: dag.RunSubmitted}
	u.State = dag.RunRunning
	b.put(func(x *store.Batch) { x.RunUpdates = []dag.RunUpdate{u} })
}

// loadFew checks that an owner finds the few unfinished runs among 6,000 ended ones.
func loadFew(b *bed) {
	var want []dag.RunID
	for part := range 6 {
		var rows []dag.RunRow
		for n := range 1000 {
			state := dag.RunSucceeded
			if n%977 == part*150 {
				state = dag.RunRunning
			}
			r := b.run(state)
			rows = append(rows, r)
			if state == dag.RunRunning {
				want = append(want, r.ID)
			}
		}
		b.add(rows...)
	}
	b.same(b.loadIDs(3), want, "ids")
	b.put(func(x *store.Batch) {
		for _, id := range want[1:] {
			r := dag.RunRow{Header: dag.Header{ID: id}, State: dag.RunStopped, Generation: 1, FinishedAt: 1}
			x.RunUpdates = append(x.RunUpdates, dag.RunUpdate{RunRow: r, Was: dag.RunRunning})
		}
	})
	b.same(b.loadIDs(3), want[:1], "ids after most have ended")
}
