package storetest

import (
	"reflect"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

func fences() []check {
	stale := func(change func(f []store.Fence) []store.Fence) func(b *bed) {
		return func(b *bed) {
			w := b.world()
			x := b.full(&w)
			x.Fences = change(x.Fences)
			b.fails(x, store.ErrFenced)
		}
	}
	last := func(change func(f *store.Fence)) func(b *bed) {
		return stale(func(f []store.Fence) []store.Fence {
			change(&f[len(f)-1])
			return f
		})
	}
	first := func(change func(f *store.Fence)) func(b *bed) {
		return stale(func(f []store.Fence) []store.Fence {
			change(&f[0])
			return f
		})
	}
	return []check{
		{"epoch behind", last(func(f *store.Fence) { f.Epoch-- })},
		{"epoch ahead", last(func(f *store.Fence) { f.Epoch++ })},
		{"seq behind", last(func(f *store.Fence) { f.Seq-- })},
		{"seq ahead", last(func(f *store.Fence) { f.Seq++ })},
		{"first of all shards stale", first(func(f *store.Fence) { f.Seq-- })},
		{"never acquired", first(func(f *store.Fence) { f.Epoch, f.Seq = 0, 0 })},
		{"unknown shard", stale(func(f []store.Fence) []store.Fence {
			return append(f, store.Fence{Shard: 1 << 20, Epoch: 1})
		})},
		{"negative shard", stale(func(f []store.Fence) []store.Fence {
			return append([]store.Fence{{Shard: -1, Epoch: 1}}, f...)
		})},
		{"shard twice", stale(func(f []store.Fence) []store.Fence { return append(f, f[len(f)-1]) })},
		{"shard twice, counted on", stale(func(f []store.Fence) []store.Fence {
			again := f[len(f)-1]
			again.Seq++
			return append(f, again)
		})},
		{"falling order", fallingFences},
		{"old epoch never writes again", oldEpoch},
		{"same batch twice", sameBatchTwice},
		{"empty batch moves seq", emptyBatch},
		{"full batch is applied", fullBatch},
		{"all shards move", allShardsMove},
		{"shards move apart", shardsApart},
		{"rows of a shard without a fence", unfencedShard},
		{"acquire tells previous owner and seq", acquire},
		{"acquire of an unknown shard takes nothing", acquireUnknown},
		{"commit leaves the batch alone", batchUntouched},
	}
}

func fallingFences(b *bed) {
	if len(b.fences) < 2 {
		return // the order of shards needs two of them
	}
	w := b.world()
	x := b.full(&w)
	slices.Reverse(x.Fences)
	b.fails(x, store.ErrFenced)
}

// oldEpoch lets an owner commit after it was stopped for a while and another owner took over. None of its
// writes may succeed, before or after the new owner's commits.
func oldEpoch(b *bed) {
	w := b.world()
	old := slices.Clone(b.fences)
	b.take()
	for round := range 3 {
		x := b.full(&w)
		x.Fences = slices.Clone(old)
		b.fails(x, store.ErrFenced)
		for ahead := range int64(4) {
			for i := range x.Fences {
				x.Fences[i].Seq = b.fences[i].Seq + ahead - 1
			}
			b.fails(x, store.ErrFenced)
		}
		b.add(b.run(dag.RunRunning))
		if round == 1 {
			b.take()
		}
	}
}

func sameBatchTwice(b *bed) {
	x := b.batch()
	b.ok(b.commit(x))
	b.fails(x, store.ErrFenced)
}

func emptyBatch(b *bed) {
	before := slices.Clone(b.fences)
	b.ok(b.commit(b.batch()))
	for i, a := range b.take() {
		if a.Seq != before[i].Seq+1 || a.Epoch != before[i].Epoch+1 {
			b.Fatalf("took %+v after one commit on %+v", a.Fence, before[i])
		}
	}
}

func fullBatch(b *bed) {
	w := b.world()
	x := b.full(&w)
	b.ok(b.commit(x))
	c := b.contents()
	b.same(len(c.Runs), 2, "runs")
	old := c.Runs[0]
	b.same(old.Run.Message, "changed", "the updated run's message")
	b.same(old.Attempts, []dag.AttemptRow{x.AttemptUpdates[0].AttemptRow, x.AttemptInserts[1]}, "attempts")
	b.same(len(old.Events), 2, "events")
	b.same(c.Runs[1], history{store.RunRecord{Run: x.RunInserts[0], Attempts: x.AttemptInserts[:1]},
		[]dag.EventRow{{Run: x.RunInserts[0].ID, Seq: b.fences[0].Seq, At: 6, Records: x.Events[0].Records}}}, "the new run")
	b.same(c.Workflows, []store.Workflow{revised(w.flow), x.WorkflowInserts[0]}, "workflows")
	b.same(len(c.Versions), 2, "versions")
	b.same(len(c.Files), 2, "files")
	b.same(c.Requests, []store.Request{request(0), request(1)}, "requests")
	b.same(len(c.Messages), 1, "messages")
	b.same(c.Messages[0].Payload, []byte("bye"), "the message that is left")
	b.same(c.Schedules, scheduled{
		Triggers: []store.Trigger{x.TriggerUpdates[0], x.TriggerInserts[0]}, Next: 60,
		Due:       []store.Trigger{x.TriggerUpdates[0], x.TriggerInserts[0]},
		Listening: []store.TriggerKey{{Workflow: 1, Name: "after"}}, Sensors: x.TriggerUpdates,
		Fires:     []store.Fire{x.Fires[0], x.FireUpdates[0].Fire},
		Backfills: []store.Backfill{x.BackfillInserts[0], x.BackfillUpdates[0]},
		Runs:      []store.BackfillRun{{Backfill: 1, Workflow: 1, Instant: 100, Run: runID(1)}, x.BackfillRuns[0]},
	}, "triggers, the ledger, backfills")
	for _, a := range b.take() {
		b.same(a.Watermark, x.Watermark, "the watermark")
	}
}

func allShardsMove(b *bed) {
	before := slices.Clone(b.fences)
	for range 3 {
		b.ok(b.commit(b.batch()))
	}
	for i, a := range b.take() {
		b.same(a.Seq, before[i].Seq+3, "seq after three commits")
	}
}

// shardsApart checks that the events of a run carry the seq of the run's own shard.
func shardsApart(b *bed) {
	if len(b.fences) < 2 {
		return
	}
	one, two := b.run(dag.RunRunning), b.run(dag.RunRunning)
	two.Shard = 1
	x := b.batch()
	x.Fences = x.Fences[1:2]
	b.ok(b.commit(x)) // now the seq of shard 1 is higher
	b.put(func(x *store.Batch) {
		x.RunInserts = []dag.RunRow{one, two}
		x.Events = []dag.EventRow{event(two.ID, 1), event(one.ID, 1)}
	})
	for i, id := range []dag.RunID{one.ID, two.ID} {
		events, err := b.s.Events(b.ctx, id, 0, 10)
		b.ok(err)
		b.same(len(events), 1, "events")
		b.same(events[0].Seq, b.fences[i].Seq, "the event's seq")
	}
	b.same(b.fences[1].Seq, b.fences[0].Seq+1, "shard 1 is one ahead")
}

func unfencedShard(b *bed) {
	if len(b.fences) < 2 {
		return
	}
	w := b.world()
	other := b.run(dag.RunRunning)
	other.Shard = 1
	b.add(other)
	only := func() *store.Batch {
		x := b.full(&w)
		x.Fences = x.Fences[:1]
		return x
	}
	x := only()
	x.RunUpdates = append(x.RunUpdates, dag.RunUpdate{RunRow: other, Was: dag.RunRunning})
	b.fails(x, store.ErrFenced)
	x = only()
	other.Shard = 0 // not the shard of the run
	x.RunUpdates = append(x.RunUpdates, dag.RunUpdate{RunRow: other, Was: dag.RunRunning})
	b.fails(x, store.ErrFenced)
	x = only()
	insert := b.run(dag.RunRunning)
	insert.Shard = 1
	x.RunInserts = append(x.RunInserts, insert)
	b.fails(x, store.ErrFenced)
}

func acquire(b *bed) {
	next, err := b.s.Register(b.ctx, uuid(2), "node-2")
	b.ok(err)
	before, old := slices.Clone(b.fences), b.owner
	b.owner = next.ID
	for i, a := range b.take() {
		want := store.Fence{Shard: before[i].Shard, Epoch: before[i].Epoch + 1, Seq: before[i].Seq}
		b.same(a.Fence, want, "the fence")
		b.same(a.Previous, old, "the previous owner")
		if a.Now <= 0 {
			b.Fatalf("acquire returned the clock %d", a.Now)
		}
	}
	for _, a := range b.take() {
		b.same(a.Previous, next.ID, "the previous owner, once more")
	}
}

func acquireUnknown(b *bed) {
	for _, unknown := range []dag.ShardID{-1, 1 << 20} {
		_, err := b.s.Acquire(b.ctx, b.owner, []dag.ShardID{0, unknown})
		if err == nil {
			b.Fatalf("acquired shard %d", unknown)
		}
	}
	b.ok(b.commit(b.batch())) // the writer is still the owner
}

func batchUntouched(b *bed) {
	w := b.world()
	x := b.full(&w)
	before := tidy(*x)
	b.ok(b.commit(x))
	if !reflect.DeepEqual(tidy(*x), before) {
		b.Fatalf("commit changed the batch:\n got %+v\nwant %+v", *x, before)
	}
}

// guests covers writers that are not the owner.
func guests() []check {
	refuse := func(fill func(b *bed, w *world, x *store.Batch)) func(b *bed) {
		return func(b *bed) {
			w := b.world()
			x := &store.Batch{}
			x.RunInserts = []dag.RunRow{b.run(dag.RunSubmitted)}
			x.Requests = []store.Request{request(1)}
			fill(b, &w, x)
			b.fails(x, store.ErrFenced)
		}
	}
	return []check{
		{"may insert submitted runs, messages, requests", guestInserts},
		{"may not insert a running run", refuse(func(b *bed, _ *world, x *store.Batch) {
			x.RunInserts = append(x.RunInserts, b.run(dag.RunRunning))
		})},
		{"may not insert a finished run", refuse(func(b *bed, _ *world, x *store.Batch) {
			x.RunInserts = append(x.RunInserts, b.run(dag.RunSucceeded))
		})},
		{"may not update a run", refuse(func(_ *bed, w *world, x *store.Batch) {
			x.RunUpdates = []dag.RunUpdate{{RunRow: w.run, Was: w.run.State}}
		})},
		{"may not insert an attempt", refuse(func(b *bed, w *world, x *store.Batch) {
			x.AttemptInserts = []dag.AttemptRow{b.attempt(w.run.ID, 5, 1)}
		})},
		{"may not update an attempt", refuse(func(_ *bed, w *world, x *store.Batch) {
			x.AttemptUpdates = []dag.AttemptUpdate{ended(w.attempt)}
		})},
		{"may not write history", refuse(func(_ *bed, w *world, x *store.Batch) {
			x.Events = []dag.EventRow{event(w.run.ID, 9)}
		})},
		{"may not insert a workflow", refuse(func(_ *bed, _ *world, x *store.Batch) {
			x.WorkflowInserts = []store.Workflow{workflow(2, "second")}
		})},
		{"may not update a workflow", refuse(func(_ *bed, w *world, x *store.Batch) {
			x.WorkflowUpdates = []store.Workflow{revised(w.flow)}
		})},
		{"may not insert a version", refuse(func(_ *bed, _ *world, x *store.Batch) {
			x.Versions = []store.Version{version(1, 2)}
		})},
		{"may not consume a message", refuse(func(_ *bed, w *world, x *store.Batch) {
			x.Consumed = []int64{w.message.ID}
		})},
		{"may not insert a trigger", refuse(func(_ *bed, _ *world, x *store.Batch) {
			x.TriggerInserts = []store.Trigger{trigger(2, "second", "cron")}
		})},
		{"may not update a trigger", refuse(func(_ *bed, w *world, x *store.Batch) {
			x.TriggerUpdates = []store.Trigger{moved(w.trigger)}
		})},
		{"may not delete a trigger", refuse(func(_ *bed, w *world, x *store.Batch) {
			x.TriggerDeletes = []store.Trigger{w.trigger}
		})},
		{"may not write a fire", refuse(func(_ *bed, _ *world, x *store.Batch) {
			x.Fires = []store.Fire{fire(1, "after", 300)}
		})},
		{"may not change a fire", refuse(func(_ *bed, w *world, x *store.Batch) {
			x.FireUpdates = []store.FireUpdate{again(w.line)}
		})},
		{"may not insert a backfill", refuse(func(_ *bed, _ *world, x *store.Batch) {
			x.BackfillInserts = []store.Backfill{backfill(2)}
		})},
		{"may not update a backfill", refuse(func(_ *bed, w *world, x *store.Batch) {
			x.BackfillUpdates = []store.Backfill{progressed(w.backfill)}
		})},
		{"may not write a backfill's run", refuse(func(_ *bed, _ *world, x *store.Batch) {
			x.BackfillRuns = []store.BackfillRun{{Backfill: 1, Instant: 300, Run: runID(1)}}
		})},
		{"may not raise the watermark", refuse(func(_ *bed, _ *world, x *store.Batch) { x.Watermark = 300 })},
		{"of an unknown shard", guestOfNowhere},
	}
}

func guestInserts(b *bed) {
	before := slices.Clone(b.fences)
	r := b.run(dag.RunSubmitted)
	x := &store.Batch{Requests: []store.Request{request(1)}, Messages: []store.Message{{Payload: []byte("x"), Created: 3}}}
	x.RunInserts = []dag.RunRow{r}
	b.ok(b.commit(x))
	b.ok(b.commit(&store.Batch{}))
	c := b.contents()
	b.same(c.Runs, []history{{RunRecord: store.RunRecord{Run: r}}}, "runs")
	b.same(c.Requests, []store.Request{request(1)}, "requests")
	b.same(len(c.Messages), 1, "messages")
	for i, a := range b.take() {
		b.same(a.Seq, before[i].Seq, "a guest's commit is none of the shard's: seq")
	}
}

// guestOfNowhere checks that a run or a message is refused if no owner would find it.
func guestOfNowhere(b *bed) {
	r := b.run(dag.RunSubmitted)
	r.Shard = 1 << 20
	x := &store.Batch{}
	x.RunInserts = []dag.RunRow{b.run(dag.RunSubmitted), r}
	b.fails(x, store.ErrRefused, store.ErrFenced)
	x = &store.Batch{Messages: []store.Message{{To: 1 << 20, Payload: []byte("x"), Created: 3}}}
	b.fails(x, store.ErrRefused, store.ErrFenced)
}
