package storetest

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// wrong returns a check with a batch that is valid except for the change that spoil adds. Nothing of the
// batch may be written.
func wrong(kind error, spoil func(b *bed, w *world, x *store.Batch)) func(b *bed) {
	return func(b *bed) {
		w := b.world()
		x := b.full(&w)
		spoil(b, &w, x)
		b.fails(x, kind)
		b.ok(b.commit(b.full(&w))) // the refused batch must not affect a valid one
	}
}

// guards covers updates of rows whose state differs from what the writer expects.
func guards() []check {
	attempt := func(change func(u *dag.AttemptUpdate)) func(b *bed) {
		return wrong(store.ErrFenced, func(_ *bed, w *world, x *store.Batch) {
			u := ended(w.attempt)
			change(&u)
			x.AttemptUpdates = []dag.AttemptUpdate{u}
		})
	}
	run := func(change func(u *dag.RunUpdate)) func(b *bed) {
		return wrong(store.ErrFenced, func(_ *bed, w *world, x *store.Batch) {
			change(&x.RunUpdates[0])
		})
	}
	flow := func(change func(w *store.Workflow)) func(b *bed) {
		return wrong(store.ErrFenced, func(_ *bed, w *world, x *store.Batch) {
			change(&x.WorkflowUpdates[0])
		})
	}
	consume := func(more func(w *world) []int64) func(b *bed) {
		return wrong(store.ErrFenced, func(_ *bed, w *world, x *store.Batch) { x.Consumed = more(w) })
	}
	return []check{
		{"attempt of another run", attempt(func(u *dag.AttemptUpdate) { u.Run = runID(999) })},
		{"attempt of another task", attempt(func(u *dag.AttemptUpdate) { u.Task = 7 })},
		{"attempt of the Leader", attempt(func(u *dag.AttemptUpdate) { u.Task = dag.LeaderTask })},
		{"attempt with an older token", attempt(func(u *dag.AttemptUpdate) { u.Token-- })},
		{"attempt with a newer token", attempt(func(u *dag.AttemptUpdate) { u.Token++ })},
		{"attempt of another handler", attempt(func(u *dag.AttemptUpdate) { u.Handler++ })},
		{"attempt in another state", attempt(func(u *dag.AttemptUpdate) { u.Was = dag.AttemptRunning })},
		{"attempt that has ended", attemptEnded},
		{"attempt updated twice from one state", wrong(store.ErrFenced, func(_ *bed, w *world, x *store.Batch) {
			x.AttemptUpdates = append(x.AttemptUpdates, ended(w.attempt))
		})},
		{"run that does not exist", run(func(u *dag.RunUpdate) { u.ID = runID(999) })},
		{"run in another state", run(func(u *dag.RunUpdate) { u.Was = dag.RunPaused })},
		{"run on another shard", run(func(u *dag.RunUpdate) { u.Shard++ })},
		{"run updated twice from one state", wrong(store.ErrFenced, func(_ *bed, w *world, x *store.Batch) {
			x.RunUpdates[0].State = dag.RunPaused
			x.RunUpdates = append(x.RunUpdates, dag.RunUpdate{RunRow: w.run, Was: w.run.State})
		})},
		{"workflow that does not exist", flow(func(w *store.Workflow) { w.ID = 4 })},
		{"workflow at the same revision", flow(func(w *store.Workflow) { w.Revision-- })},
		{"workflow two revisions on", flow(func(w *store.Workflow) { w.Revision++ })},
		{"message that is gone", consume(func(w *world) []int64 { return []int64{w.message.ID, w.message.ID + 1000} })},
		{"message consumed twice", consume(func(w *world) []int64 { return []int64{w.message.ID, w.message.ID} })},
		{"rows inserted in the same batch", insertedBefore},
		{"one row through several states", severalStates},
		{"one row through several states, taken back", severalTakenBack},
		{"stale fence and refused content", staleAndRefused},
	}
}

func attemptEnded(b *bed) {
	w := b.world()
	b.put(func(x *store.Batch) { x.AttemptUpdates = []dag.AttemptUpdate{ended(w.attempt)} })
	for was := dag.AttemptAssigned; was.Known(); was++ {
		if was == dag.AttemptSucceeded {
			continue // the column already has this value
		}
		x := b.batch()
		x.AttemptUpdates = []dag.AttemptUpdate{{AttemptRow: w.attempt, Was: was}}
		b.fails(x, store.ErrFenced)
	}
}

// insertedBefore checks that a batch is applied in the order of its fields, so that an update can change a
// row that the same batch inserts.
func insertedBefore(b *bed) {
	r := b.run(dag.RunSubmitted)
	a := b.attempt(r.ID, 0, 1)
	moved := dag.RunUpdate{RunRow: r, Was: dag.RunSubmitted}
	moved.State = dag.RunRunning
	b.put(func(x *store.Batch) {
		x.RunInserts = []dag.RunRow{r}
		x.RunUpdates = []dag.RunUpdate{moved}
		x.AttemptInserts = []dag.AttemptRow{a}
		x.AttemptUpdates = []dag.AttemptUpdate{ended(a)}
	})
	b.same(b.contents().Runs, []history{{RunRecord: store.RunRecord{Run: moved.RunRow,
		Attempts: []dag.AttemptRow{ended(a).AttemptRow}}}}, "the run")
}

func severalStates(b *bed) {
	w := b.world()
	x, end := b.several(&w)
	b.ok(b.commit(x))
	c := b.contents()
	b.same(c.Runs[0].RunRecord, store.RunRecord{Run: w.run, Attempts: []dag.AttemptRow{end.AttemptRow}}, "the run")
	b.same(c.Workflows, []store.Workflow{revised(revised(w.flow))}, "the workflow")
}

func severalTakenBack(b *bed) {
	w := b.world()
	x, _ := b.several(&w)
	x.Consumed = []int64{w.message.ID, w.message.ID}
	b.fails(x, store.ErrFenced)
	x, _ = b.several(&w)
	b.ok(b.commit(x))
}

// several returns a batch that changes a run, an attempt and a workflow twice.
func (b *bed) several(w *world) (*store.Batch, dag.AttemptUpdate) {
	x := b.batch()
	paused, again := dag.RunUpdate{RunRow: w.run, Was: dag.RunRunning}, dag.RunUpdate{RunRow: w.run, Was: dag.RunPaused}
	paused.State = dag.RunPaused
	started := dag.AttemptUpdate{AttemptRow: w.attempt, Was: dag.AttemptAssigned}
	started.State = dag.AttemptRunning
	end := ended(w.attempt)
	end.Was = dag.AttemptRunning
	x.RunUpdates = []dag.RunUpdate{paused, again}
	x.AttemptUpdates = []dag.AttemptUpdate{started, end}
	x.WorkflowUpdates = []store.Workflow{revised(w.flow), revised(revised(w.flow))}
	return x, end
}

func staleAndRefused(b *bed) {
	w := b.world()
	x := b.full(&w)
	x.Fences[0].Epoch--
	x.RunInserts[0].User = "\x00"
	b.fails(x, store.ErrFenced, store.ErrRefused)
}

// refusals covers contents that every engine must refuse, at every try.
func refusals() []check {
	type spoil = func(b *bed, w *world, x *store.Batch)
	refuse := func(f spoil) func(b *bed) { return wrong(store.ErrRefused, f) }
	return []check{
		{"run id exists", refuse(func(b *bed, w *world, x *store.Batch) {
			r := b.run(dag.RunRunning)
			r.ID = w.run.ID
			x.RunInserts = append(x.RunInserts, r)
		})},
		{"run id twice in a batch", refuse(func(b *bed, _ *world, x *store.Batch) {
			x.RunInserts = append(x.RunInserts, x.RunInserts[0])
		})},
		{"run key exists", refuse(func(b *bed, w *world, x *store.Batch) { x.RunInserts[0].Key = w.run.Key })},
		{"run key twice in a batch", refuse(func(b *bed, _ *world, x *store.Batch) {
			r := b.run(dag.RunRunning)
			r.Key, x.RunInserts[0].Key = "new", "new"
			x.RunInserts = append(x.RunInserts, r)
		})},
		{"attempt exists", refuse(func(_ *bed, w *world, x *store.Batch) {
			x.AttemptInserts = append(x.AttemptInserts, w.attempt)
		})},
		{"attempt exists with another handler", refuse(func(_ *bed, w *world, x *store.Batch) {
			a := w.attempt
			a.Handler++
			x.AttemptInserts = append(x.AttemptInserts, a)
		})},
		{"attempt twice in a batch", refuse(func(_ *bed, _ *world, x *store.Batch) {
			x.AttemptInserts = append(x.AttemptInserts, x.AttemptInserts[0])
		})},
		{"two event rows of one run", refuse(func(_ *bed, w *world, x *store.Batch) {
			x.Events = append(x.Events, event(w.run.ID, 7))
		})},
		{"workflow id exists", refuse(func(_ *bed, w *world, x *store.Batch) { x.WorkflowInserts[0].ID = w.flow.ID })},
		{"workflow name exists", refuse(func(_ *bed, w *world, x *store.Batch) { x.WorkflowInserts[0].Name = w.flow.Name })},
		{"workflow name twice in a batch", refuse(func(_ *bed, _ *world, x *store.Batch) {
			x.WorkflowInserts = append(x.WorkflowInserts, workflow(3, x.WorkflowInserts[0].Name))
		})},
		{"workflow in an unknown state", refuse(func(_ *bed, _ *world, x *store.Batch) { x.WorkflowInserts[0].State = "asleep" })},
		{"workflow into an unknown state", refuse(func(_ *bed, _ *world, x *store.Batch) { x.WorkflowUpdates[0].State = "" })},
		{"version exists", refuse(func(_ *bed, _ *world, x *store.Batch) { x.Versions[0].Version = 1 })},
		{"version twice in a batch", refuse(func(_ *bed, _ *world, x *store.Batch) {
			x.Versions = append(x.Versions, version(1, 2))
		})},
		{"file twice in a version", refuse(func(_ *bed, _ *world, x *store.Batch) {
			x.Versions[0].Files = append(x.Versions[0].Files, x.Versions[0].Files[0])
		})},
		{"request exists", refuse(func(_ *bed, _ *world, x *store.Batch) {
			r := request(0)
			r.Hash = []byte{2}
			x.Requests = append(x.Requests, r)
		})},
		{"request twice in a batch", refuse(func(_ *bed, _ *world, x *store.Batch) {
			x.Requests = append(x.Requests, request(1))
		})},
		{"blob of more than 64 MiB", refuse(func(_ *bed, _ *world, x *store.Batch) {
			x.AttemptUpdates[0].Outputs = make([]byte, 64<<20+1)
		})},
		{"text of more than 64 MiB", refuse(func(_ *bed, _ *world, x *store.Batch) {
			x.RunUpdates[0].Message = strings.Repeat("x", 64<<20+1)
		})},
		{"file of more than 64 MiB", refuse(func(_ *bed, _ *world, x *store.Batch) {
			x.Versions[0].Files[0].Data = make([]byte, 64<<20+1)
		})},
		{"guest's refused batch leaves nothing", guestRefused},
		{"the same refusal many times", refusedAgain},
		{"the innocent rows of a refused batch", innocent},
		{"halving finds the guilty row", halving},
	}
}

func guestRefused(b *bed) {
	w := b.world()
	x := &store.Batch{Requests: []store.Request{request(1)}, Messages: []store.Message{{Payload: []byte("x")}}}
	x.RunInserts = []dag.RunRow{b.run(dag.RunSubmitted), b.run(dag.RunSubmitted)}
	x.RunInserts[1].Key = w.run.Key
	b.fails(x, store.ErrRefused)
}

// refusedAgain checks that an engine that remembers rows does not take a refused row for a valid one.
func refusedAgain(b *bed) {
	w := b.world()
	for range 3 {
		x := b.full(&w)
		x.RunInserts[0].User = "a\x00b"
		b.fails(x, store.ErrRefused)
	}
	for range 3 {
		x := b.full(&w)
		x.RunInserts[0].ID = w.run.ID
		b.fails(x, store.ErrRefused)
	}
	b.ok(b.commit(b.full(&w)))
}

// innocent checks that an engine forgets what it knew about rows that were rolled back.
func innocent(b *bed) {
	w := b.world()
	x := b.full(&w)
	x.Requests = append(x.Requests, request(0))
	b.fails(x, store.ErrRefused)
	id := x.RunInserts[0].ID
	orphan := b.batch()
	orphan.RunUpdates = []dag.RunUpdate{{RunRow: x.RunInserts[0], Was: dag.RunRunning}}
	b.fails(orphan, store.ErrFenced)
	between := b.run(dag.RunRunning)
	b.add(between)
	x.Requests = x.Requests[:1]
	x.Fences = slices.Clone(b.fences)
	b.ok(b.commit(x))
	b.same(b.record(id).Run, x.RunInserts[0], "the run")
	b.same(len(b.record(between.ID).Attempts), 0, "attempts of another run")
	b.same(b.record(id).Attempts, x.AttemptInserts[:1], "its attempts")
	b.same(len(b.loadIDs(10)), 3, "unfinished runs")
}

// halving reacts to a refused batch like a writer: it halves the batch until the refused item is alone.
func halving(b *bed) {
	var rows []dag.RunRow
	for range 32 {
		rows = append(rows, b.run(dag.RunRunning))
	}
	guilty := rows[21].ID
	rows[21].Message = "bad \x00 text"
	commits := 0
	var rejected []dag.RunID
	var halve func(part []dag.RunRow)
	halve = func(part []dag.RunRow) {
		x := b.batch()
		x.RunInserts = part
		for i := range part {
			x.Events = append(x.Events, event(part[i].ID, 1))
		}
		commits++
		err := b.commit(x)
		switch {
		case err == nil:
		case !errors.Is(err, store.ErrRefused):
			b.Fatal(err)
		case len(part) == 1:
			rejected = append(rejected, part[0].ID)
		default:
			halve(part[:len(part)/2])
			halve(part[len(part)/2:])
		}
	}
	halve(rows)
	b.same(rejected, []dag.RunID{guilty}, "rejected")
	b.same(commits, 11, "commits")
	b.same(len(b.contents().Runs), 31, "runs")
	_, err := b.s.Run(b.ctx, guilty)
	b.is(err, store.ErrNotFound)
}

// texts puts invalid text into every text column.
func texts() []check {
	columns := []struct {
		name string
		put  func(x *store.Batch, text string)
	}{
		{"run user", func(x *store.Batch, s string) { x.RunInserts[0].User = s }},
		{"run origin", func(x *store.Batch, s string) { x.RunInserts[0].Origin = dag.Origin(s) }},
		{"run key", func(x *store.Batch, s string) { x.RunInserts[0].Key = s }},
		{"run cause", func(x *store.Batch, s string) { x.RunInserts[0].Cause = dag.Cause(s) }},
		{"run message", func(x *store.Batch, s string) { x.RunInserts[0].Message = s }},
		{"updated run's cause", func(x *store.Batch, s string) { x.RunUpdates[0].Cause = dag.Cause(s) }},
		{"updated run's message", func(x *store.Batch, s string) { x.RunUpdates[0].Message = s }},
		{"attempt cause", func(x *store.Batch, s string) { x.AttemptInserts[0].Cause = dag.Cause(s) }},
		{"attempt message", func(x *store.Batch, s string) { x.AttemptInserts[0].Message = s }},
		{"attempt signal", func(x *store.Batch, s string) { x.AttemptInserts[0].Signal = s }},
		{"updated attempt's cause", func(x *store.Batch, s string) { x.AttemptUpdates[0].Cause = dag.Cause(s) }},
		{"updated attempt's message", func(x *store.Batch, s string) { x.AttemptUpdates[0].Message = s }},
		{"updated attempt's signal", func(x *store.Batch, s string) { x.AttemptUpdates[0].Signal = s }},
		{"workflow namespace", func(x *store.Batch, s string) { x.WorkflowInserts[0].Namespace = s }},
		{"workflow name", func(x *store.Batch, s string) { x.WorkflowInserts[0].Name = s }},
		{"version user", func(x *store.Batch, s string) { x.Versions[0].User = s }},
		{"file name", func(x *store.Batch, s string) { x.Versions[0].Files[0].Name = s }},
		{"request scope", func(x *store.Batch, s string) { x.Requests[0].Scope = s }},
		{"request key", func(x *store.Batch, s string) { x.Requests[0].Key = s }},
		{"trigger name", func(x *store.Batch, s string) { x.TriggerInserts[0].Name = s }},
		{"trigger kind", func(x *store.Batch, s string) { x.TriggerInserts[0].Kind = s }},
		{"trigger actor", func(x *store.Batch, s string) { x.TriggerInserts[0].Actor = s }},
		{"trigger reason", func(x *store.Batch, s string) { x.TriggerInserts[0].Reason = s }},
		{"what a trigger hears of", func(x *store.Batch, s string) { x.TriggerInserts[0].On = []string{"default/first", s} }},
		{"updated trigger's kind", func(x *store.Batch, s string) { x.TriggerUpdates[0].Kind = s }},
		{"updated trigger's actor", func(x *store.Batch, s string) { x.TriggerUpdates[0].Actor = s }},
		{"updated trigger's reason", func(x *store.Batch, s string) { x.TriggerUpdates[0].Reason = s }},
		{"what an updated trigger hears of", func(x *store.Batch, s string) { x.TriggerUpdates[0].On = []string{s} }},
		{"fire's trigger", func(x *store.Batch, s string) { x.Fires[0].Trigger = s }},
		{"fire's key", func(x *store.Batch, s string) { x.Fires[0].Key = s }},
		{"fire's reason", func(x *store.Batch, s string) { x.Fires[0].Reason = store.Reason(s) }},
		{"updated fire's reason", func(x *store.Batch, s string) { x.FireUpdates[0].Reason = store.Reason(s) }},
		{"backfill's trigger", func(x *store.Batch, s string) { x.BackfillInserts[0].Trigger = s }},
		{"backfill's user", func(x *store.Batch, s string) { x.BackfillInserts[0].User = s }},
	}
	var all []check
	for _, c := range columns {
		all = append(all, check{c.name, func(b *bed) {
			w := b.world()
			for _, bad := range []string{"\x00", "a\x00", "\xff", "caf\xe9", "\xed\xa0\x80", string(bytes.Repeat([]byte{0}, 9))} {
				x := b.full(&w)
				c.put(x, bad)
				b.fails(x, store.ErrRefused)
			}
			x := b.full(&w)
			c.put(x, "é e\u0301 😀 \t\n\u202e \ufffd '\"%_;--")
			b.ok(b.commit(x))
		}})
	}
	return all
}
