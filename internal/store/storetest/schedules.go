package storetest

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// scheduled holds everything that a store returns about triggers, their ledger and backfills.
type scheduled struct {
	Triggers  []store.Trigger
	Due       []store.Trigger
	Next      dag.Micros
	Listening []store.TriggerKey
	Sensors   []store.Trigger
	Fires     []store.Fire
	Backfills []store.Backfill
	Runs      []store.BackfillRun
}

func (b *bed) scheduled() scheduled {
	b.Helper()
	var c scheduled
	var err error
	c.Triggers, err = b.s.Triggers(b.ctx, store.TriggerQuery{})
	b.ok(err)
	c.Due, err = b.s.Due(b.ctx, b.shards(), math.MaxInt64, 1000)
	b.ok(err)
	slices.SortFunc(c.Due, func(x, y store.Trigger) int { return strings.Compare(x.Name, y.Name) })
	c.Next, err = b.s.NextDue(b.ctx, b.shards())
	b.ok(err)
	for _, target := range []string{"default/first", "default/second"} {
		keys, err := b.s.Listening(b.ctx, target, 1000)
		b.ok(err)
		c.Listening = append(c.Listening, keys...)
	}
	c.Sensors, err = b.s.Sensors(b.ctx, b.shards(), []string{"run_of", "webhook"}, store.TriggerKey{}, 1000)
	b.ok(err)
	c.Fires, err = b.s.Fires(b.ctx, store.FireQuery{})
	b.ok(err)
	c.Backfills, err = b.s.Backfills(b.ctx, 0, "", 0, 1000)
	b.ok(err)
	for id := range int64(probed) {
		runs, err := b.s.BackfillRuns(b.ctx, id, 0, 1000)
		b.ok(err)
		c.Runs = append(c.Runs, runs...)
	}
	return c
}

// shards returns all shards of the store.
func (b *bed) shards() (all []dag.ShardID) {
	for _, f := range b.fences {
		all = append(all, f.Shard)
	}
	return all
}

// planned holds the triggers and backfills of a world.
type planned struct {
	trigger  store.Trigger // listens to default/first
	gone     store.Trigger // will be deleted
	line     store.Fire
	backfill store.Backfill
}

func trigger(w dag.WorkflowID, name, kind string) store.Trigger {
	return store.Trigger{Workflow: w, Name: name, Version: 1, Kind: kind, Spec: []byte(`{"cron":"* * * * *"}`),
		State: store.TriggerActive, Revision: 1, Created: 10, Modified: 10}
}

func fire(w dag.WorkflowID, name string, at dag.Micros) store.Fire {
	return store.Fire{Workflow: w, Trigger: name, At: at, Last: at, Count: 1, Outcome: store.OutcomeSkipped, Reason: "overlap", Decided: at + 5}
}

func backfill(id int64) store.Backfill {
	return store.Backfill{ID: id, Workflow: 1, Trigger: "nightly", State: store.BackfillRunning, Spec: []byte("{}"), Instants: []byte{1, 2, 3},
		Total: 3, Parallel: 2, User: "ada", Revision: 1, Created: 10, Modified: 10}
}

// plan adds the triggers and backfills of a world to a batch.
func (b *bed) plan(x *store.Batch) planned {
	p := planned{trigger: trigger(1, "after", "run_of"), gone: trigger(1, "gone", "webhook"), line: fire(1, "after", 100), backfill: backfill(1)}
	p.trigger.On, p.gone.On, p.gone.Next = []string{"default/first"}, []string{"default/second"}, 50
	x.TriggerInserts = []store.Trigger{p.trigger, p.gone}
	x.Fires = []store.Fire{p.line}
	x.BackfillInserts = []store.Backfill{p.backfill}
	x.BackfillRuns = []store.BackfillRun{{Backfill: 1, Workflow: 1, Instant: 100, Run: runID(1)}}
	x.Watermark = 100
	return p
}

// replan adds a valid change of each of these rows to a batch.
func (b *bed) replan(x *store.Batch, p *planned) {
	next := trigger(2, "nightly", "cron")
	next.Next = 500
	x.TriggerInserts = []store.Trigger{next}
	x.TriggerUpdates = []store.Trigger{moved(p.trigger)}
	x.TriggerDeletes = []store.Trigger{p.gone}
	fired := fire(2, "nightly", 200)
	fired.Outcome, fired.Run = store.OutcomeFired, runID(2)
	x.Fires = []store.Fire{fired}
	x.FireUpdates = []store.FireUpdate{again(p.line)}
	x.BackfillInserts = []store.Backfill{backfill(2)}
	x.BackfillUpdates = []store.Backfill{progressed(p.backfill)}
	x.BackfillRuns = []store.BackfillRun{{Backfill: 1, Workflow: 1, Instant: 200, Run: runID(2)}}
	x.Watermark = 200
}

// moved returns a trigger as it is after a fire.
func moved(t store.Trigger) store.Trigger {
	t.Next, t.Decided, t.Fired = t.Next+60, t.Next, t.Fired+1
	t.Revision, t.Modified = t.Revision+1, t.Modified+1
	return t
}

// again returns an update that adds one instant to a line.
func again(f store.Fire) store.FireUpdate {
	u := store.FireUpdate{Fire: f, WasOutcome: f.Outcome, WasCount: f.Count}
	u.Last, u.Count, u.Decided = f.Last+60, f.Count+1, f.Decided+60
	return u
}

func progressed(f store.Backfill) store.Backfill {
	f.Started, f.Ended, f.Failed = f.Started+1, f.Ended+1, f.Failed+1
	f.Revision, f.Modified = f.Revision+1, f.Modified+1
	return f
}

func schedules() []check {
	return []check{
		{"trigger with every field", triggerFields},
		{"greatest, least and long values", triggerExtremes},
		{"not found", scheduleNotFound},
		{"update rewrites all but shard and creation", triggerUpdates},
		{"update of what it hears of, its kind and state", triggerListings},
		{"a trigger through several revisions in one batch", triggerSeveral},
		{"inserted, moved and deleted in one batch", triggerComesAndGoes},
		{"deleted, its name is free and its ledger stays", triggerDeleted},
		{"listed by workflow, then name", triggerLists},
		{"listening in order, as many as asked for", triggerListeners},
		{"sensors by kinds and pages", triggerSensors},
		{"what goes in and comes out is copied", triggerCopies},
		{"the watermark never falls", watermark},
		{"the watermark of the fenced shards only", watermarkOfShards},
		{"the clock does not stand still", func(b *bed) {
			was, err := b.s.Clock(b.ctx)
			b.ok(err)
			now, err := b.s.Clock(b.ctx)
			b.ok(err)
			if was <= 0 || now < was {
				b.Fatalf("the clock went from %d to %d", was, now)
			}
		}},
	}
}

func (b *bed) fullTrigger() store.Trigger {
	return store.Trigger{Workflow: 3, Name: "każdej nocy", Shard: b.fences[len(b.fences)-1].Shard, Version: 4, Kind: "run_of", Spec: []byte{0, 1, 255},
		State: store.TriggerPaused, Actor: "użytkownik", Reason: "święto 🎄", Next: 5, Decided: 6, Since: 7, Fired: 8, MaxRuns: 9,
		On: []string{"équipe/b", "default/a"}, Data: []byte{2, 0}, Revision: 10, Created: 11, Modified: 12}
}

// trigger reads a trigger in all ways. The results must agree.
func (b *bed) trigger(w dag.WorkflowID, name string) store.Trigger {
	b.Helper()
	t, err := b.s.Trigger(b.ctx, w, name)
	b.ok(err)
	listed, err := b.s.Triggers(b.ctx, store.TriggerQuery{Workflow: w, State: t.State})
	b.ok(err)
	i := slices.IndexFunc(listed, func(l store.Trigger) bool { return l.Name == name })
	if i < 0 {
		b.Fatalf("%s is not among %d triggers of workflow %d", name, len(listed), w)
	}
	b.same(listed[i], t, "the trigger as listed")
	due, err := b.s.Due(b.ctx, []dag.ShardID{t.Shard}, math.MaxInt64, 1000)
	b.ok(err)
	i = slices.IndexFunc(due, func(l store.Trigger) bool { return l.Workflow == w && l.Name == name })
	b.same(i >= 0, t.Next > 0, "whether it will be due")
	if i >= 0 {
		b.same(due[i], t, "the trigger as due")
	}
	sensors, err := b.s.Sensors(b.ctx, []dag.ShardID{t.Shard}, []string{"other", t.Kind}, store.TriggerKey{}, 1000)
	b.ok(err)
	i = slices.IndexFunc(sensors, func(l store.Trigger) bool { return l.Workflow == w && l.Name == name })
	b.same(i >= 0, t.State == store.TriggerActive, "whether it is listed by its kind")
	if i >= 0 {
		b.same(sensors[i], t, "the trigger as listed by its kind")
	}
	for _, target := range t.On {
		keys, err := b.s.Listening(b.ctx, target, 1000)
		b.ok(err)
		b.same(slices.Contains(keys, store.TriggerKey{Workflow: w, Name: name}), t.State == store.TriggerActive, "whether it hears of "+target)
	}
	return t
}

func triggerFields(b *bed) {
	full := b.fullTrigger()
	for i, state := range []string{store.TriggerActive, store.TriggerPaused, store.TriggerEnded} {
		full.Name, full.State = key(i), state
		b.put(func(x *store.Batch) { x.TriggerInserts = []store.Trigger{full} })
		b.same(b.trigger(3, full.Name), full, "the trigger")
	}
	bare := store.Trigger{State: store.TriggerActive}
	b.put(func(x *store.Batch) { x.TriggerInserts = []store.Trigger{bare} })
	got, err := b.s.Trigger(b.ctx, 0, "")
	b.ok(err)
	b.same(got, bare, "a trigger of nothing")
	if got.Data != nil || got.On != nil {
		b.Fatalf("no data and no names came back as %v and %v", got.Data, got.On)
	}
}

func triggerExtremes(b *bed) {
	for i, t := range []store.Trigger{
		{Workflow: math.MaxInt64, Version: math.MaxInt32, Next: math.MaxInt64, Decided: math.MaxInt64, Since: math.MaxInt64, Fired: math.MaxInt64,
			MaxRuns: math.MaxInt32, Revision: math.MaxInt64, Created: math.MaxInt64, Modified: math.MaxInt64},
		{Workflow: 1, Next: math.MinInt64, Decided: -1, Since: math.MinInt64, Fired: math.MinInt64, Created: -1},
		{Workflow: 1, Spec: bytes.Repeat([]byte{0xaa}, store.SpecBytesMax), Data: bytes.Repeat([]byte{0}, store.DataBytesMax),
			Reason: strings.Repeat("é", 1<<16), On: []string{"a/" + strings.Repeat("x", 1000), `"\,[]{}` + "\n\u2028<&>'"}},
	} {
		t.Name, t.Kind, t.State = key(i), "file", store.TriggerActive
		b.put(func(x *store.Batch) { x.TriggerInserts = []store.Trigger{t} })
		b.same(b.trigger(t.Workflow, t.Name), t, "the trigger")
	}
}

func scheduleNotFound(b *bed) {
	b.world()
	for _, k := range []store.TriggerKey{{}, {Workflow: 1}, {Workflow: 1, Name: "After"}, {Workflow: 2, Name: "after"}} {
		_, err := b.s.Trigger(b.ctx, k.Workflow, k.Name)
		b.is(err, store.ErrNotFound)
		_, err = b.s.LastFire(b.ctx, k.Workflow, k.Name)
		b.is(err, store.ErrNotFound)
		for _, event := range []string{"", "event"} {
			_, err = b.s.FireByKey(b.ctx, k, 100, event)
			b.is(err, store.ErrNotFound)
		}
	}
	_, err := b.s.Backfill(b.ctx, 99)
	b.is(err, store.ErrNotFound)
	runs, err := b.s.BackfillRuns(b.ctx, 99, 0, 10)
	b.ok(err)
	at, err := b.s.RunsAt(b.ctx, 1, 99)
	b.ok(err)
	keys, err := b.s.Listening(b.ctx, "default/nobody", 10)
	b.ok(err)
	fires, err := b.s.Fires(b.ctx, store.FireQuery{Workflow: 99})
	b.ok(err)
	triggers, err := b.s.Triggers(b.ctx, store.TriggerQuery{Workflow: 99})
	b.ok(err)
	backfills, err := b.s.Backfills(b.ctx, 99, "", 0, 10)
	b.ok(err)
	b.same(len(runs)+len(at)+len(keys)+len(fires)+len(triggers)+len(backfills), 0, "rows of nothing")
}

func triggerUpdates(b *bed) {
	full := b.fullTrigger()
	bare := store.Trigger{Workflow: full.Workflow, Name: full.Name, Shard: full.Shard, State: store.TriggerActive, Created: full.Created}
	b.put(func(x *store.Batch) { x.TriggerInserts = []store.Trigger{bare} })
	revision := bare.Revision
	for _, next := range []store.Trigger{full, bare, full, full, bare, bare} {
		revision++
		next.Revision = revision
		lie := next
		lie.Shard, lie.Created = 0, 999
		b.put(func(x *store.Batch) { x.TriggerUpdates = []store.Trigger{lie} })
		b.same(b.trigger(full.Workflow, full.Name), next, "the trigger")
	}
}

// triggerListings checks that the lists of listeners and of sensors follow every change.
func triggerListings(b *bed) {
	t := trigger(1, "sensor", "webhook")
	b.put(func(x *store.Batch) { x.TriggerInserts = []store.Trigger{t} })
	for n, change := range []func(){
		func() { t.On = []string{"default/a", "default/b"} },
		func() { t.On = []string{"default/b", "default/a"} },
		func() { t.State = store.TriggerPaused },
		func() { t.On = []string{"default/c"} },
		func() { t.State = store.TriggerActive },
		func() { t.Kind = "run_of" },
		func() { t.Kind, t.On, t.Next = "cron", nil, 70 },
		func() { t.Kind, t.On, t.Next = "absent", []string{"default/a"}, 80 },
		func() { t.Fired++ },
		func() { t.State, t.Next = store.TriggerEnded, 0 },
		func() { t.State, t.On = store.TriggerActive, []string{"default/a", "default/c"} },
	} {
		change()
		t.Revision++
		b.put(func(x *store.Batch) { x.TriggerUpdates = []store.Trigger{t} })
		b.same(b.trigger(1, "sensor"), t, fmt.Sprintf("the trigger after change %d", n))
		for _, target := range []string{"default/a", "default/b", "default/c"} {
			keys, err := b.s.Listening(b.ctx, target, 10)
			b.ok(err)
			b.same(len(keys) == 1, t.State == store.TriggerActive && slices.Contains(t.On, target), fmt.Sprintf("after change %d, whether it hears of %s", n, target))
		}
		for _, kind := range []string{"webhook", "run_of", "cron", "absent"} {
			found, err := b.s.Sensors(b.ctx, b.shards(), []string{kind}, store.TriggerKey{}, 10)
			b.ok(err)
			b.same(len(found) == 1, t.State == store.TriggerActive && t.Kind == kind, fmt.Sprintf("after change %d, whether it is a %s", n, kind))
		}
	}
	b.put(func(x *store.Batch) { x.TriggerDeletes = []store.Trigger{t} })
	b.same(b.scheduled(), scheduled{}, "after it was deleted")
	for _, target := range t.On {
		keys, err := b.s.Listening(b.ctx, target, 10)
		b.ok(err)
		b.same(len(keys), 0, "listeners")
	}
}

func triggerSeveral(b *bed) {
	w := b.world()
	one := moved(w.trigger)
	two := moved(one)
	two.On = []string{"default/second"}
	three := moved(two)
	x := b.batch()
	x.TriggerUpdates = []store.Trigger{one, two, three}
	x.FireUpdates = []store.FireUpdate{again(w.line), again(again(w.line).Fire)}
	x.BackfillUpdates = []store.Backfill{progressed(w.backfill), progressed(progressed(w.backfill))}
	bad := *x
	bad.TriggerUpdates = append(slices.Clone(x.TriggerUpdates), three)
	b.fails(&bad, store.ErrFenced)
	x.Fences = slices.Clone(b.fences)
	b.ok(b.commit(x))
	c := b.scheduled()
	b.same(c.Triggers, []store.Trigger{three, w.gone}, "triggers")
	b.same(c.Listening, []store.TriggerKey{{Workflow: 1, Name: "after"}, {Workflow: 1, Name: "gone"}}, "listeners")
	b.same(c.Fires, []store.Fire{again(again(w.line).Fire).Fire}, "the ledger")
	b.same(c.Backfills, []store.Backfill{progressed(progressed(w.backfill))}, "backfills")
}

func triggerComesAndGoes(b *bed) {
	t := b.fullTrigger()
	t.State = store.TriggerActive
	f := backfill(1)
	line := fire(3, t.Name, 9)
	b.put(func(x *store.Batch) {
		x.TriggerInserts = []store.Trigger{t}
		x.TriggerUpdates = []store.Trigger{moved(t)}
		x.TriggerDeletes = []store.Trigger{moved(t)}
		x.Fires = []store.Fire{line}
		x.FireUpdates = []store.FireUpdate{again(line)}
		x.BackfillInserts = []store.Backfill{f}
		x.BackfillUpdates = []store.Backfill{progressed(f)}
	})
	b.same(b.scheduled(), scheduled{Fires: []store.Fire{again(line).Fire}, Backfills: []store.Backfill{progressed(f)}}, "what is left")
	for _, target := range t.On {
		keys, err := b.s.Listening(b.ctx, target, 10)
		b.ok(err)
		b.same(len(keys), 0, "listeners")
	}
}

func triggerDeleted(b *bed) {
	w := b.world()
	b.put(func(x *store.Batch) {
		// A delete needs only the key and the revision.
		x.TriggerDeletes = []store.Trigger{{Workflow: 1, Name: w.trigger.Name, Revision: w.trigger.Revision, State: "any", On: []string{"default/lie"}}}
	})
	c := b.scheduled()
	b.same(c.Triggers, []store.Trigger{w.gone}, "triggers")
	b.same(c.Listening, []store.TriggerKey{{Workflow: 1, Name: "gone"}}, "listeners")
	b.same(c.Fires, []store.Fire{w.line}, "the ledger")
	again := trigger(1, w.trigger.Name, "cron")
	b.put(func(x *store.Batch) { x.TriggerInserts = []store.Trigger{again} })
	b.same(b.trigger(1, again.Name), again, "another of its name")
}

func triggerLists(b *bed) {
	var want []store.Trigger
	for n := range 30 {
		t := trigger(dag.WorkflowID(n/10+1), fmt.Sprintf("t%02d", n%10), "cron")
		t.State = []string{store.TriggerActive, store.TriggerPaused, store.TriggerEnded}[n%3]
		want = append(want, t)
	}
	b.put(func(x *store.Batch) {
		for i := range want { // read the elements in another order than that of the list
			x.TriggerInserts = append(x.TriggerInserts, want[(i*7+3)%len(want)])
		}
	})
	for _, q := range []store.TriggerQuery{{}, {Workflow: 2}, {State: store.TriggerActive}, {State: store.TriggerPaused}, {State: store.TriggerEnded},
		{Workflow: 3, State: store.TriggerPaused}, {Workflow: 9}} {
		var selected []store.Trigger
		for _, t := range want {
			if (q.Workflow == 0 || t.Workflow == q.Workflow) && (q.State == "" || t.State == q.State) {
				selected = append(selected, t)
			}
		}
		for _, q.Limit = range []int{1, 4, 10, 1000, 0} {
			var paged []store.Trigger
			for q.After = (store.TriggerKey{}); ; {
				page, err := b.s.Triggers(b.ctx, q)
				b.ok(err)
				if q.Limit > 0 && len(page) > q.Limit {
					b.Fatalf("a page of %d triggers, limit %d", len(page), q.Limit)
				}
				if len(page) == 0 {
					break
				}
				paged = append(paged, page...)
				last := page[len(page)-1]
				q.After = store.TriggerKey{Workflow: last.Workflow, Name: last.Name}
			}
			b.same(paged, selected, fmt.Sprintf("pages of %+v", q))
		}
	}
}

func triggerListeners(b *bed) {
	var want []store.TriggerKey
	b.put(func(x *store.Batch) {
		for n := range 1200 {
			t := trigger(dag.WorkflowID(n/10+1), fmt.Sprintf("t%02d", n%10), "run_of")
			t.On = []string{"default/quiet", "default/loud"}
			if n%4 == 3 {
				t.On = t.On[:1]
			} else {
				want = append(want, store.TriggerKey{Workflow: t.Workflow, Name: t.Name})
			}
			x.TriggerInserts = append([]store.Trigger{t}, x.TriggerInserts...)
		}
	})
	for limit, n := range map[int]int{1: 1, 7: 7, 899: 899, 5000: 900, 0: 900} {
		keys, err := b.s.Listening(b.ctx, "default/loud", limit)
		b.ok(err)
		b.same(keys, want[:n], "listeners")
	}
	keys, err := b.s.Listening(b.ctx, "default/quiet", 5000)
	b.ok(err)
	b.same(len(keys), 1200, "listeners, whose limit is the caller's")
}

func triggerSensors(b *bed) {
	kinds := []string{"webhook", "file", "cron", "absent", "every"}
	var all []store.Trigger
	for n := range 60 {
		t := trigger(dag.WorkflowID(n/8+1), fmt.Sprintf("t%02d", n%8), kinds[n*7%5])
		t.Shard = b.fences[n%len(b.fences)].Shard
		if n%11 == 4 {
			t.State = store.TriggerPaused
		}
		all = append(all, t)
	}
	b.put(func(x *store.Batch) {
		x.TriggerInserts = slices.Clone(all)
		slices.Reverse(x.TriggerInserts)
	})
	for _, shards := range [][]dag.ShardID{b.shards(), b.shards()[:1], {1 << 20}, nil} {
		for _, of := range [][]string{{"file"}, {"webhook", "absent"}, {"absent", "file", "webhook", "absent"}, {"cron", "file"}, {"other"}, nil} {
			var want []store.Trigger
			for _, t := range all {
				if slices.Contains(shards, t.Shard) && slices.Contains(of, t.Kind) && t.State == store.TriggerActive {
					want = append(want, t)
				}
			}
			for _, limit := range []int{1, 5, 1000} {
				var paged []store.Trigger
				for after := (store.TriggerKey{}); ; {
					page, err := b.s.Sensors(b.ctx, shards, of, after, limit)
					b.ok(err)
					if len(page) > limit {
						b.Fatalf("a page of %d sensors, limit %d", len(page), limit)
					}
					if len(page) == 0 {
						break
					}
					paged = append(paged, page...)
					after = store.TriggerKey{Workflow: page[len(page)-1].Workflow, Name: page[len(page)-1].Name}
				}
				b.same(paged, want, fmt.Sprintf("sensors %v of shards %v", of, shards))
			}
		}
	}
}

func triggerCopies(b *bed) {
	t, f := b.fullTrigger(), backfill(1)
	t.On = slices.Clone(t.On)
	x := b.batch()
	x.TriggerInserts, x.BackfillInserts = []store.Trigger{t}, []store.Backfill{f}
	b.ok(b.commit(x))
	before := tidy(b.scheduled())
	for _, blob := range [][]byte{t.Spec, t.Data, f.Spec, f.Instants} {
		clear(blob)
	}
	clear(t.On)
	x.Reset()
	b.same(b.scheduled(), before, "after the batch was overwritten")
	c := b.scheduled()
	one, err := b.s.Trigger(b.ctx, t.Workflow, t.Name)
	b.ok(err)
	for _, blob := range [][]byte{one.Spec, one.Data, c.Triggers[0].Spec, c.Due[0].Data, c.Backfills[0].Spec, c.Backfills[0].Instants} {
		clear(blob)
	}
	clear(one.On)
	clear(c.Triggers[0].On)
	b.same(b.scheduled(), before, "after what came out was overwritten")
}

func watermark(b *bed) {
	want := dag.Micros(0)
	for _, to := range []dag.Micros{0, 50, 0, 40, 50, 60, 1, math.MaxInt64, 60} {
		b.put(func(x *store.Batch) { x.Watermark = to })
		want = max(want, to)
		for _, a := range b.take() {
			b.same(a.Watermark, want, "the watermark")
		}
	}
}

func watermarkOfShards(b *bed) {
	for i := range b.fences {
		x := b.batch()
		x.Fences, x.Watermark = x.Fences[i:i+1], dag.Micros(100+i)
		b.ok(b.commit(x))
		stale := *x
		stale.Watermark = 999
		_, err := b.s.Commit(b.ctx, &stale)
		b.is(err, store.ErrFenced)
		for j, a := range b.take() {
			if want := dag.Micros(100 + j); j <= i {
				b.same(a.Watermark, want, "the watermark")
			} else {
				b.same(a.Watermark, dag.Micros(0), "the watermark of a shard without a fence")
			}
		}
	}
}
