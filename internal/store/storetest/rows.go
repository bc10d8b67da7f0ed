package storetest

import (
	"bytes"
	"math"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// rows covers rows that must be read as they were written.
func rows() []check {
	return []check{
		{"run with every field", runFields},
		{"update of a run keeps its header", updateKeepsHeader},
		{"update of a run fills in its parameters", updateFills},
		{"update of a run rewrites the rest", updateRewrites},
		{"attempt with every field", attemptFields},
		{"update of an attempt keeps its hand-over", updateKeepsHandOver},
		{"update of an attempt rewrites the rest", attemptRewrites},
		{"exit codes", exitCodes},
		{"retry waits are whole microseconds", retryWaits},
		{"attempts of the Leader", leaderAttempts},
		{"all states, intents, priorities, origins", closedSets},
		{"greatest and least numbers", extremes},
		{"nil blobs stay nil", nilBlobs},
		{"large values", largeValues},
		{"every byte in blobs", everyByte},
		{"events in order", eventsInOrder},
		{"events around the end and new generations", func(b *bed) { eventsOfGenerations(b, true) }},
		{"events of a run inserted without", func(b *bed) { eventsOfGenerations(b, false) }},
		{"events of unknown runs", func(b *bed) {
			events, err := b.s.Events(b.ctx, runID(99), 0, 10)
			b.ok(err)
			b.same(events, []dag.EventRow(nil), "events")
		}},
		{"attempts by task", attemptQueries},
		{"what goes in is copied", copiedIn},
		{"what comes out is the caller's", copiedOut},
	}
}

func (b *bed) fullRun() dag.RunRow {
	r := b.run(dag.RunFailed)
	r.Workflow, r.Version, r.Priority, r.Origin = 3, 4, dag.High, dag.OriginSchedule
	r.User, r.Key, r.KeyHash, r.Params = "użytkownik", "klucz", []byte{0, 1, 255}, []byte(`{"a":1}`)
	r.Intent, r.Generation, r.Cause, r.Message = dag.IntentStop, 5, dag.CauseTimeout, "ran past 😀"
	r.Graph, r.Base, r.Final = []byte{1}, []byte{2, 0}, []byte{3, 3, 3}
	r.SplitAt, r.StartedAt, r.FinishedAt, r.Leader, r.LeaderAt = 11, 12, 13, 14, 15
	r.Fire = &dag.Fire{Trigger: "nocą 🌙", Instant: 16, StartBy: 17, Backfill: 18, Key: "zdarzenie", FailLost: true,
		Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	r.Claim = &dag.Claim{Queue: "kolejka", Key: "🌙", Locks: []string{"a"}, Stage: dag.ClaimOver, Level: dag.Low, Asked: 19, Grant: 20, Granted: 21, Limit: 22, Family: runID(23)}
	return r
}

func (b *bed) fullAttempt(run dag.RunID) dag.AttemptRow {
	return dag.AttemptRow{Run: run, Task: 6, Token: 7, Generation: 5, Handler: b.owner, State: dag.AttemptFailed,
		Cause: dag.CauseExit, Message: "exit 3 ✗", Exited: true, ExitCode: 3, Signal: "SIGTERM", Outputs: []byte(`{"o":"p"}`),
		Assigned: 21, Started: 22, Finished: 23, RetryAt: 24, RetryWait: 25 * time.Microsecond}
}

// record reads a run with its attempts and outputs in three ways. The results must agree.
func (b *bed) record(id dag.RunID) store.RunRecord {
	b.Helper()
	row, err := b.s.Run(b.ctx, id)
	b.ok(err)
	attempts, err := b.s.Attempts(b.ctx, store.AttemptQuery{Run: id, Outputs: true})
	b.ok(err)
	rec := store.RunRecord{Run: row, Attempts: attempts}
	loaded, err := b.s.Load(b.ctx, store.LoadQuery{IDs: []dag.RunID{id}})
	b.ok(err)
	b.same(len(loaded), 1, "loaded")
	b.same(loaded[0].Run, row, "the run as loaded")
	b.ok(b.s.Scan(b.ctx, func(scanned store.RunRecord, _ []dag.EventRow) error {
		if scanned.Run.ID == id {
			b.same(scanned, rec, "the run as scanned")
		}
		return nil
	}))
	return rec
}

func runFields(b *bed) {
	r := b.fullRun()
	b.add(r)
	b.same(b.record(r.ID).Run, r, "the run")
	page, err := b.s.Runs(b.ctx, store.RunQuery{Limit: 5, Params: true})
	b.ok(err)
	b.same(page, store.RunPage{Runs: []dag.RunRow{r}}, "the page")
	found, err := store.RunByKey(b.ctx, b.s, r.Workflow, r.Key)
	b.ok(err)
	b.same(found, r, "the run by its key")
}

func updateKeepsHeader(b *bed) {
	r := b.fullRun()
	b.add(r)
	u := dag.RunUpdate{RunRow: dag.RunRow{Header: dag.Header{ID: r.ID, User: "somebody else", Key: "another"}}, Was: r.State}
	b.put(func(x *store.Batch) { x.RunUpdates = []dag.RunUpdate{u} })
	want := dag.RunRow{Header: r.Header}
	b.same(b.record(r.ID).Run, want, "the run")
}

// updateFills checks that an update can write the parameters of a header, and no other part.
func updateFills(b *bed) {
	r, other := b.fullRun(), b.run(dag.RunRunning)
	b.add(r, other)
	full := r
	full.Params = []byte(`{"a":[1,null],"completed":true}`)
	changed := full
	changed.User = "somebody else"
	b.put(func(x *store.Batch) {
		x.RunUpdates = []dag.RunUpdate{{RunRow: changed, Was: r.State, Filled: true}, {RunRow: other, Was: other.State}}
	})
	b.same(b.record(r.ID).Run, full, "the run")
	b.same(b.record(other.ID).Run, other, "another run")
}

func updateRewrites(b *bed) {
	full := b.fullRun()
	bare := dag.RunRow{Header: full.Header, Generation: 1}
	b.add(bare)
	for _, next := range []dag.RunRow{full, bare, full} {
		was, err := b.s.Run(b.ctx, full.ID)
		b.ok(err)
		b.put(func(x *store.Batch) { x.RunUpdates = []dag.RunUpdate{{RunRow: next, Was: was.State}} })
		b.same(b.record(full.ID).Run, next, "the run")
	}
}

func attemptFields(b *bed) {
	r := b.run(dag.RunRunning)
	a := b.fullAttempt(r.ID)
	b.put(func(x *store.Batch) {
		x.RunInserts = []dag.RunRow{r}
		x.AttemptInserts = []dag.AttemptRow{a}
	})
	b.same(b.record(r.ID).Attempts, []dag.AttemptRow{a}, "the attempt")
	loaded, err := b.s.Load(b.ctx, store.LoadQuery{Limit: 5})
	b.ok(err)
	b.same(loaded, []store.RunRecord{{Run: r, Attempts: []dag.AttemptRow{a}}}, "as loaded")
}

func updateKeepsHandOver(b *bed) {
	w := b.world()
	u := ended(w.attempt)
	u.Generation, u.Assigned = 77, 78
	b.put(func(x *store.Batch) { x.AttemptUpdates = []dag.AttemptUpdate{u} })
	b.same(b.record(w.run.ID).Attempts, []dag.AttemptRow{ended(w.attempt).AttemptRow}, "the attempt")
}

func attemptRewrites(b *bed) {
	r := b.run(dag.RunRunning)
	full := b.fullAttempt(r.ID)
	bare := b.attempt(r.ID, full.Task, full.Token)
	bare.Generation, bare.Assigned = full.Generation, full.Assigned
	b.put(func(x *store.Batch) {
		x.RunInserts = []dag.RunRow{r}
		x.AttemptInserts = []dag.AttemptRow{bare}
	})
	for _, u := range []dag.AttemptUpdate{{AttemptRow: full, Was: bare.State}, {AttemptRow: bare, Was: full.State}, {AttemptRow: full, Was: bare.State}} {
		b.put(func(x *store.Batch) { x.AttemptUpdates = []dag.AttemptUpdate{u} })
		b.same(b.record(r.ID).Attempts, []dag.AttemptRow{u.AttemptRow}, "the attempt")
	}
}

// roundTrip commits a new run with the attempts that the function returns, and compares them after a read.
func (b *bed) roundTrip(attempts func(run dag.RunID) []dag.AttemptRow) {
	b.Helper()
	r := b.run(dag.RunRunning)
	want := attempts(r.ID)
	b.put(func(x *store.Batch) {
		x.RunInserts = []dag.RunRow{r}
		x.AttemptInserts = want
	})
	b.same(b.record(r.ID).Attempts, want, "the attempts")
}

func exitCodes(b *bed) {
	b.roundTrip(func(run dag.RunID) []dag.AttemptRow {
		var all []dag.AttemptRow
		for i, code := range []int32{0, 1, -1, 255, math.MinInt32, math.MaxInt32} {
			a := b.attempt(run, 0, dag.Token(i+1))
			a.Exited, a.ExitCode = true, code
			all = append(all, a)
		}
		return append(all, b.attempt(run, 1, 1)) // this attempt has no exit code
	})
}

func retryWaits(b *bed) {
	r := b.run(dag.RunRunning)
	a := b.attempt(r.ID, 0, 1)
	a.RetryWait = 1500 * time.Nanosecond
	b.put(func(x *store.Batch) {
		x.RunInserts = []dag.RunRow{r}
		x.AttemptInserts = []dag.AttemptRow{a}
	})
	b.same(b.record(r.ID).Attempts[0].RetryWait, time.Microsecond, "the wait")
}

func leaderAttempts(b *bed) {
	b.roundTrip(func(run dag.RunID) []dag.AttemptRow {
		return []dag.AttemptRow{b.attempt(run, dag.LeaderTask, 1), b.attempt(run, dag.LeaderTask, 2), b.attempt(run, 0, 1)}
	})
}

func closedSets(b *bed) {
	var want []dag.RunRow
	for s := dag.RunSubmitted; s <= dag.RunSkipped; s++ {
		want = append(want, b.run(s))
	}
	for i := dag.IntentRun; i <= dag.IntentKill; i++ {
		want[i].Intent = i
	}
	for p := range dag.Priority(dag.Levels) {
		want[p].Priority = p
	}
	for i, o := range []dag.Origin{dag.OriginManual, dag.OriginAPI, dag.OriginSchedule, dag.OriginSensor,
		dag.OriginBackfill, dag.OriginParent, dag.OriginRecovery, ""} {
		want[i].Origin = o
	}
	b.add(want...)
	for _, r := range want {
		b.same(b.record(r.ID).Run, r, "the run")
	}
	b.roundTrip(func(run dag.RunID) []dag.AttemptRow {
		var all []dag.AttemptRow
		for s := dag.AttemptAssigned; s.Known(); s++ {
			a := b.attempt(run, dag.TaskID(s), 1)
			a.State = s
			all = append(all, a)
		}
		return all
	})
}

func extremes(b *bed) {
	r := b.run(dag.RunRunning)
	r.Workflow, r.Version, r.Generation, r.Created = math.MaxInt64, math.MaxInt32, math.MaxInt32, math.MaxInt64
	r.SplitAt, r.StartedAt, r.Leader, r.LeaderAt = math.MaxInt64, -1, math.MaxInt64, math.MaxInt64
	b.add(r)
	b.same(b.record(r.ID).Run, r, "the run")
	for _, fire := range []dag.Fire{{}, {Instant: math.MaxInt64, StartBy: math.MaxInt64, Backfill: math.MaxInt64},
		{Trigger: strings.Repeat("é", 1<<16), Key: "\x00\xff", Instant: -1, StartBy: math.MinInt64, Backfill: -1}} {
		r := b.run(dag.RunRunning)
		r.Fire = &fire
		b.add(r)
		b.same(b.record(r.ID).Run, r, "the run with an extreme fire")
	}
	for i, id := range []dag.RunID{{15: 1}, {0: 0xff, 1: 0xff, 2: 0xff, 3: 0xff, 15: 0xff}} {
		r := b.run(dag.RunSucceeded)
		r.ID, r.User = id, key(i)
		b.add(r)
		b.same(b.record(id).Run, r, "the run with an extreme id")
	}
	b.roundTrip(func(run dag.RunID) []dag.AttemptRow {
		a := b.attempt(run, math.MaxInt32, math.MaxInt32)
		a.Assigned, a.RetryAt, a.RetryWait = math.MaxInt64, math.MaxInt64, math.MaxInt64/1000*1000
		return []dag.AttemptRow{a}
	})
}

// nilBlobs checks that nil columns stay nil: no final states, no outputs.
func nilBlobs(b *bed) {
	w := b.world()
	rec := b.record(w.run.ID)
	r := rec.Run
	if r.Fire != nil {
		b.Errorf("a run that nothing fired came back with %+v", r.Fire)
	}
	for name, blob := range map[string][]byte{"key hash": r.KeyHash, "params": r.Params, "graph": r.Graph, "base": r.Base,
		"final": r.Final, "outputs": rec.Attempts[0].Outputs} {
		if blob != nil {
			b.Errorf("nil %s came back as %v", name, blob)
		}
	}
	empty := b.run(dag.RunRunning)
	empty.Params = []byte{}
	b.add(empty)
	b.same(len(b.record(empty.ID).Run.Params), 0, "length of empty params")
	v := store.Version{Workflow: 1, Version: 2, Files: []store.File{{Name: "empty", Mode: 0o600}}}
	b.put(func(x *store.Batch) {
		x.Versions = []store.Version{v}
		x.Requests = []store.Request{{Scope: "scope", Key: key(1)}}
		x.Messages = []store.Message{{}}
	})
	got, err := b.s.Version(b.ctx, 1, 2)
	b.ok(err)
	b.same(got, store.Version{Workflow: 1, Version: 2}, "a version of nothing")
	files, err := b.s.Files(b.ctx, store.FileQuery{Workflow: 1, Version: 2})
	b.ok(err)
	b.same(files, v.Files, "an empty file")
}

func largeValues(b *bed) {
	r := b.run(dag.RunRunning)
	r.Params = bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // 2 MiB
	r.Message = string(bytes.Repeat([]byte("é"), 1<<20))
	a := b.attempt(r.ID, 0, 1)
	a.Outputs = bytes.Repeat([]byte{0xaa, 0, 0x55}, 1<<20)
	v := version(1, 1)
	v.Files[0].Data = bytes.Repeat([]byte("x"), 9<<20)
	b.put(func(x *store.Batch) {
		x.RunInserts = []dag.RunRow{r}
		x.AttemptInserts = []dag.AttemptRow{a}
		x.Versions = []store.Version{v}
	})
	got, err := b.s.Run(b.ctx, r.ID)
	b.ok(err)
	attempts, err := b.s.Attempts(b.ctx, store.AttemptQuery{Run: r.ID, Outputs: true})
	b.ok(err)
	files, err := b.s.Files(b.ctx, store.FileQuery{Workflow: 1, Version: 1})
	b.ok(err)
	if !bytes.Equal(got.Params, r.Params) || got.Message != r.Message || !bytes.Equal(attempts[0].Outputs, a.Outputs) ||
		!bytes.Equal(files[0].Data, v.Files[0].Data) {
		b.Fatal("a large value changed")
	}
}

func everyByte(b *bed) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	r := b.run(dag.RunRunning)
	r.KeyHash, r.Params, r.Graph, r.Base, r.Final = all, all, all, all, all
	e := dag.EventRow{Run: r.ID, At: 1, Records: all}
	b.put(func(x *store.Batch) {
		x.RunInserts = []dag.RunRow{r}
		x.Events = []dag.EventRow{e}
	})
	b.same(b.record(r.ID).Run, r, "the run")
	events, err := b.s.Events(b.ctx, r.ID, 0, 5)
	b.ok(err)
	b.same(events[0].Records, all, "the records")
}

func eventsInOrder(b *bed) {
	r, other := b.run(dag.RunRunning), b.run(dag.RunRunning)
	b.add(r, other)
	var want []dag.EventRow
	for n := range dag.Micros(12) {
		e := event(r.ID, 100-n) // the time may fall, because seq gives the order
		x := b.batch()
		x.Events = []dag.EventRow{event(other.ID, n)}
		if n%3 != 0 {
			e.Seq = x.Fences[0].Seq + 1
			want = append(want, e)
			e.Seq = 999 // the store ignores the caller's value
			x.Events = append(x.Events, e)
		}
		b.ok(b.commit(x))
	}
	all, err := b.s.Events(b.ctx, r.ID, 0, 100)
	b.ok(err)
	b.same(all, want, "events")
	for limit := 1; limit <= 3; limit++ {
		var paged []dag.EventRow
		for after := int64(0); ; {
			page, err := b.s.Events(b.ctx, r.ID, after, limit)
			b.ok(err)
			if len(page) == 0 {
				break
			}
			if len(page) > limit {
				b.Fatalf("a page of %d events, limit %d", len(page), limit)
			}
			paged = append(paged, page...)
			after = page[len(page)-1].Seq
		}
		b.same(paged, want, "events by pages")
	}
	unlimited, err := b.s.Events(b.ctx, r.ID, 0, 0)
	b.ok(err)
	b.same(unlimited, want, "events without a limit")
}

// eventsOfGenerations checks that history is read completely, wherever an engine keeps it: in rows of its own
// or in the run's row. That must hold with and without a change of the run in the same transaction.
func eventsOfGenerations(b *bed, fromTheStart bool) {
	r := b.run(dag.RunSubmitted)
	var want []dag.EventRow
	inserted := false
	step := func(to dag.RunState, finished dag.Micros, history bool) {
		b.Helper()
		x := b.batch()
		if !inserted {
			x.RunInserts, inserted = []dag.RunRow{r}, true
		} else if to != r.State || finished != r.FinishedAt {
			was := r.State
			r.State, r.FinishedAt = to, finished
			x.RunUpdates = []dag.RunUpdate{{RunRow: r, Was: was}}
		}
		if history {
			e := event(r.ID, 50+dag.Micros(len(want)))
			e.Seq = x.Fences[0].Seq + 1
			want = append(want, e)
			x.Events = []dag.EventRow{e}
		}
		b.ok(b.commit(x))
		got, err := b.s.Events(b.ctx, r.ID, 0, 100)
		b.ok(err)
		b.same(got, want, "events")
		for after := range want {
			got, err := b.s.Events(b.ctx, r.ID, want[after].Seq, 2)
			b.ok(err)
			b.same(got, want[after+1:min(after+3, len(want))], "events after one")
		}
		b.same(b.record(r.ID).Run, r, "the run")
	}
	step(dag.RunSubmitted, 0, fromTheStart)
	step(dag.RunSubmitted, 0, true)
	for n := range dag.Micros(4) {
		step(dag.RunRunning, 0, true)
		step(dag.RunRunning, 0, true)
		step(dag.RunFailed, 100+n, n != 1)
		step(dag.RunFailed, 100+n, true) // a stale report about an ended run
		r.Generation++                   // the run is recovered
	}
	step(dag.RunRunning, 0, false)
	b.ok(b.s.Scan(b.ctx, func(_ store.RunRecord, events []dag.EventRow) error {
		b.same(events, want, "events as scanned")
		return nil
	}))
}

func attemptQueries(b *bed) {
	r := b.run(dag.RunRunning)
	b.add(r)
	var all []dag.AttemptRow
	for task := dag.LeaderTask; task < 3; task++ {
		for token := range dag.Token(3) {
			a := b.attempt(r.ID, task, token+1)
			a.Outputs = []byte{byte(task), byte(token)}
			all = append(all, a)
		}
	}
	for i := range all { // read the elements in another order than that of the list
		b.put(func(x *store.Batch) { x.AttemptInserts = []dag.AttemptRow{all[(i*5+7)%len(all)]} })
	}
	query := func(q store.AttemptQuery, want []dag.AttemptRow) {
		b.Helper()
		got, err := b.s.Attempts(b.ctx, q)
		b.ok(err)
		b.same(got, want, "attempts")
	}
	query(store.AttemptQuery{Run: r.ID, Outputs: true}, all)
	query(store.AttemptQuery{Run: r.ID, Outputs: true, Task: 2}, all) // without One, Task must be ignored
	query(store.AttemptQuery{Run: r.ID, Outputs: true, One: true}, all[3:6])
	query(store.AttemptQuery{Run: r.ID, Outputs: true, One: true, Task: dag.LeaderTask}, all[:3])
	query(store.AttemptQuery{Run: r.ID, One: true, Task: 9}, nil)
	query(store.AttemptQuery{Run: runID(99)}, nil)
	for i := range all {
		all[i].Outputs = nil
	}
	query(store.AttemptQuery{Run: r.ID}, all)
	query(store.AttemptQuery{Run: r.ID, One: true, Task: 1}, all[6:9])
}

// copiedIn checks that after Commit the caller may change the batch and everything that it points to.
func copiedIn(b *bed) {
	r := b.fullRun()
	a := b.fullAttempt(r.ID)
	x := b.batch()
	x.RunInserts = []dag.RunRow{r}
	x.AttemptInserts = []dag.AttemptRow{a}
	x.Events = []dag.EventRow{event(r.ID, 1)}
	x.Versions = []store.Version{version(1, 1)}
	x.Requests = []store.Request{request(1)}
	x.Messages = []store.Message{{Payload: []byte("hello")}}
	b.ok(b.commit(x))
	before := tidy(b.contents())
	for _, blob := range [][]byte{r.KeyHash, r.Params, r.Graph, r.Base, r.Final, a.Outputs, x.Events[0].Records,
		x.Versions[0].Source, x.Versions[0].Def, x.Versions[0].Graph, x.Versions[0].Digest, x.Versions[0].Files[0].Data,
		x.Requests[0].Hash, x.Requests[0].Answer, x.Messages[0].Payload} {
		clear(blob)
	}
	x.Versions[0].Files[0].Name = "changed"
	r.Fire.Trigger = "changed"
	x.Reset()
	b.same(b.contents(), before, "after the batch was overwritten")
}

func copiedOut(b *bed) {
	r := b.fullRun()
	b.put(func(x *store.Batch) {
		x.RunInserts = []dag.RunRow{r}
		x.AttemptInserts = []dag.AttemptRow{b.fullAttempt(r.ID)}
		x.Events = []dag.EventRow{event(r.ID, 1)}
		x.Versions = []store.Version{version(1, 1)}
		x.Requests = []store.Request{request(1)}
		x.Messages = []store.Message{{Payload: []byte("hello")}}
	})
	want := tidy(b.contents())
	c := b.contents()
	for _, blob := range [][]byte{c.Runs[0].Run.Params, c.Runs[0].Run.Final, c.Runs[0].Attempts[0].Outputs, c.Runs[0].Events[0].Records,
		c.Versions[0].Source, c.Files[0].Data, c.Requests[0].Answer, c.Messages[0].Payload} {
		clear(blob)
	}
	rec := b.record(r.ID)
	clear(rec.Run.Params)
	clear(rec.Attempts[0].Outputs)
	rec.Run.Fire.Trigger = "changed"
	loaded, err := b.s.Load(b.ctx, store.LoadQuery{IDs: []dag.RunID{r.ID}})
	b.ok(err)
	clear(loaded[0].Run.Final)
	clear(loaded[0].Attempts[0].Outputs)
	clear(loaded[0].Attempts)
	b.same(b.contents(), want, "after what came out was overwritten")
}
