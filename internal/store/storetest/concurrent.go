package storetest

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

func concurrent() []check {
	return []check{
		{"only the newest owner commits, seq counts every commit", contention},
		{"guests beside the owner", guestsBesideOwner},
		{"scan sees one snapshot", scanSnapshot},
		{"scan does not see what is committed meanwhile", scanWhileCommitting},
		{"scan ends with the callback's error", scanError},
		{"readers beside a writer", readers},
	}
}

// committed is a successful commit.
type committed struct {
	epoch, seq int64 // seq as it was after the commit
	run        dag.RunID
}

// contention lets owners take the shard from each other while they commit. The commits must form one sequence
// in which epochs never fall and no seq is missing. Each commit must be by the owner of that time.
func contention(b *bed) {
	const owners, terms, termCommits = 4, 5, 6
	base := b.take()[0].Fence
	results := make([][]committed, owners)
	var wg sync.WaitGroup
	for o := range owners {
		wg.Go(func() {
			for term := range terms {
				got, err := b.s.Acquire(b.ctx, b.owner, []dag.ShardID{0})
				if err != nil {
					b.Errorf("acquire: %v", err)
					return
				}
				f := got[0].Fence
				for n := range termCommits {
					r := dag.RunRow{Header: dag.Header{ID: runID(uint32(1000 + (o*terms+term)*termCommits + n)), Workflow: 1}, Generation: 1}
					x := &store.Batch{Fences: []store.Fence{f}}
					x.RunInserts = []dag.RunRow{r}
					x.Events = []dag.EventRow{event(r.ID, 1)}
					_, err := b.s.Commit(b.ctx, x)
					if errors.Is(err, store.ErrFenced) {
						break
					}
					if err != nil {
						b.Errorf("commit: %v", err)
						return
					}
					f.Seq++
					results[o] = append(results[o], committed{f.Epoch, f.Seq, r.ID})
				}
			}
		})
	}
	wg.Wait()
	b.oneSequence(base, slices.Concat(results...))
}

func (b *bed) oneSequence(base store.Fence, all []committed) {
	b.Helper()
	slices.SortFunc(all, func(x, y committed) int { return int(x.seq - y.seq) })
	last := base
	for _, c := range all {
		if c.seq != last.Seq+1 || c.epoch < last.Epoch {
			b.Fatalf("commit %+v follows epoch %d seq %d", c, last.Epoch, last.Seq)
		}
		last.Seq, last.Epoch = c.seq, c.epoch
		events, err := b.s.Events(b.ctx, c.run, 0, 10)
		b.ok(err)
		if len(events) != 1 || events[0].Seq != c.seq {
			b.Fatalf("commit %+v left the events %+v", c, events)
		}
	}
	b.same(b.take()[0].Seq, last.Seq, "the seq at the end")
	b.same(len(b.contents().Runs), len(all), "runs")
}

func guestsBesideOwner(b *bed) {
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			for n := range 15 {
				x := &store.Batch{Requests: []store.Request{{Scope: key(g), Key: key(n), Created: 1}}, Messages: []store.Message{{Created: 1}}}
				x.RunInserts = []dag.RunRow{{Header: dag.Header{ID: runID(uint32(1000 + g*100 + n)), Workflow: 1}}}
				if _, err := b.s.Commit(b.ctx, x); err != nil {
					b.Errorf("guest: %v", err)
				}
			}
		})
	}
	for range 15 {
		b.add(b.run(dag.RunRunning)) // the commit of a guest never fences the owner
	}
	wg.Wait()
	c := b.contents()
	b.same(len(c.Runs), 60, "runs")
	b.same(len(c.Messages), 45, "messages")
}

// scanSnapshot changes two runs together in every transaction. Every scan must show both in the same state.
func scanSnapshot(b *bed) {
	one, two := b.run(dag.RunRunning), b.run(dag.RunRunning)
	b.add(one, two)
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		defer done.Store(true)
		for n := range 40 {
			x := b.batch()
			for _, r := range []dag.RunRow{one, two} {
				r.Message = key(n)
				x.RunUpdates = append(x.RunUpdates, dag.RunUpdate{RunRow: r, Was: r.State})
				x.AttemptInserts = append(x.AttemptInserts, b.attempt(r.ID, dag.TaskID(n), 1))
				x.Events = append(x.Events, event(r.ID, dag.Micros(n)))
			}
			if err := b.commit(x); err != nil {
				b.Errorf("commit: %v", err)
				return
			}
		}
	})
	for last := false; !last; {
		last = done.Load()
		var seen []history
		b.ok(b.s.Scan(b.ctx, func(r store.RunRecord, events []dag.EventRow) error {
			seen = append(seen, history{r, events})
			return nil
		}))
		n := len(seen[0].Events)
		if len(seen) != 2 || seen[0].Run.Message != seen[1].Run.Message || len(seen[1].Events) != n ||
			len(seen[0].Attempts) != n || len(seen[1].Attempts) != n {
			b.Fatalf("a scan saw half a transaction: %.2000v", seen)
		}
	}
	wg.Wait()
}

func scanWhileCommitting(b *bed) {
	var want []history
	b.put(func(x *store.Batch) {
		for range 5 {
			r := b.run(dag.RunRunning)
			x.RunInserts = append(x.RunInserts, r)
			a := b.attempt(r.ID, 50, 1)
			x.AttemptInserts = append(x.AttemptInserts, a)
			want = append(want, history{RunRecord: store.RunRecord{Run: r, Attempts: []dag.AttemptRow{a}}})
		}
	})
	var seen []history
	b.ok(b.s.Scan(b.ctx, func(r store.RunRecord, events []dag.EventRow) error {
		seen = append(seen, history{r, events})
		next := b.run(dag.RunRunning)
		b.put(func(x *store.Batch) {
			// Change handlers that were already read, and handlers that are still to come.
			for _, h := range want {
				if len(seen) == 1 {
					x.AttemptUpdates = append(x.AttemptUpdates, ended(h.Attempts[0]))
				} else {
					x.AttemptInserts = append(x.AttemptInserts, b.attempt(h.Run.ID, dag.TaskID(len(seen)), 1))
				}
				x.Events = append(x.Events, event(h.Run.ID, 1))
			}
		})
		b.put(func(x *store.Batch) {
			x.RunInserts = []dag.RunRow{next}
			x.RunUpdates = []dag.RunUpdate{{RunRow: next, Was: dag.RunRunning}}
			x.Events = []dag.EventRow{event(next.ID, 1)}
		})
		_, err := b.s.Run(b.ctx, next.ID) // a single run can be read during the scan
		b.ok(err)
		return nil
	}))
	b.same(seen, want, "the scan")
	b.same(len(b.contents().Runs), 10, "runs after it")
}

func scanError(b *bed) {
	b.add(b.run(dag.RunRunning), b.run(dag.RunRunning))
	enough := errors.New("enough")
	seen := 0
	err := b.s.Scan(b.ctx, func(store.RunRecord, []dag.EventRow) error {
		seen++
		return enough
	})
	b.is(err, enough)
	b.same(seen, 1, "runs seen")
	b.add(b.run(dag.RunRunning))
}

func readers(b *bed) {
	w := b.world()
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for last := false; !last; {
				last = done.Load()
				if err := readAll(b, &w); err != nil {
					b.Errorf("read: %v", err)
					return
				}
			}
		})
	}
	for n := range 30 {
		b.put(func(x *store.Batch) {
			x.RunInserts = []dag.RunRow{b.run(dag.RunRunning)}
			x.AttemptInserts = []dag.AttemptRow{b.attempt(w.run.ID, dag.TaskID(n+2), 1)}
			x.Events = []dag.EventRow{event(w.run.ID, 1)}
		})
	}
	done.Store(true)
	wg.Wait()
}

// reads returns one call of each reading method, on the rows of a world.
func reads(b *bed, w *world) map[string]func() error {
	return map[string]func() error{
		"Load": func() error { _, err := b.s.Load(b.ctx, store.LoadQuery{Limit: 10}); return err },
		"Run":  func() error { _, err := b.s.Run(b.ctx, w.run.ID); return err },
		"RunsByKeys": func() error {
			_, err := b.s.RunsByKeys(b.ctx, []store.RunKey{{Workflow: 1, Key: w.run.Key}})
			return err
		},
		"Runs":         func() error { _, err := b.s.Runs(b.ctx, store.RunQuery{Limit: 10}); return err },
		"Attempts":     func() error { _, err := b.s.Attempts(b.ctx, store.AttemptQuery{Run: w.run.ID}); return err },
		"Events":       func() error { _, err := b.s.Events(b.ctx, w.run.ID, 0, 10); return err },
		"Handlers":     func() error { _, err := b.s.Handlers(b.ctx, []dag.HandlerID{b.owner}); return err },
		"Workflow":     func() error { _, err := b.s.Workflow(b.ctx, w.flow.Namespace, w.flow.Name); return err },
		"WorkflowByID": func() error { _, err := b.s.WorkflowByID(b.ctx, w.flow.ID); return err },
		"Workflows":    func() error { _, err := b.s.Workflows(b.ctx, store.WorkflowQuery{Limit: 10}); return err },
		"Version":      func() error { _, err := b.s.Version(b.ctx, 1, 1); return err },
		"Versions":     func() error { _, err := b.s.Versions(b.ctx, 1, 0, 10); return err },
		"Files":        func() error { _, err := b.s.Files(b.ctx, store.FileQuery{Workflow: 1, Version: 1}); return err },
		"Request":      func() error { _, err := b.s.Request(b.ctx, "scope", key(0)); return err },
		"Messages":     func() error { _, err := b.s.Messages(b.ctx, 0, 10); return err },
		"Scan": func() error {
			return b.s.Scan(b.ctx, func(store.RunRecord, []dag.EventRow) error { return nil })
		},
		"Info":       func() error { _, err := b.s.Info(b.ctx); return err },
		"Unfinished": func() error { _, err := b.s.Unfinished(b.ctx); return err },
		"Clock":      func() error { _, err := b.s.Clock(b.ctx); return err },
		"Trigger":    func() error { _, err := b.s.Trigger(b.ctx, 1, w.trigger.Name); return err },
		"Triggers":   func() error { _, err := b.s.Triggers(b.ctx, store.TriggerQuery{}); return err },
		"Due":        func() error { _, err := b.s.Due(b.ctx, []dag.ShardID{0}, 99, 10); return err },
		"NextDue":    func() error { _, err := b.s.NextDue(b.ctx, []dag.ShardID{0}); return err },
		"Listening":  func() error { _, err := b.s.Listening(b.ctx, "default/first", 10); return err },
		"Sensors": func() error {
			_, err := b.s.Sensors(b.ctx, []dag.ShardID{0}, []string{"run_of"}, store.TriggerKey{}, 10)
			return err
		},
		"LastFire": func() error { _, err := b.s.LastFire(b.ctx, 1, w.trigger.Name); return err },
		"FireByKey": func() error {
			_, err := b.s.FireByKey(b.ctx, store.TriggerKey{Workflow: 1, Name: w.trigger.Name}, w.line.At, "")
			return err
		},
		"Fires":        func() error { _, err := b.s.Fires(b.ctx, store.FireQuery{}); return err },
		"Backfill":     func() error { _, err := b.s.Backfill(b.ctx, w.backfill.ID); return err },
		"Backfills":    func() error { _, err := b.s.Backfills(b.ctx, 1, "", 0, 10); return err },
		"BackfillRuns": func() error { _, err := b.s.BackfillRuns(b.ctx, w.backfill.ID, 0, 10); return err },
		"RunsAt":       func() error { _, err := b.s.RunsAt(b.ctx, 1, 100); return err },
	}
}

func readAll(b *bed, w *world) error {
	for _, read := range reads(b, w) {
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}
