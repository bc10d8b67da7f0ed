package storetest

import (
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

func retention() []check {
	return []check{
		{"runs go by number", expireByNumber},
		{"runs go by age", expireByAge},
		{"what goes takes everything with it", expireWhole},
		{"what is kept whatever its age", expireNever},
		{"only the owner forgets", expireFenced},
		{"versions go that no run has", expireVersions},
		{"a key protects a number of runs", expireKeyed},
		{"a pass continues after runs that stay", expireOn},
		{"old runs that stay are told from young ones", expireOld},
		{"a page after a deleted run", expireCursor},
		{"lines of the ledger go, and are counted by day", expireFires},
		{"the newest line of a trigger stays", expireNewestFire},
		{"backfills go with their instants", expireBackfills},
		{"nothing is kept of a deleted workflow", expireWorkflow},
		{"answers under idempotency keys go", expireRequests},
	}
}

func (b *bed) expire(x store.Expiry) []dag.RunID {
	b.Helper()
	did, err := b.s.(store.Retention).Expire(b.ctx, b.owner, x)
	b.ok(err)
	return did.Runs
}

// but returns the position of the newest finished run that is older than the newest keep runs.
func (b *bed) but(w dag.WorkflowID, keep int) store.RunPos {
	b.Helper()
	pos, err := b.s.(store.Retention).FinishedBut(b.ctx, w, keep)
	b.ok(err)
	return pos
}

// past adds a finished run.
func (b *bed) past(finished dag.Micros, change func(r *dag.RunRow)) dag.RunRow {
	b.Helper()
	r := b.run(dag.RunSucceeded)
	r.FinishedAt = finished
	if change != nil {
		change(&r)
	}
	b.put(func(x *store.Batch) { x.RunInserts = []dag.RunRow{r} })
	return r
}

func expireByNumber(b *bed) {
	var ids []dag.RunID
	for i := range 10 {
		ids = append(ids, b.past(dag.Micros(100+i), nil).ID)
		if i%3 == 0 { // unfinished runs must be ignored
			b.put(func(x *store.Batch) { x.RunInserts = []dag.RunRow{b.run(dag.RunRunning)} })
		}
	}
	w := b.run(dag.RunRunning).Workflow
	x := store.Expiry{Workflow: w, To: b.but(w, 4), Limit: 4}
	b.same(b.but(w, 10), store.RunPos{}, "there are no more runs than to keep")
	b.same(b.but(w+1, 0), store.RunPos{}, "there is no run")
	b.same(b.expire(x), ids[:4], "the oldest")
	b.same(b.expire(x), ids[4:6], "the others")
	b.same(b.expire(x), []dag.RunID(nil), "nothing is left to go")
	x.Workflow = w + 1
	b.same(b.expire(x), []dag.RunID(nil), "of another workflow")
	page, err := b.s.Runs(b.ctx, store.RunQuery{Workflow: w, Limit: 100})
	b.ok(err)
	b.same(len(page.Runs), 8, "runs that are left")
}

func expireByAge(b *bed) {
	one := b.past(100, nil)
	b.past(200, nil)
	three := b.past(150, nil) // began later than two, and ended earlier
	x := store.Expiry{Workflow: one.Workflow, Before: 150, Limit: 10}
	b.same(b.expire(x), []dag.RunID{one.ID}, "what is older")
	x.Before = 151
	b.same(b.expire(x), []dag.RunID{three.ID}, "a moment later")
}

func expireWhole(b *bed) {
	keep := b.past(500, nil)
	before := b.contents()
	r := b.run(dag.RunRunning)
	r.User, r.Key, r.KeyHash = "somebody", "key", []byte{1}
	b.put(func(x *store.Batch) {
		x.RunInserts = []dag.RunRow{r}
		x.AttemptInserts = []dag.AttemptRow{b.attempt(r.ID, 3, 1), b.attempt(r.ID, 4, 1)}
		x.Events = []dag.EventRow{{Run: r.ID, At: 1, Records: []byte{1}}}
	})
	for range 2 {
		b.put(func(x *store.Batch) { x.Events = []dag.EventRow{{Run: r.ID, At: 2, Records: []byte{2}}} })
	}
	b.end(r)
	if l, ok := b.s.(store.Logs); ok {
		b.print(l, store.LogID{Run: r.ID, Task: 3, Token: 1}, 0, "text")
	}
	x := store.Expiry{Workflow: r.Workflow, Before: 400, Keyed: 400, Limit: 10}
	b.same(b.expire(x), []dag.RunID{r.ID}, "what goes")
	after := b.contents()
	b.same(after, before, "what is left")
	_, err := b.s.Run(b.ctx, r.ID)
	b.is(err, store.ErrNotFound)
	_, err = store.RunByKey(b.ctx, b.s, r.Workflow, "key")
	b.is(err, store.ErrNotFound)
	attempts, err := b.s.Attempts(b.ctx, store.AttemptQuery{Run: r.ID})
	b.ok(err)
	b.same(len(attempts), 0, "attempts")
	events, err := b.s.Events(b.ctx, r.ID, 0, 10)
	b.ok(err)
	b.same(len(events), 0, "events")
	for _, q := range []store.RunQuery{{}, {User: "somebody"}, {Workflow: r.Workflow}} {
		page, err := b.s.Runs(b.ctx, q)
		b.ok(err)
		for _, other := range page.Runs {
			b.same(other.ID, keep.ID, fmt.Sprintf("the list %+v", q))
		}
	}
	if l, ok := b.s.(store.Logs); ok {
		_, err := l.LogSpan(b.ctx, store.LogID{Run: r.ID, Task: 3, Token: 1})
		b.is(err, store.ErrNotFound)
	}
	// The key can be used again, and the new run gets nothing of the deleted one.
	again := b.run(dag.RunRunning)
	again.User, again.Key, again.KeyHash = "somebody", "key", []byte{1}
	b.put(func(x *store.Batch) {
		x.RunInserts = []dag.RunRow{again}
		x.AttemptInserts = []dag.AttemptRow{b.attempt(again.ID, 3, 1)}
	})
	attempts, err = b.s.Attempts(b.ctx, store.AttemptQuery{Run: again.ID})
	b.ok(err)
	b.same(len(attempts), 1, "attempts of the next run")
}

// end ends a running run.
func (b *bed) end(r dag.RunRow) {
	b.Helper()
	was := r.State
	r.State, r.FinishedAt = dag.RunSucceeded, 300
	b.put(func(x *store.Batch) { x.RunUpdates = []dag.RunUpdate{{RunRow: r, Was: was}} })
}

func expireNever(b *bed) {
	keyed := b.past(100, func(r *dag.RunRow) { r.Key, r.KeyHash = "key", []byte{1} })
	filled := b.past(100, func(r *dag.RunRow) { r.Origin = dag.OriginBackfill })
	active := b.run(dag.RunRunning)
	b.put(func(x *store.Batch) { x.RunInserts = []dag.RunRow{active} })
	b.past(900, nil)
	backfill := store.Backfill{ID: 7, Workflow: keyed.Workflow, State: store.BackfillPaused, Revision: 1, Created: 1, Modified: 1, Parallel: 1}
	b.put(func(x *store.Batch) { x.BackfillInserts = []store.Backfill{backfill} })
	x := store.Expiry{Workflow: keyed.Workflow, To: b.but(keyed.Workflow, 1), Before: 500, Keyed: 50, Limit: 10}
	b.same(b.expire(x), []dag.RunID(nil), "a key that is young, a backfill that goes on, a run that goes on")
	x.Keyed = 101
	b.same(b.expire(x), []dag.RunID{keyed.ID}, "the key is old enough")
	once := b.past(200, func(r *dag.RunRow) { r.Key, r.KeyHash = store.KeyOnce+"k", []byte{1} })
	x.To, x.Keyed, x.Once = store.RunPos{}, 101, 200
	b.same(b.expire(x), []dag.RunID(nil), "a key for one request that is young")
	x.Once = 201
	b.same(b.expire(x), []dag.RunID{once.ID}, "a key for one request")
	backfill.State, backfill.Revision = store.BackfillDone, 2
	b.put(func(x *store.Batch) { x.BackfillUpdates = []store.Backfill{backfill} })
	b.same(b.expire(x), []dag.RunID{filled.ID}, "the backfill is done")
	if _, err := b.s.Run(b.ctx, active.ID); err != nil {
		b.Error("a run that goes on has gone", err)
	}
}

func expireFenced(b *bed) {
	r := b.past(100, nil)
	x := store.Expiry{Workflow: r.Workflow, Before: 500, Limit: 10}
	_, err := b.s.(store.Retention).Expire(b.ctx, b.owner+1, x)
	b.is(err, store.ErrFenced)
	if _, err := b.s.Run(b.ctx, r.ID); err != nil {
		b.Error(err)
	}
	b.same(b.expire(x), []dag.RunID{r.ID}, "its owner")
}

func expireVersions(b *bed) {
	flow := workflow(1, "made")
	flow.Version, flow.Latest = 6, 8
	b.put(func(x *store.Batch) {
		x.WorkflowInserts = []store.Workflow{flow}
		for n := int32(1); n <= 8; n++ {
			v := version(1, n)
			v.Created = dag.Micros(1000 * n)
			x.Versions = append(x.Versions, v)
		}
	})
	r := b.past(100, func(r *dag.RunRow) { r.Version = 5 })
	x := store.VersionExpiry{Workflow: 1, Limit: 100}
	numbers := func() (all []int32) {
		list, err := b.s.Versions(b.ctx, 1, 0, 100)
		b.ok(err)
		for i := range list {
			all = append(all, list[i].Version)
		}
		return all
	}
	expire := func() int {
		n, err := b.s.(store.Retention).ExpireVersions(b.ctx, b.owner, x)
		b.ok(err)
		return n
	}
	x.Superseded = 4000
	b.same(expire(), 2, "those whose successor was made before")
	b.same(numbers(), []int32{8, 7, 6, 5, 4, 3}, "what is left")
	x.Superseded, x.Limit = 1<<50, 1
	b.same(expire(), 1, "as many as are asked for")
	x.Limit = 100
	expire()
	b.same(numbers(), []int32{8, 7, 6, 5}, "from the one that a run has")
	files, err := b.s.Files(b.ctx, store.FileQuery{Workflow: 1, Version: 4})
	b.ok(err)
	b.same(len(files), 0, "files of one that is gone")
	files, err = b.s.Files(b.ctx, store.FileQuery{Workflow: 1, Version: 5})
	b.ok(err)
	b.same(len(files), 1, "files of one that is there")
	b.expire(store.Expiry{Workflow: 1, To: b.but(1, 1), Before: 1000, Limit: 10})
	_, err = b.s.Run(b.ctx, r.ID)
	b.is(err, store.ErrNotFound)
	expire()
	b.same(numbers(), []int32{8, 7, 6}, "from the current one")
	_, err = b.s.(store.Retention).ExpireVersions(b.ctx, b.owner+1, x)
	b.is(err, store.ErrFenced)
}

func expireKeyed(b *bed) {
	var ids []dag.RunID
	for i := range 6 {
		ids = append(ids, b.past(dag.Micros(100+i), func(r *dag.RunRow) { r.Key, r.KeyHash = fmt.Sprint("key", i), []byte{1} }).ID)
	}
	w := b.run(dag.RunRunning).Workflow
	x := store.Expiry{Workflow: w, To: b.but(w, 1), Before: 1000, Keyed: 50, KeyedTo: b.but(w, 4), Limit: 10}
	b.same(b.expire(x), ids[:2], "all but the newest that a key protects")
	x.KeyedTo = store.RunPos{}
	b.same(b.expire(x), []dag.RunID(nil), "all that a key protects")
}

// expireOn deletes runs of a workflow whose oldest runs must stay. Each call continues after the last run of
// the previous call, even if that run was deleted.
func expireOn(b *bed) {
	var ids []dag.RunID
	for i := range 30 {
		ids = append(ids, b.past(dag.Micros(100+i), func(r *dag.RunRow) {
			if i < 10 {
				r.Key, r.KeyHash = fmt.Sprint("key", i), []byte{1}
			}
		}).ID)
	}
	w := b.run(dag.RunRunning).Workflow
	x := store.Expiry{Workflow: w, To: b.but(w, 12), Keyed: 50, Limit: 2}
	var gone []dag.RunID
	for calls := 1; ; calls++ {
		did, err := b.s.(store.Retention).Expire(b.ctx, b.owner, x)
		b.ok(err)
		gone = append(gone, did.Runs...)
		if calls == 1 && (len(did.Runs) > 0 || did.Next.IsZero() || did.Next.Compare(x.To) >= 0) {
			b.Error("the first call looks at protected runs only", did)
		}
		if did.Next.IsZero() || calls == 20 {
			break
		}
		if did.Next.Compare(x.After) <= 0 {
			b.Error("a call ends before its beginning", did)
		}
		x.After = did.Next
	}
	b.same(gone, ids[10:18], "runs after those that a key protects")
}

// expireOld checks which runs are deleted if keys protect the old runs, and other runs are too young.
func expireOld(b *bed) {
	for i := range 20 {
		b.past(dag.Micros(100+i), func(r *dag.RunRow) { r.Key, r.KeyHash = fmt.Sprint("key", i), []byte{1} })
	}
	last := b.past(150, nil).ID
	for i := range 20 {
		b.past(dag.Micros(300+i), nil)
	}
	x := store.Expiry{Workflow: b.run(dag.RunRunning).Workflow, Before: 200, Keyed: 50, Limit: 2}
	var gone []dag.RunID
	for calls := 1; ; calls++ {
		did, err := b.s.(store.Retention).Expire(b.ctx, b.owner, x)
		b.ok(err)
		gone = append(gone, did.Runs...)
		if calls == 10 || did.Next.IsZero() || len(did.Runs) == 0 && !did.Old {
			b.same(calls, 4, "the last call is the first that looks at young runs only")
			break
		}
		x.After = did.Next
	}
	b.same(gone, []dag.RunID{last}, "an old run after those that a key protects")
}

// expireCursor reads the page that follows a deleted run.
func expireCursor(b *bed) {
	var ids []dag.RunID
	for i := range 6 {
		ids = append(ids, b.past(dag.Micros(100+i), nil).ID)
	}
	w := b.run(dag.RunRunning).Workflow
	page := func(q store.RunQuery) (left []dag.RunID) {
		found, err := b.s.Runs(b.ctx, q)
		b.ok(err)
		for i := range found.Runs {
			left = append(left, found.Runs[i].ID)
		}
		return left
	}
	b.expire(store.Expiry{Workflow: w, To: b.but(w, 3), Limit: 10})
	for _, q := range []store.RunQuery{{Before: ids[2]}, {Before: ids[2], Workflow: w}, {Before: ids[1], States: []string{"succeeded"}}} {
		b.same(page(q), []dag.RunID(nil), fmt.Sprintf("runs before one that has been deleted, %+v", q))
	}
	gap := ids[4]
	gap[15]-- // an id between those of two runs
	b.same(page(store.RunQuery{Before: gap}), []dag.RunID{ids[3]}, "runs before an id between two runs")
	b.same(page(store.RunQuery{}), []dag.RunID{ids[5], ids[4], ids[3]}, "all runs")
}

const day = dag.Micros(24 * 3600 * 1e6)

// ledger adds lines of a trigger. Each line was decided a moment after its instant.
func (b *bed) ledger(trigger string, at ...dag.Micros) {
	b.Helper()
	b.put(func(x *store.Batch) {
		for i, at := range at {
			f := store.Fire{Workflow: 1, Trigger: trigger, At: at, Last: at, Count: 1, Outcome: store.OutcomeFired, Run: b.run(dag.RunRunning).ID, Decided: at + 1}
			if i%2 == 1 {
				f.Outcome, f.Run, f.Reason, f.Last, f.Count = store.OutcomeSkipped, dag.RunID{}, "overlap", at+day/4, 3
			}
			x.Fires = append(x.Fires, f)
		}
	})
}

func (b *bed) expireFires(x store.FireExpiry) (gone int) {
	b.Helper()
	for range 100 {
		did, err := b.s.(store.Retention).ExpireFires(b.ctx, b.owner, x)
		b.ok(err)
		gone += did.Gone
		if x.After = did.Next; did.Next == (store.FireKey{}) {
			return gone
		}
	}
	b.Error("there is always more")
	return gone
}

func (b *bed) linesAt(trigger string) (at []dag.Micros) {
	b.Helper()
	fs, err := b.s.Fires(b.ctx, store.FireQuery{Workflow: 1, Trigger: trigger, Limit: 100})
	b.ok(err)
	for i := range fs {
		at = append(at, fs[i].At/day)
	}
	return at
}

func expireFires(b *bed) {
	b.ledger("gone", 1*day, 2*day, 3*day, 4*day, 5*day, 6*day, 7*day, 8*day)
	for limit := range 3 {
		x := store.FireExpiry{Workflow: 1, Plain: 5 * day, Exceptions: 3 * day, Keep: 100, Limit: limit + 1}
		want := []int{3, 0, 0}[limit]
		b.same(b.expireFires(x), want, "lines that are gone")
		b.same(b.linesAt("gone"), []dag.Micros{8, 7, 6, 5, 4}, "lines that are left")
	}
	days, err := b.s.FireDays(b.ctx, store.TriggerKey{Workflow: 1, Name: "gone"}, 0, 10)
	b.ok(err)
	b.same(days, []store.FireDay{{Workflow: 1, Trigger: "gone", Day: 3, Fired: 1, Until: 3 * day},
		{Workflow: 1, Trigger: "gone", Day: 2, Skipped: 3, Until: 2*day + day/4}, {Workflow: 1, Trigger: "gone", Day: 1, Fired: 1, Until: day}}, "days")
	b.ledger("gone", 4*day+1, 4*day+day/2)
	x := store.FireExpiry{Workflow: 1, Plain: 5 * day, Exceptions: 5 * day, Keep: 100, Limit: 100, Days: 4}
	b.same(b.expireFires(x), 3, "lines of one day")
	days, err = b.s.FireDays(b.ctx, store.TriggerKey{Workflow: 1, Name: "gone"}, 0, 10)
	b.ok(err)
	b.same(days, []store.FireDay{{Workflow: 1, Trigger: "gone", Day: 4, Fired: 1, Skipped: 6, Until: 4*day + day/2 + day/4}}, "days that are left")
	x.Plain, x.Exceptions, x.Keep = 0, 0, 2
	b.same(b.expireFires(x), 2, "all but the newest")
	b.same(b.linesAt("gone"), []dag.Micros{8, 7}, "the newest")
	_, err = b.s.(store.Retention).ExpireFires(b.ctx, b.owner+1, x)
	b.is(err, store.ErrFenced)
	x.Workflow, x.Plain, x.Exceptions = 2, 100*day, 100*day
	b.same(b.expireFires(x), 0, "of another workflow")
}

func expireNewestFire(b *bed) {
	b.put(func(x *store.Batch) { x.TriggerInserts = []store.Trigger{trigger(1, "t", "cron")} })
	b.ledger("t", 1*day, 2*day, 3*day)
	x := store.FireExpiry{Workflow: 1, Plain: 100 * day, Exceptions: 100 * day, Keep: 100, Limit: 100, Days: 1000}
	b.same(b.expireFires(x), 2, "all but the newest")
	b.same(b.linesAt("t"), []dag.Micros{3}, "the newest")
	days, err := b.s.FireDays(b.ctx, store.TriggerKey{Workflow: 1, Name: "t"}, 0, 10)
	b.ok(err)
	b.same(days, []store.FireDay{{Workflow: 1, Trigger: "t", Day: 2, Skipped: 3, Until: 2*day + day/4}}, "the newest day")
}

func expireBackfills(b *bed) {
	fill := func(id int64, state string, modified dag.Micros) {
		b.put(func(x *store.Batch) {
			x.BackfillInserts = []store.Backfill{{ID: id, Workflow: 1, State: state, Revision: 1, Created: 1, Modified: modified, Parallel: 1}}
			for i := range 3 {
				x.BackfillRuns = append(x.BackfillRuns, store.BackfillRun{Backfill: id, Workflow: 1, Instant: dag.Micros(i), Run: b.run(dag.RunRunning).ID})
			}
		})
	}
	fill(1, store.BackfillDone, 100)
	fill(2, store.BackfillPaused, 100)
	fill(3, store.BackfillCancelled, 200)
	fill(4, store.BackfillDone, 300)
	x := store.BackfillExpiry{Workflow: 1, Before: 150, Keep: 100, Limit: 2}
	expire := func() (all int) {
		for range 20 {
			n, err := b.s.(store.Retention).ExpireBackfills(b.ctx, b.owner, x)
			b.ok(err)
			if all += n; n == 0 {
				return all
			}
		}
		b.Error("there is always more")
		return all
	}
	left := func() (ids []int64) {
		bs, err := b.s.Backfills(b.ctx, 1, "", 0, 100)
		b.ok(err)
		for i := range bs {
			ids = append(ids, bs[i].ID)
		}
		return ids
	}
	b.same(expire(), 4, "rows by age")
	b.same(left(), []int64{4, 3, 2}, "left by age")
	runs, err := b.s.BackfillRuns(b.ctx, 1, -1, 10)
	b.ok(err)
	b.same(len(runs), 0, "instants of one that is gone")
	x.Before, x.Keep = 0, 1
	b.same(expire(), 4, "rows by number")
	b.same(left(), []int64{4, 2}, "left by number")
	_, err = b.s.(store.Retention).ExpireBackfills(b.ctx, b.owner+1, x)
	b.is(err, store.ErrFenced)
}

func expireWorkflow(b *bed) {
	flow := workflow(1, "made")
	b.put(func(x *store.Batch) {
		x.WorkflowInserts = []store.Workflow{flow}
		x.Versions = []store.Version{version(1, 1)}
		x.BackfillInserts = []store.Backfill{{ID: 1, Workflow: 1, State: store.BackfillDone, Revision: 1, Created: 1, Modified: 1, Parallel: 1}}
		x.BackfillRuns = []store.BackfillRun{{Backfill: 1, Workflow: 1, Instant: 1, Run: b.run(dag.RunRunning).ID}}
	})
	b.ledger("t", 1*day, 2*day)
	x := store.WorkflowExpiry{Workflow: 1, Before: 1 << 60, Limit: 1}
	expire := func() (all int) {
		for range 20 {
			n, err := b.s.(store.Retention).ExpireWorkflow(b.ctx, b.owner, x)
			b.ok(err)
			if all += n; n == 0 {
				return all
			}
		}
		b.Error("there is always more")
		return all
	}
	b.same(expire(), 0, "one that is not deleted")
	gone := flow
	gone.State, gone.Revision, gone.Modified = store.WorkflowDeleted, flow.Revision+1, 500
	b.put(func(x *store.Batch) { x.WorkflowUpdates = []store.Workflow{gone} })
	deleted, err := b.s.(store.Retention).DeletedWorkflows(b.ctx, 0, 10)
	b.ok(err)
	b.same(len(deleted), 1, "deleted workflows")
	r := b.past(100, nil)
	b.same(expire(), 0, "one that has a run")
	b.expire(store.Expiry{Workflow: 1, To: b.but(1, 1), Before: 1000, Limit: 10})
	_, err = b.s.Run(b.ctx, r.ID)
	b.is(err, store.ErrNotFound)
	x.Before = 500
	b.same(expire(), 0, "one that was deleted later")
	x.Before = 501
	if n := expire(); n == 0 {
		b.Error("nothing is gone")
	}
	deleted, err = b.s.(store.Retention).DeletedWorkflows(b.ctx, 0, 10)
	b.ok(err)
	b.same(len(deleted), 0, "deleted workflows that are left")
	_, err = b.s.Version(b.ctx, 1, 1)
	b.is(err, store.ErrNotFound)
	b.same(b.linesAt("t"), []dag.Micros(nil), "its ledger")
	if bs, err := b.s.Backfills(b.ctx, 1, "", 0, 10); err != nil || len(bs) > 0 {
		b.Error("its backfills", bs, err)
	}
}

// expireBusyCalls adds two calls of a first secret, a few calls of two others, and many newer calls of a busy
// secret. Twelve calls are kept, so the share of each secret is three.
func expireBusyCalls(b *bed, x store.RecordExpiry) {
	add := func(secret string, from, to int) {
		b.put(func(x *store.Batch) {
			for i := from; i < to; i++ {
				x.Requests = append(x.Requests, store.Request{Scope: store.CallScope + secret, Key: fmt.Sprint(i), Hash: []byte{1},
					Answer: []byte{2}, Created: dag.Micros(200 + i)})
			}
		})
	}
	is := func(secret string, i int, want error) {
		_, err := b.s.Request(b.ctx, store.CallScope+secret, fmt.Sprint(i))
		b.is(err, want)
	}
	add("quiet", 0, 3)
	add("other", 0, 5)
	add("busy", 5, 25)
	x.Calls, x.CallsKeep = 0, 12
	rows := 0
	for n := 1; n > 0; rows += n {
		got, err := b.s.(store.Retention).ExpireRecords(b.ctx, b.owner, x)
		b.ok(err)
		n = got
	}
	b.same(rows, 18, "calls beyond the number")
	is("quiet", 0, nil)
	is("other", 1, nil)
	is("busy", 21, store.ErrNotFound)
	is("busy", 22, nil)
}

func expireRequests(b *bed) {
	for i := range 5 {
		b.put(func(x *store.Batch) {
			x.Requests = []store.Request{{Scope: "s", Key: fmt.Sprint("k", i), Hash: []byte{1}, Answer: []byte{2}, Created: dag.Micros(100 + i)}}
		})
	}
	for i := range 4 {
		_, err := b.s.Register(b.ctx, fmt.Sprintf("00000000-0000-4000-8000-00000000009%d", i), "node")
		b.ok(err)
	}
	// No process is old enough to be deleted.
	x := store.RecordExpiry{Requests: 102, RequestsKeep: 100, RecordsKeep: 1, RecordsMin: 1, Limit: 100}
	expire := func() int {
		n, err := b.s.(store.Retention).ExpireRecords(b.ctx, b.owner, x)
		b.ok(err)
		return n
	}
	b.same(expire(), 2, "by age")
	for i := range 5 {
		b.put(func(x *store.Batch) {
			x.Requests = []store.Request{{Scope: store.CallScope + "s", Key: fmt.Sprint("c", i), Hash: []byte{1}, Answer: []byte{2}, Created: dag.Micros(50 + i)}}
		})
	}
	x.Calls, x.CallsKeep = 52, 100
	b.same(expire(), 2, "calls by age; they are older than all others, which stay")
	x.CallsKeep = 2
	b.same(expire(), 1, "calls by number")
	_, err := b.s.Request(b.ctx, store.CallScope+"s", "c3")
	b.ok(err)
	x.RequestsKeep = 1
	b.same(expire(), 2, "by number")
	_, err = b.s.Request(b.ctx, "s", "k3")
	b.is(err, store.ErrNotFound)
	_, err = b.s.Request(b.ctx, "s", "k4")
	b.ok(err)
	expireBusyCalls(b, x)
	_, err = b.s.(store.Retention).ExpireRecords(b.ctx, b.owner+1, x)
	b.is(err, store.ErrFenced)
}
