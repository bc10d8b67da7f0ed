package storetest

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// scheduleGuards covers changes of rows whose state differs from what the writer expects, and contents that
// every engine must refuse.
func scheduleGuards() []check {
	fenced := func(spoil func(w *world, x *store.Batch)) func(b *bed) {
		return wrong(store.ErrFenced, func(_ *bed, w *world, x *store.Batch) { spoil(w, x) })
	}
	refused := func(spoil func(w *world, x *store.Batch)) func(b *bed) {
		return wrong(store.ErrRefused, func(_ *bed, w *world, x *store.Batch) { spoil(w, x) })
	}
	return []check{
		{"update of a trigger that does not exist", fenced(func(_ *world, x *store.Batch) { x.TriggerUpdates[0].Name = "other" })},
		{"update of another workflow's trigger", fenced(func(_ *world, x *store.Batch) { x.TriggerUpdates[0].Workflow = 2 })},
		{"update of a trigger at the same revision", fenced(func(_ *world, x *store.Batch) { x.TriggerUpdates[0].Revision-- })},
		{"update of a trigger two revisions on", fenced(func(_ *world, x *store.Batch) { x.TriggerUpdates[0].Revision++ })},
		{"trigger updated twice from one revision", fenced(func(w *world, x *store.Batch) {
			x.TriggerUpdates = append(x.TriggerUpdates, moved(w.trigger))
		})},
		{"change of what a trigger hears of at the same revision", fenced(func(_ *world, x *store.Batch) {
			x.TriggerUpdates[0].On = []string{"default/second"}
			x.TriggerUpdates[0].Revision--
		})},
		{"delete of a trigger that does not exist", fenced(func(_ *world, x *store.Batch) { x.TriggerDeletes[0].Name = "other" })},
		{"delete of another revision", fenced(func(_ *world, x *store.Batch) { x.TriggerDeletes[0].Revision++ })},
		{"delete of the revision before", fenced(func(w *world, x *store.Batch) { x.TriggerDeletes = []store.Trigger{w.trigger} })},
		{"trigger deleted twice", fenced(func(w *world, x *store.Batch) { x.TriggerDeletes = append(x.TriggerDeletes, w.gone) })},
		{"update of a line that does not exist", fenced(func(_ *world, x *store.Batch) { x.FireUpdates[0].At++ })},
		{"update of a line with another key", fenced(func(_ *world, x *store.Batch) { x.FireUpdates[0].Key = "event" })},
		{"update of a line with another outcome", fenced(func(_ *world, x *store.Batch) { x.FireUpdates[0].WasOutcome = store.OutcomeMissed })},
		{"update of a line with another count", fenced(func(_ *world, x *store.Batch) { x.FireUpdates[0].WasCount++ })},
		{"line updated twice from one count", fenced(func(w *world, x *store.Batch) { x.FireUpdates = append(x.FireUpdates, again(w.line)) })},
		{"update of a backfill that does not exist", fenced(func(_ *world, x *store.Batch) { x.BackfillUpdates[0].ID = 3 })},
		{"update of a backfill at the same revision", fenced(func(_ *world, x *store.Batch) { x.BackfillUpdates[0].Revision-- })},
		{"update of a backfill two revisions on", fenced(func(_ *world, x *store.Batch) { x.BackfillUpdates[0].Revision++ })},

		{"trigger exists", refused(func(w *world, x *store.Batch) { x.TriggerInserts = append(x.TriggerInserts, w.trigger) })},
		{"trigger exists at another revision", refused(func(w *world, x *store.Batch) { x.TriggerInserts = append(x.TriggerInserts, moved(w.trigger)) })},
		{"trigger twice in a batch", refused(func(_ *world, x *store.Batch) { x.TriggerInserts = append(x.TriggerInserts, x.TriggerInserts[0]) })},
		{"trigger in an unknown state", refused(func(_ *world, x *store.Batch) { x.TriggerInserts[0].State = "asleep" })},
		{"trigger into an unknown state", refused(func(_ *world, x *store.Batch) { x.TriggerUpdates[0].State = "" })},
		{"trigger on an unknown shard", refused(func(_ *world, x *store.Batch) { x.TriggerInserts[0].Shard = 1 << 20 })},
		{"too long a declaration", refused(func(_ *world, x *store.Batch) { x.TriggerInserts[0].Spec = make([]byte, store.SpecBytesMax+1) })},
		{"an update to too long a declaration", refused(func(_ *world, x *store.Batch) { x.TriggerUpdates[0].Spec = make([]byte, store.SpecBytesMax+1) })},
		{"too much data", refused(func(_ *world, x *store.Batch) { x.TriggerInserts[0].Data = make([]byte, store.DataBytesMax+1) })},
		{"an update to too much data", refused(func(_ *world, x *store.Batch) { x.TriggerUpdates[0].Data = make([]byte, store.DataBytesMax+1) })},
		{"fire exists", refused(func(w *world, x *store.Batch) { x.Fires = append(x.Fires, w.line) })},
		{"fire exists with another outcome", refused(func(w *world, x *store.Batch) {
			line := w.line
			line.Outcome, line.Run, line.Decided = store.OutcomeFired, runID(1), 999
			x.Fires = append(x.Fires, line)
		})},
		{"fire twice in a batch", refused(func(_ *world, x *store.Batch) { x.Fires = append(x.Fires, x.Fires[0]) })},
		{"fire with an unknown outcome", refused(func(_ *world, x *store.Batch) { x.Fires[0].Outcome = store.FireUnfired })},
		{"fire to an unknown outcome", refused(func(_ *world, x *store.Batch) { x.FireUpdates[0].Outcome = "" })},
		{"backfill exists", refused(func(_ *world, x *store.Batch) { x.BackfillInserts[0].ID = 1 })},
		{"backfill in an unknown state", refused(func(_ *world, x *store.Batch) { x.BackfillInserts[0].State = "" })},
		{"backfill into an unknown state", refused(func(_ *world, x *store.Batch) { x.BackfillUpdates[0].State = "asleep" })},
		{"backfill on an unknown shard", refused(func(_ *world, x *store.Batch) { x.BackfillInserts[0].Shard = 1 << 20 })},
		{"too long a request", refused(func(_ *world, x *store.Batch) { x.BackfillInserts[0].Spec = make([]byte, store.SpecBytesMax+1) })},
		{"backfill has a run for the instant", refused(func(_ *world, x *store.Batch) { x.BackfillRuns[0].Instant = 100 })},
		{"two runs for an instant in a batch", refused(func(_ *world, x *store.Batch) { x.BackfillRuns = append(x.BackfillRuns, x.BackfillRuns[0]) })},
	}
}

func due() []check {
	return []check{
		{"the earliest first, up to an instant", dueOrder},
		{"it follows what triggers do", dueFollows},
		{"only of the shards that are asked for", dueShards},
		{"few among many", dueFew},
	}
}

func nexts(due []store.Trigger) (all []dag.Micros) {
	for _, t := range due {
		all = append(all, t.Next)
	}
	return all
}

func dueOrder(b *bed) {
	var want []dag.Micros
	b.put(func(x *store.Batch) {
		for n := range 40 {
			t := trigger(dag.WorkflowID(n%3+1), key(n), "cron")
			if t.Next = dag.Micros(n*17%40) / 2; n%9 == 5 {
				t.Next = -t.Next - 1 // a negative instant means never due
			}
			if t.Next > 0 {
				want = append(want, t.Next)
			}
			x.TriggerInserts = append(x.TriggerInserts, t)
		}
	})
	slices.Sort(want)
	for _, until := range []dag.Micros{math.MinInt64, -1, 0, 1, want[0], want[7], want[7] + 1, want[len(want)-1], math.MaxInt64} {
		upTo, _ := slices.BinarySearch(want, until+1)
		if until == math.MaxInt64 {
			upTo = len(want)
		}
		for _, limit := range []int{1, 5, len(want), 1000, 0} {
			got, err := b.s.Due(b.ctx, b.shards(), until, limit)
			b.ok(err)
			n := upTo
			if limit > 0 {
				n = min(n, limit)
			}
			b.same(nexts(got), want[:n], fmt.Sprintf("due until %d, limit %d", until, limit))
		}
	}
	next, err := b.s.NextDue(b.ctx, b.shards())
	b.ok(err)
	b.same(next, want[0], "the next")
}

func dueFollows(b *bed) {
	is := func(want ...dag.Micros) {
		b.Helper()
		got, err := b.s.Due(b.ctx, b.shards(), 1000, 10)
		b.ok(err)
		b.same(nexts(got), want, "due")
		next, err := b.s.NextDue(b.ctx, b.shards())
		b.ok(err)
		b.same(next, append(want, 0)[0], "the next")
	}
	is()
	one, two := trigger(1, "one", "cron"), trigger(1, "two", "every")
	one.Next, two.Next = 10, 20
	b.put(func(x *store.Batch) { x.TriggerInserts = []store.Trigger{one, two} })
	is(10, 20)
	one = moved(one)
	b.put(func(x *store.Batch) { x.TriggerUpdates = []store.Trigger{one} })
	is(20, 70)
	two.Next, two.State = 0, store.TriggerPaused
	two.Revision++
	b.put(func(x *store.Batch) { x.TriggerUpdates = []store.Trigger{two} })
	is(70)
	two.Next, two.State = 15, store.TriggerActive
	two.Revision++
	b.put(func(x *store.Batch) { x.TriggerUpdates = []store.Trigger{two} })
	is(15, 70)
	b.put(func(x *store.Batch) { x.TriggerDeletes = []store.Trigger{two} })
	is(70)
	x := b.batch()
	x.TriggerUpdates = []store.Trigger{moved(one)}
	x.TriggerDeletes = []store.Trigger{two}
	b.fails(x, store.ErrFenced)
	is(70)
}

func dueShards(b *bed) {
	b.put(func(x *store.Batch) {
		for i, f := range b.fences {
			t := trigger(dag.WorkflowID(i+1), "nightly", "cron")
			t.Shard, t.Next = f.Shard, dag.Micros(100-i)
			x.TriggerInserts = append(x.TriggerInserts, t)
		}
	})
	last := len(b.fences) - 1
	for _, c := range []struct {
		shards []dag.ShardID
		want   []dag.Micros
	}{
		{b.shards()[:1], []dag.Micros{100}},
		{b.shards()[last:], []dag.Micros{dag.Micros(100 - last)}},
		{append(b.shards()[:1], 1<<20), []dag.Micros{100}},
		{[]dag.ShardID{1 << 20}, nil},
		{nil, nil},
	} {
		got, err := b.s.Due(b.ctx, c.shards, 1000, 10)
		b.ok(err)
		b.same(nexts(got), c.want, fmt.Sprintf("due of shards %v", c.shards))
		next, err := b.s.NextDue(b.ctx, c.shards)
		b.ok(err)
		b.same(next, append(slices.Clone(c.want), 0)[0], "the next")
	}
	got, err := b.s.Due(b.ctx, b.shards(), 1000, 10)
	b.ok(err)
	b.same(len(got), min(len(b.fences), 10), "due of all shards")
	if !slices.IsSorted(nexts(got)) {
		b.Fatalf("due of all shards: %v", nexts(got))
	}
}

// dueFew makes many triggers due at the same instant while thousands of others wait. Each read returns a page
// of due triggers, until all of them have moved on.
func dueFew(b *bed) {
	const many, at = 3000, 50
	for part := range 3 {
		b.put(func(x *store.Batch) {
			for n := range many / 3 {
				t := trigger(dag.WorkflowID(n+1), key(part), "cron")
				if t.Next = 1000 + dag.Micros(n); n%4 == 0 {
					t.Next = at
				}
				x.TriggerInserts = append(x.TriggerInserts, t)
			}
		})
	}
	fired := 0
	for {
		due, err := b.s.Due(b.ctx, b.shards(), at, 100)
		b.ok(err)
		if len(due) == 0 {
			break
		}
		b.put(func(x *store.Batch) {
			for _, t := range due {
				x.TriggerUpdates = append(x.TriggerUpdates, moved(t))
				x.Fires = append(x.Fires, fire(t.Workflow, t.Name, t.Next))
			}
		})
		fired += len(due)
	}
	b.same(fired, many/4, "fired")
	b.same(len(b.fires(store.FireQuery{}, 333)), many/4, "lines of the ledger")
}

func ledger() []check {
	return []check{
		{"lines with every field", fireFields},
		{"a line is found by its event or its instant", fireByKey},
		{"equal lines become one", fireCollapses},
		{"the same instant and the same event once", fireOnce},
		{"every filter, by pages of every size", fireQueries},
		{"pages while lines are added", firePagesStable},
		{"a line that changes moves in the list", fireMoves},
	}
}

// fires reads all pages of a query.
func (b *bed) fires(q store.FireQuery, limit int) []store.Fire {
	b.Helper()
	var all []store.Fire
	for q.Limit = limit; ; {
		page, err := b.s.Fires(b.ctx, q)
		b.ok(err)
		if limit > 0 && len(page) > limit {
			b.Fatalf("a page of %d fires, limit %d", len(page), limit)
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		q.Before = placeOf(&page[len(page)-1])
	}
}

func placeOf(f *store.Fire) store.FireKey {
	return store.FireKey{Decided: f.Decided, Workflow: f.Workflow, Trigger: f.Trigger, At: f.At, Key: f.Key}
}

// newestFirst compares lines in the order of lists.
func newestFirst(a, b store.Fire) int {
	return cmp.Or(cmp.Compare(b.Decided, a.Decided), cmp.Compare(b.Workflow, a.Workflow), strings.Compare(b.Trigger, a.Trigger),
		cmp.Compare(b.At, a.At), strings.Compare(b.Key, a.Key))
}

func fireFields(b *bed) {
	for i, f := range []store.Fire{
		{Workflow: 3, Trigger: "każdej nocy", At: 5, Key: "événement 😀", Last: 6, Count: 7, Outcome: store.OutcomeLate, Reason: "rien", Run: runID(1), Decided: 8},
		{Workflow: 3, Trigger: "bare", Outcome: store.OutcomeFired},
		{Workflow: math.MaxInt64, Trigger: "greatest", At: math.MaxInt64 - 1, Last: math.MaxInt64, Count: math.MaxInt64, Outcome: store.OutcomeMerged, Decided: math.MaxInt64},
		{Workflow: 1, Trigger: "least", At: math.MinInt64, Last: -1, Count: -1, Outcome: store.OutcomeMissed, Decided: math.MinInt64, Run: dag.RunID{15: 1}},
		{Workflow: 1, Trigger: strings.Repeat("t", 128), Key: strings.Repeat("é", 250), Reason: store.Reason(strings.Repeat("r", 1<<16)), Count: 1, Outcome: store.OutcomeSkipped},
	} {
		b.put(func(x *store.Batch) { x.Fires = []store.Fire{f} })
		last, err := b.s.LastFire(b.ctx, f.Workflow, f.Trigger)
		b.ok(err)
		b.same(last, f, "the last line")
		found, err := b.s.FireByKey(b.ctx, store.TriggerKey{Workflow: f.Workflow, Name: f.Trigger}, f.At, f.Key)
		b.ok(err)
		b.same(found, f, "the line by its key")
		b.same(b.fires(store.FireQuery{Workflow: f.Workflow, Trigger: f.Trigger}, 5), []store.Fire{f}, "the list of the trigger")
		b.same(len(b.fires(store.FireQuery{}, 1)), i+1, "lines")
	}
}

func fireByKey(b *bed) {
	span := fire(1, "nightly", 100)
	span.Last, span.Count = 160, 2
	one, far := fire(1, "nightly", 200), fire(1, "nightly", 300)
	event, same := fire(1, "nightly", 150), fire(1, "nightly", 150)
	event.Key, same.Key = "a", "b"
	newer := fire(1, "nightly", 170)
	newer.Key = "a"
	other, another := fire(1, "other", 130), fire(2, "nightly", 180)
	b.put(func(x *store.Batch) { x.Fires = []store.Fire{far, event, span, other, newer, one, another, same} })
	for _, c := range []struct {
		at   dag.Micros
		key  string
		want *store.Fire
	}{
		{99, "", nil}, {100, "", &span}, {101, "", &span}, {150, "", &span}, {160, "", &span}, {161, "", nil}, {180, "", nil},
		{200, "", &one}, {201, "", nil}, {300, "", &far}, {math.MaxInt64, "", nil}, {math.MinInt64, "", nil},
		{0, "a", &newer}, {150, "a", &newer}, {9999, "a", &newer}, {0, "b", &same}, {150, "c", nil}, {150, "A", nil},
	} {
		got, err := b.s.FireByKey(b.ctx, store.TriggerKey{Workflow: 1, Name: "nightly"}, c.at, c.key)
		if c.want == nil {
			b.is(err, store.ErrNotFound)
			continue
		}
		b.ok(err)
		b.same(got, *c.want, fmt.Sprintf("the line at %d with key %q", c.at, c.key))
	}
	for trigger, want := range map[string]store.Fire{"nightly": far, "other": other} {
		last, err := b.s.LastFire(b.ctx, 1, trigger)
		b.ok(err)
		b.same(last, want, "the last line")
	}
	tied := fire(1, "nightly", 300)
	tied.Key = "z"
	b.put(func(x *store.Batch) { x.Fires = []store.Fire{tied} })
	last, err := b.s.LastFire(b.ctx, 1, "nightly")
	b.ok(err)
	b.same(last, tied, "the last line, by its key")
}

func fireCollapses(b *bed) {
	line := fire(1, "nightly", 100)
	b.put(func(x *store.Batch) { x.Fires = []store.Fire{line} })
	for range 5 {
		u := again(line)
		b.put(func(x *store.Batch) { x.FireUpdates = []store.FireUpdate{u} })
		line = u.Fire
		b.same(b.fires(store.FireQuery{}, 5), []store.Fire{line}, "the ledger")
		found, err := b.s.FireByKey(b.ctx, store.TriggerKey{Workflow: 1, Name: "nightly"}, line.Last, "")
		b.ok(err)
		b.same(found, line, "the line of its last instant")
	}
	for _, next := range []store.Fire{ // they differ in every column except the key
		{Last: 1, Count: 2, Outcome: store.OutcomeMissed, Reason: "began too late", Run: runID(7), Decided: 3},
		{Outcome: store.OutcomeMerged},
		{Last: math.MaxInt64, Count: math.MaxInt64, Outcome: store.OutcomeLate, Reason: "é", Run: runID(8), Decided: math.MaxInt64},
	} {
		u := store.FireUpdate{Fire: next, WasOutcome: line.Outcome, WasCount: line.Count}
		u.Workflow, u.Trigger, u.At, u.Key = line.Workflow, line.Trigger, line.At, line.Key
		b.put(func(x *store.Batch) { x.FireUpdates = []store.FireUpdate{u} })
		line = u.Fire
		last, err := b.s.LastFire(b.ctx, 1, "nightly")
		b.ok(err)
		b.same(last, line, "the line")
		b.same(b.fires(store.FireQuery{Outcome: line.Outcome}, 5), []store.Fire{line}, "lines of its outcome")
		b.same(len(b.fires(store.FireQuery{Outcome: store.FireUnfired}, 5)) == 1, line.Run.IsZero(), "whether it is unfired")
	}
}

func fireOnce(b *bed) {
	line := fire(1, "nightly", 100)
	var apart []store.Fire // lines that differ from line in one column of the key
	for _, change := range []func(f *store.Fire){
		func(f *store.Fire) { f.Workflow++ }, func(f *store.Fire) { f.Trigger = "Nightly" },
		func(f *store.Fire) { f.At++; f.Last++ }, func(f *store.Fire) { f.Key = "event" },
	} {
		f := line
		change(&f)
		apart = append(apart, f)
	}
	b.put(func(x *store.Batch) { x.Fires = append(apart, line) })
	for _, f := range append(apart, line) {
		x := b.batch()
		x.Fires = []store.Fire{f}
		x.RunInserts = []dag.RunRow{b.run(dag.RunSubmitted)}
		b.fails(x, store.ErrRefused)
	}
}

func fireQueries(b *bed) {
	outcomes := []string{store.OutcomeFired, store.OutcomeLate, store.OutcomeSkipped, store.OutcomeMerged, store.OutcomeMissed}
	var all []store.Fire
	for n := range 90 {
		f := fire(dag.WorkflowID(n%2+1), fmt.Sprintf("t%d", n%3), dag.Micros(1000+n*10))
		f.Last, f.Outcome, f.Decided = f.At+dag.Micros(n%4*10), outcomes[n*7%5], dag.Micros(5000+n*13%31)
		if n%6 == 1 {
			f.Key = key(n)
		}
		if f.Outcome == store.OutcomeFired || n%5 == 2 {
			f.Run = runID(uint32(n + 1))
		}
		all = append(all, f)
	}
	b.put(func(x *store.Batch) { x.Fires = slices.Clone(all) })
	slices.SortFunc(all, newestFirst)
	var queries []store.FireQuery
	for _, q := range []store.FireQuery{{}, {Workflow: 1}, {Workflow: 2, Trigger: "t1"}, {Workflow: 1, Trigger: "t9"}, {Workflow: 9}} {
		for _, q.Outcome = range append(outcomes, "", store.FireUnfired) {
			queries = append(queries, q)
			for _, span := range [][2]dag.Micros{{1300, 0}, {0, 1300}, {1200, 1500}, {1305, 1305}, {5000, 0}, {0, 999}} {
				q := q
				q.From, q.Until = span[0], span[1]
				queries = append(queries, q)
			}
		}
	}
	for _, q := range queries {
		var want []store.Fire
		for _, f := range all {
			if (q.Workflow == 0 || f.Workflow == q.Workflow) && (q.Trigger == "" || f.Trigger == q.Trigger) &&
				(q.Outcome == "" || f.Outcome == q.Outcome || q.Outcome == store.FireUnfired && f.Run.IsZero()) &&
				f.Last >= q.From && (q.Until == 0 || f.At <= q.Until) {
				want = append(want, f)
			}
		}
		for _, limit := range []int{1, 3, 1000, 0} {
			if limit == 1 && len(want) > 20 {
				continue // this case is slow, and finds no more faults than the limit 3
			}
			b.same(b.fires(q, limit), want, fmt.Sprintf("fires of %+v by %d", q, limit))
		}
	}
}

func firePagesStable(b *bed) {
	var want []store.Fire
	for n := range 20 {
		want = append(want, fire(dag.WorkflowID(n%2+1), "nightly", dag.Micros(100+n/2)))
	}
	b.put(func(x *store.Batch) { x.Fires = slices.Clone(want) })
	slices.SortFunc(want, newestFirst)
	for _, q := range []store.FireQuery{{}, {Workflow: 2}, {Outcome: store.FireUnfired}, {Workflow: 1, Trigger: "nightly"}} {
		var got, expect []store.Fire
		for _, f := range want {
			if q.Workflow == 0 || f.Workflow == q.Workflow {
				expect = append(expect, f)
			}
		}
		at := dag.Micros(100_000)
		if last, err := b.s.LastFire(b.ctx, 1, "nightly"); err == nil {
			at = max(at, last.At)
		}
		q.Before = store.FireKey{Decided: 100_000} // all following lines are newer
		for q.Limit = 3; ; {
			page, err := b.s.Fires(b.ctx, q)
			b.ok(err)
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			q.Before = placeOf(&page[len(page)-1])
			at++
			b.put(func(x *store.Batch) { x.Fires = []store.Fire{fire(1, "nightly", at), fire(2, "nightly", at)} })
		}
		b.same(got, expect, fmt.Sprintf("pages of %+v while lines are added", q))
	}
}

func fireMoves(b *bed) {
	one, two := fire(1, "one", 100), fire(1, "two", 110)
	b.put(func(x *store.Batch) { x.Fires = []store.Fire{one, two} })
	u := again(one)
	b.put(func(x *store.Batch) { x.FireUpdates = []store.FireUpdate{u} })
	for _, q := range []store.FireQuery{{}, {Workflow: 1}, {Outcome: store.OutcomeSkipped}} {
		b.same(b.fires(q, 1), []store.Fire{u.Fire, two}, "the list")
	}
}

func backfills() []check {
	return []check{
		{"with every field", backfillFields},
		{"update leaves what was asked", backfillUpdates},
		{"listed newest first, by every filter", backfillLists},
		{"their runs in the order of the instants", backfillRuns},
		{"runs of an instant", runsAt},
	}
}

func backfillFields(b *bed) {
	full := store.Backfill{ID: 7, Workflow: 3, Shard: b.fences[len(b.fences)-1].Shard, Trigger: "każdej nocy", State: store.BackfillPaused, Spec: []byte{0, 255},
		Instants: bytes.Repeat([]byte{1, 0, 2}, 1<<20), Total: 8, Started: 9, Ended: 10, Failed: 11, Parallel: 12, User: "użytkownik",
		Revision: 13, Created: 14, Modified: 15}
	bare := store.Backfill{ID: 1, State: store.BackfillRunning}
	greatest := store.Backfill{ID: math.MaxInt64 - 1, Workflow: math.MaxInt64, State: store.BackfillDone, Spec: make([]byte, store.SpecBytesMax), Total: math.MaxInt64,
		Started: math.MaxInt64, Ended: math.MaxInt64, Failed: math.MaxInt64, Parallel: math.MaxInt32, Revision: math.MaxInt64,
		Created: math.MaxInt64, Modified: math.MaxInt64}
	cancelled := store.Backfill{ID: 2, State: store.BackfillCancelled, Started: -1, Created: math.MinInt64}
	all := []store.Backfill{greatest, full, cancelled, bare}
	b.put(func(x *store.Batch) { x.BackfillInserts = slices.Clone(all) })
	for _, want := range all {
		got, err := b.s.Backfill(b.ctx, want.ID)
		b.ok(err)
		b.same(got, want, "the backfill")
	}
	listed, err := b.s.Backfills(b.ctx, 0, "", 0, 10)
	b.ok(err)
	b.same(listed, all, "as listed")
}

func backfillUpdates(b *bed) {
	f := backfill(1)
	b.put(func(x *store.Batch) { x.BackfillInserts = []store.Backfill{f} })
	for _, state := range []string{store.BackfillPaused, store.BackfillRunning, store.BackfillDone, store.BackfillCancelled} {
		f = progressed(f)
		f.State, f.Parallel = state, f.Parallel*3
		lie := store.Backfill{ID: f.ID, Workflow: 9, Shard: 9, Trigger: "other", Spec: []byte("other"), Instants: []byte("other"), Total: 99, User: "eve", Created: 99,
			State: f.State, Started: f.Started, Ended: f.Ended, Failed: f.Failed, Parallel: f.Parallel, Revision: f.Revision, Modified: f.Modified}
		b.put(func(x *store.Batch) { x.BackfillUpdates = []store.Backfill{lie} })
		got, err := b.s.Backfill(b.ctx, 1)
		b.ok(err)
		b.same(got, f, "the backfill")
	}
}

func backfillLists(b *bed) {
	states := []string{store.BackfillRunning, store.BackfillDone, store.BackfillPaused}
	var all []store.Backfill
	for n := range 25 {
		f := backfill(int64(n*3 + 1))
		f.Workflow, f.State = dag.WorkflowID(n%2+1), states[n*5%3]
		all = append(all, f)
	}
	b.put(func(x *store.Batch) { x.BackfillInserts = slices.Clone(all) })
	slices.Reverse(all)
	for _, w := range []dag.WorkflowID{0, 1, 2, 3} {
		for _, state := range append(states, "", store.BackfillCancelled) {
			var want []store.Backfill
			for _, f := range all {
				if (w == 0 || f.Workflow == w) && (state == "" || f.State == state) {
					want = append(want, f)
				}
			}
			for _, limit := range []int{1, 4, 1000, 0} {
				var paged []store.Backfill
				for before := int64(0); ; {
					page, err := b.s.Backfills(b.ctx, w, state, before, limit)
					b.ok(err)
					if limit > 0 && len(page) > limit {
						b.Fatalf("a page of %d backfills, limit %d", len(page), limit)
					}
					if len(page) == 0 {
						break
					}
					paged = append(paged, page...)
					before = page[len(page)-1].ID
				}
				b.same(paged, want, fmt.Sprintf("backfills of workflow %d in state %q", w, state))
			}
		}
	}
}

func backfillRuns(b *bed) {
	var want []store.BackfillRun
	for n := range 12 {
		want = append(want, store.BackfillRun{Backfill: 1, Workflow: 1, Instant: dag.Micros(10 + n*n), Run: runID(uint32(n + 1))})
	}
	b.put(func(x *store.Batch) {
		for i := range want {
			x.BackfillRuns = append(x.BackfillRuns, want[(i*5+3)%len(want)], store.BackfillRun{Backfill: 2, Workflow: 1, Instant: want[i].Instant, Run: runID(99)})
		}
	})
	for _, limit := range []int{1, 5, 12, 1000, 0} {
		var paged []store.BackfillRun
		for after := dag.Micros(0); ; {
			page, err := b.s.BackfillRuns(b.ctx, 1, after, limit)
			b.ok(err)
			if limit > 0 && len(page) > limit {
				b.Fatalf("a page of %d runs, limit %d", len(page), limit)
			}
			if len(page) == 0 {
				break
			}
			paged = append(paged, page...)
			after = page[len(page)-1].Instant
		}
		b.same(paged, want, "runs by pages")
	}
	between, err := b.s.BackfillRuns(b.ctx, 1, want[4].Instant+1, 2)
	b.ok(err)
	b.same(between, want[5:7], "runs after an instant that has none")
}

func runsAt(b *bed) {
	b.put(func(x *store.Batch) {
		for n, r := range []store.BackfillRun{{Backfill: 3, Workflow: 1, Instant: 50}, {Backfill: 1, Workflow: 1, Instant: 50}, {Backfill: 2, Workflow: 2, Instant: 50},
			{Backfill: 1, Workflow: 1, Instant: 51}, {Backfill: 3, Workflow: 1, Instant: 49}} {
			r.Run = runID(uint32(n))
			x.BackfillRuns = append(x.BackfillRuns, r)
		}
	})
	got, err := b.s.RunsAt(b.ctx, 1, 50)
	b.ok(err)
	slices.SortFunc(got, func(x, y dag.RunID) int { return bytes.Compare(x[:], y[:]) })
	b.same(got, []dag.RunID{runID(0), runID(1)}, "runs")
}
