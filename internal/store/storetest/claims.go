package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// claims covers named queues, and the claims of runs on them.
func claims() []check {
	return []check{
		{"queue with every field", queueFields},
		{"queue at another revision", func(b *bed) {
			q := b.queue("a")
			for _, off := range []int64{0, 2} {
				next := q
				next.Revision += off
				x := b.batch()
				x.QueueUpdates = []store.Queue{next}
				b.fails(x, store.ErrFenced)
			}
			x := b.batch()
			q.Revision++
			x.QueueDeletes = []store.Queue{q}
			b.fails(x, store.ErrFenced)
		}},
		{"queue that exists", func(b *bed) {
			x := b.batch()
			x.QueueInserts = []store.Queue{b.queue("a")}
			b.fails(x, store.ErrRefused, store.ErrFenced)
		}},
		{"queue of an unknown state", func(b *bed) {
			x, q := b.batch(), queueOf("a")
			q.State = "odd"
			x.QueueInserts = []store.Queue{q}
			b.fails(x, store.ErrRefused)
		}},
		{"queue without the fence of its shard", func(b *bed) {
			x := b.batch()
			x.Fences = x.Fences[1:]
			x.QueueInserts = []store.Queue{queueOf("a")}
			before := b.contents()
			_, err := b.s.Commit(b.ctx, x)
			b.is(err, store.ErrFenced)
			b.same(b.contents(), before, "after a guest's change of a queue")
		}},
		{"queues by name", func(b *bed) {
			b.put(func(x *store.Batch) {
				x.QueueInserts = []store.Queue{queueOf("c"), queueOf("ä"), queueOf("a"), queueOf("B")}
			})
			all, err := b.s.Queues(b.ctx, "", 10)
			b.ok(err)
			b.same(namesOf(all), []string{"B", "a", "c", "ä"}, "queues")
			page, err := b.s.Queues(b.ctx, "a", 1)
			b.ok(err)
			b.same(namesOf(page), []string{"c"}, "a page of them")
			_, err = b.s.Queue(b.ctx, "none")
			b.is(err, store.ErrNotFound)
		}},
		{"claim with every field", claimFields},
		{"lines", lines},
		{"a line goes with its run", lineGoes},
		{"many come to a line at once", manyCome},
		{"many leave a line at once", manyLeave},
		{"lines at random", linesAtRandom},
		{"who is not in line cannot leave it", func(b *bed) {
			in, out := b.claiming(dag.ClaimAsked, "q", "", dag.Medium, 100), b.claiming(dag.ClaimGranted, "q", "", dag.Medium, 100)
			b.add(in, out)
			x, was := b.batch(), *out.Claim
			was.Stage = dag.ClaimAsked
			u := dag.RunUpdate{RunRow: out, Was: out.State, Claimed: &was}
			u.Message = "granted twice"
			x.RunUpdates = []dag.RunUpdate{u}
			if _, err := b.send(x); !errors.Is(err, store.ErrFenced) && !errors.Is(err, store.ErrRefused) {
				b.Errorf("it is %v", err)
			}
		}},
		{"the first who have a place or a lock, and how many", holders},
		{"places in a long line", longLine},
		{"places in a line that ages", agingLine},
		{"places in a line whose levels do not count", flatLine},
		{"what moves is loaded without those in line", moving},
	}
}

func queueOf(name string) store.Queue {
	return store.Queue{Name: name, Limit: 5, Order: store.QueueFIFO, Overflow: store.OverflowWait, State: store.QueueActive, Revision: 1}
}

// queue adds a queue with default settings.
func (b *bed) queue(name string) store.Queue {
	b.Helper()
	q := queueOf(name)
	b.put(func(x *store.Batch) { x.QueueInserts = []store.Queue{q} })
	return q
}

func namesOf(all []store.Queue) (names []string) {
	for i := range all {
		names = append(names, all[i].Name)
	}
	return names
}

func queueFields(b *bed) {
	q := store.Queue{Name: "płatności.eu", Limit: 7, PerKey: `params.kto == "é"`, Order: store.QueuePriority, Overflow: store.OverflowSkip,
		Rate: 3, Each: 60_000_000, State: store.QueuePaused, Actor: "ada", Reason: "naprawa 🌙", Until: 11, Paced: 12, Revision: 1,
		Created: 13, Modified: 14}
	check := func(want store.Queue) {
		b.Helper()
		got, err := b.s.Queue(b.ctx, q.Name)
		b.ok(err)
		b.same(got, want, "queue")
	}
	b.put(func(x *store.Batch) { x.QueueInserts = []store.Queue{q} })
	check(q)
	b.put(func(x *store.Batch) { x.QueuePaces = []store.QueuePace{{Name: q.Name, Paced: 99}} })
	q.Paced = 99
	check(q)
	next := q
	next.Limit, next.PerKey, next.Order, next.Overflow, next.Rate, next.Each = 0, "", store.QueueFIFO, store.OverflowFail, 0, 1_000_000
	next.State, next.Actor, next.Reason, next.Until, next.Revision, next.Modified = store.QueueDraining, "", "", 0, 2, 21
	changed := next
	changed.Paced, changed.Created = 1, 1 // an update must not change these columns
	b.put(func(x *store.Batch) { x.QueueUpdates = []store.Queue{changed} })
	check(next)
	b.put(func(x *store.Batch) { x.QueueDeletes = []store.Queue{next} })
	_, err := b.s.Queue(b.ctx, q.Name)
	b.is(err, store.ErrNotFound)
}

// claiming returns a new run with a claim.
func (b *bed) claiming(stage dag.ClaimStage, queue, key string, level dag.Priority, asked dag.Micros) dag.RunRow {
	state := dag.RunWaiting
	if stage != dag.ClaimAsked {
		state = dag.RunRunning
	}
	r := b.run(state)
	r.Claim = &dag.Claim{Queue: queue, Key: key, Stage: stage, Level: level, Asked: asked}
	if queue == "" {
		r.Claim.Locks = []string{"lock"}
	}
	return r
}

func claimFields(b *bed) {
	r := b.claiming(dag.ClaimAsked, "etl", "klient ä/1", dag.Low, 100)
	r.Claim.Locks, r.Claim.Fail, r.Claim.Kept, r.Claim.Family = []string{"a/1", "b"}, true, true, runID(77)
	b.add(r)
	got, err := b.s.Run(b.ctx, r.ID)
	b.ok(err)
	b.same(got, r, "run")
	u := dag.RunUpdate{RunRow: r, Was: r.State, Claimed: r.Claim}
	u.State, u.Claim = dag.RunRunning, &dag.Claim{Queue: "etl", Key: "klient ä/1", Locks: []string{"a/1", "b"}, Stage: dag.ClaimGranted,
		Asked: 100, Grant: 1 << 40, Granted: 200, Limit: 5}
	u.Shares = []dag.Share{{Queue: "api", Key: "ü/2", Life: 2, Rev: 9, Got: 7, Back: 3, Need: 1 << 33, Asked: 300, Limit: 4}, {Queue: "etl", Life: 1, Rev: 1, Need: 1}}
	b.put(func(x *store.Batch) { x.RunUpdates = []dag.RunUpdate{u} })
	if got, err = b.s.Run(b.ctx, r.ID); err != nil {
		b.Fatal(err)
	}
	b.same(got, u.RunRow, "run that was granted")
	holding, err := b.s.Holding(b.ctx, dag.RunID{}, 10)
	b.ok(err)
	b.same(holding, []store.Claimant{{Run: r.ID, Workflow: 1, Priority: r.Priority, Created: r.Created, Claim: *u.Claim, Shares: u.Shares}}, "holding")
	alone := b.run(dag.RunRunning)
	alone.Shares = u.Shares[1:]
	b.add(alone)
	if got, err = b.s.Run(b.ctx, alone.ID); err != nil {
		b.Fatal(err)
	}
	b.same(got, alone, "run of which only tasks claim something")
	page, err := b.s.Holding(b.ctx, r.ID, 10)
	b.ok(err)
	b.same(page, []store.Claimant{{Run: alone.ID, Workflow: 1, Priority: alone.Priority, Created: alone.Created, Shares: alone.Shares}}, "holding of tasks")
}

func (b *bed) line(name string, level dag.Priority, from dag.Micros, limit int) (ids []dag.RunID) {
	b.Helper()
	all, err := b.s.InLine(b.ctx, name, level, from, limit)
	b.ok(err)
	for i := range all {
		ids = append(ids, all[i].Run)
	}
	return ids
}

func lines(b *bed) {
	late, early := b.claiming(dag.ClaimAsked, "q", "", dag.Highest, 300), b.claiming(dag.ClaimAsked, "q", "", dag.Highest, 100)
	low := b.claiming(dag.ClaimAsked, "q", "", dag.Low, 50)
	other, lock := b.claiming(dag.ClaimAsked, "q", "k", dag.Highest, 100), b.claiming(dag.ClaimAsked, "", "", dag.Highest, 100)
	has, lent := b.claiming(dag.ClaimGranted, "q", "", dag.Highest, 10), b.claiming(dag.ClaimLent, "q", "", dag.Highest, 11)
	over := b.run(dag.RunSucceeded)
	over.Claim = &dag.Claim{Queue: "q", Stage: dag.ClaimOver}
	b.add(late, early, low, other, lock, has, lent, over)
	b.same(b.line("q/", dag.Highest, 0, 10), []dag.RunID{early.ID, late.ID}, "line")
	b.same(b.line("q/", dag.Highest, 0, 1), []dag.RunID{early.ID}, "the first of a line")
	b.same(b.line("q/", dag.Highest, 101, 1), []dag.RunID{late.ID}, "who asked later")
	b.same(b.line("q/", dag.Highest, 300, 10), []dag.RunID{late.ID}, "who asked at that instant or later")
	b.same(b.line("q/", dag.Low, 0, 10), []dag.RunID{low.ID}, "another level")
	b.same(b.line("q/k", dag.Highest, 0, 10), []dag.RunID{other.ID}, "another key")
	b.same(b.line("none/", dag.Highest, 0, 10), []dag.RunID(nil), "a line with nobody in it")
	places, err := b.s.Places(b.ctx, &store.SeatQuery{Seats: []store.Seat{seatOf(&low), seatOf(&other), seatOf(&late), seatOf(&early), seatOf(&lock)}, Most: 1000})
	b.ok(err)
	b.same(places, []store.Place{{Number: 3, Of: 3}, {Number: 1, Of: 1}, {Number: 2, Of: 3}, {Number: 1, Of: 3}, {Number: 1, Of: 1}}, "places")
	none, err := b.s.Places(b.ctx, &store.SeatQuery{Seats: nil, Most: 1000})
	b.ok(err)
	b.same(len(none), 0, "places of nobody")
	all, err := b.s.Lines(b.ctx)
	b.ok(err)
	b.same(all, []store.Line{{Name: "/lock", Runs: 1}, {Name: "q/", Runs: 2}, {Name: "q/", Level: dag.Low, Runs: 1}, {Name: "q/k", Runs: 1}}, "lines")
	var held []dag.RunID
	for after := (dag.RunID{}); ; {
		page, err := b.s.Holding(b.ctx, after, 1)
		b.ok(err)
		if len(page) == 0 {
			break
		}
		after = page[len(page)-1].Run
		held = append(held, after)
	}
	b.same(held, []dag.RunID{has.ID, lent.ID}, "holding, page by page")
}

func seatOf(r *dag.RunRow) store.Seat {
	return store.Seat{Run: r.ID, Line: r.Claim.Line(), Level: r.Claim.Level, Asked: r.Claim.Asked}
}

// longLine makes many runs ask for a queue at one instant. The store must report which runs are behind the
// counted positions.
func longLine(b *bed) {
	var rows []dag.RunRow
	for i := range 250 {
		rows = append(rows, b.claiming(dag.ClaimAsked, "q", "", dag.Medium, dag.Micros(100+i/200)))
	}
	b.add(rows...)
	seats := make([]store.Seat, len(rows))
	for i := range rows {
		seats[i] = seatOf(&rows[i])
	}
	places, err := b.s.Places(b.ctx, &store.SeatQuery{Seats: seats, Most: 1000})
	b.ok(err)
	seen := map[int]bool{}
	for i, p := range places {
		if seen[p.Number] || p.Of != 250 || p.More || (p.Number <= 200) != (i < 200) {
			b.Errorf("the place of the %dth is %+v", i, p)
		}
		seen[p.Number] = true
	}
	places, err = b.s.Places(b.ctx, &store.SeatQuery{Seats: []store.Seat{seats[0], seats[220]}, Most: 1})
	b.ok(err)
	if places[0].Number != 1 || places[1].Number != 0 || !places[1].More || places[1].Of < 100 || places[1].Of > 201 {
		b.Errorf("places of which few are counted: %+v", places)
	}
}

// agingLine checks that a waiting run rises one level with each ageing. Within a level, the run that asked
// first is first.
func agingLine(b *bed) {
	const now, ageing = 1000, 100
	var rows []dag.RunRow
	q := store.SeatQuery{Most: 10_000, Now: now, Ageing: ageing}
	for i := range 120 {
		level := dag.Priority(i * 7 % dag.Levels)
		r := b.claiming(dag.ClaimAsked, "q", "", level, dag.Micros(now-(i*37)%611))
		s := seatOf(&r)
		s.Ages = true
		rows, q.Seats = append(rows, r), append(q.Seats, s)
	}
	b.add(rows...)
	level := func(s *store.Seat) int { return max(int(s.Level)-int(now-s.Asked)/ageing, 0) }
	places, err := b.s.Places(b.ctx, &q)
	b.ok(err)
	some := store.SeatQuery{Seats: q.Seats[40:50:50], Most: 10_000, Now: now, Ageing: ageing}
	few, err := b.s.Places(b.ctx, &some)
	b.ok(err)
	for i := range q.Seats {
		number := 1
		for j := range q.Seats {
			if s, o := &q.Seats[i], &q.Seats[j]; cmp.Or(cmp.Compare(level(o), level(s)), cmp.Compare(o.Asked, s.Asked)) < 0 {
				number++
			}
		}
		want := store.Place{Number: number, Of: len(rows)}
		b.same(places[i], want, fmt.Sprintf("the place of the %dth", i))
		if i >= 40 && i < 50 {
			b.same(few[i-40], want, fmt.Sprintf("the place of the %dth among few", i))
		}
	}
}

// flatLine checks that without levels the run that asked first is first.
func flatLine(b *bed) {
	var rows []dag.RunRow
	q := store.SeatQuery{Most: 10_000, Now: 1000, Ageing: 100}
	for i := range 60 {
		r := b.claiming(dag.ClaimAsked, "q", "", dag.Priority(i*7%dag.Levels), dag.Micros(1000-(i*37)%611))
		s := seatOf(&r)
		s.Flat = true
		rows, q.Seats = append(rows, r), append(q.Seats, s)
	}
	b.add(rows...)
	some := store.SeatQuery{Seats: q.Seats[20:30:30], Most: 10_000}
	for _, x := range []struct {
		q     *store.SeatQuery
		first int
	}{{&q, 0}, {&some, 20}} {
		places, err := b.s.Places(b.ctx, x.q)
		b.ok(err)
		for i, p := range places {
			number := 1
			for j := range q.Seats {
				if q.Seats[j].Asked < x.q.Seats[i].Asked {
					number++
				}
			}
			b.same(p, store.Place{Number: number, Of: len(rows)}, fmt.Sprintf("the place of the %dth, counted with %d", x.first+i, len(places)))
		}
	}
}

func lineGoes(b *bed) {
	r := b.claiming(dag.ClaimAsked, "q", "", dag.Medium, 100)
	b.add(r)
	again := dag.RunUpdate{RunRow: r, Was: r.State, Claimed: r.Claim}
	claim := *r.Claim
	claim.Asked = 500
	again.Claim = &claim
	b.put(func(x *store.Batch) { x.RunUpdates = []dag.RunUpdate{again} })
	b.same(b.line("q/", dag.Medium, 0, 10), []dag.RunID{r.ID}, "asked anew")
	end := dag.RunUpdate{RunRow: again.RunRow, Was: r.State, Claimed: again.Claim}
	over := claim
	over.Stage = dag.ClaimOver
	end.State, end.FinishedAt, end.Claim = dag.RunStopped, 600, &over
	b.put(func(x *store.Batch) { x.RunUpdates = []dag.RunUpdate{end} })
	all, err := b.s.Lines(b.ctx)
	b.ok(err)
	b.same(all, []store.Line(nil), "lines after the end")
}

// holders checks that the holders of a queue slot, of a slot of one key, and of a lock are listed in the
// order of their grants.
func holders(b *bed) {
	granted := func(key string, grant int64, locks ...string) dag.RunRow {
		r := b.claiming(dag.ClaimGranted, "qü", key, dag.Medium, 10)
		r.Claim.Grant, r.Claim.Locks = grant, locks
		return r
	}
	late, early, mid := granted("", 300), granted("", 1<<40-1<<39, "a"), granted("", 1<<20, "a/b", "c")
	late.Claim.Grant = 1 << 45
	other := granted("k", 5)
	other.Shares = []dag.Share{{Queue: "qü", Life: 1, Rev: 1, Need: 1}}
	lent, asked, over := granted("", 7, "a"), b.claiming(dag.ClaimAsked, "qü", "", dag.Medium, 10), granted("", 8, "a")
	lent.Claim.Stage = dag.ClaimLent
	over.State, over.FinishedAt = dag.RunSucceeded, 20
	b.add(late, mid, early, other, lent, asked, over)
	of := func(q store.HolderQuery, count int, want ...dag.RunRow) {
		b.Helper()
		found, n, err := b.s.Holders(b.ctx, q)
		b.ok(err)
		var is, ids []dag.RunID
		for i := range found {
			is = append(is, found[i].Run)
		}
		for i := range want {
			ids = append(ids, want[i].ID)
		}
		b.same(is, ids, "the first of them")
		b.same(n, count, "how many they are")
	}
	of(store.HolderQuery{Queue: "qü", First: 2}, 3, mid, early)
	of(store.HolderQuery{Queue: "qü", First: 9}, 3, mid, early, late)
	of(store.HolderQuery{Queue: "qü", Key: "k", First: 2}, 1, other)
	of(store.HolderQuery{Queue: "q", First: 2}, 0)
	of(store.HolderQuery{Lock: "a", First: 2}, 2, lent, early)
	of(store.HolderQuery{Lock: "b", First: 2}, 0)
}

// manyCome makes many new and old runs join a queue in one transaction and at one instant. Runs between them
// are in other queues, or in none.
func manyCome(b *bed) {
	var old, rows []dag.RunRow
	for range 20 {
		old = append(old, b.run(dag.RunRunning))
	}
	b.add(old...)
	for i := range 60 {
		r := b.claiming(dag.ClaimAsked, "q", "", dag.Highest, 100)
		switch {
		case i == 17:
			r.Claim.Kept = true
		case i == 29:
			r.Claim.Key = "k"
		case i == 41:
			r.Claim.Asked = 101
		case i >= 50 && i < 53:
			r.Claim.Stage = dag.ClaimGranted
		case i >= 53:
			r.Claim.Level = dag.Priority(i % 2)
		}
		rows = append(rows, r)
	}
	b.put(func(x *store.Batch) {
		x.RunInserts = rows
		for i := range old {
			if i == 5 {
				continue
			}
			u := dag.RunUpdate{RunRow: old[i], Was: old[i].State}
			u.State, u.Claim = dag.RunWaiting, &dag.Claim{Queue: "q", Stage: dag.ClaimAsked, Asked: 100}
			x.RunUpdates = append(x.RunUpdates, u)
		}
	})
	stand := func(line string, level dag.Priority, from dag.Micros, want int) {
		b.Helper()
		got := b.line(line, level, from, 1000)
		slices.SortFunc(got, func(a, b dag.RunID) int { return slices.Compare(a[:], b[:]) })
		b.same(len(slices.Compact(got)), want, "runs in line "+line)
	}
	stand("q/", dag.Highest, 0, 71)
	stand("q/", dag.Highest, 101, 1)
	stand("q/", dag.Highest+1, 0, 4)
	stand("q/k", dag.Highest, 0, 1)
	got, err := b.s.Lines(b.ctx)
	b.ok(err)
	b.same(got, []store.Line{{Name: "q/", Runs: 71}, {Name: "q/", Level: dag.Highest + 1, Runs: 4}, {Name: "q/k", Runs: 1}}, "lines")
	b.same(slices.Contains(b.line("q/", dag.Highest, 0, 1000), old[5].ID), false, "who did not come is in line")
}

// manyLeave makes many runs leave a queue in one transaction while others join. Some of the leaving runs are
// neighbours, others are not.
func manyLeave(b *bed) {
	var rows []dag.RunRow
	stands := map[dag.RunID]bool{}
	come := func(n int) []dag.RunRow {
		from := len(rows)
		for range n {
			i := len(rows)
			// Some runs ask at the same instant.
			r := b.claiming(dag.ClaimAsked, "q", "", dag.Priority(i%5/3), dag.Micros(100+i/3))
			rows, stands[r.ID] = append(rows, r), true
		}
		return rows[from:]
	}
	b.add(come(60)...)
	for n, leaves := range []func(i int) bool{
		func(i int) bool { return i < 25 },            // the first ones
		func(i int) bool { return i < 40 && i != 30 }, // all but one of the first ones
		func(i int) bool { return i%2 == 0 },          // every second one
		func(i int) bool { return i > 45 },            // the last ones
		func(int) bool { return true },
	} {
		b.put(func(x *store.Batch) {
			for i := range rows {
				if r := rows[i]; stands[r.ID] && leaves(i) {
					u := dag.RunUpdate{RunRow: r, Was: r.State, Claimed: r.Claim}
					claim := *r.Claim
					claim.Stage, claim.Granted = dag.ClaimGranted, 500
					u.State, u.Claim = dag.RunRunning, &claim
					x.RunUpdates, stands[r.ID] = append(x.RunUpdates, u), false
				}
			}
			slices.Reverse(x.RunUpdates) // the order within a batch must not matter
			if n < 4 {
				x.RunInserts = slices.Clone(come(9))
			}
		})
		for level := range dag.Priority(2) {
			want, got := []dag.RunID(nil), b.line("q/", level, 0, 1000)
			for i := range rows {
				if r := &rows[i]; stands[r.ID] && r.Claim.Level == level {
					want = append(want, r.ID)
				}
			}
			byID := func(a, b dag.RunID) int { return slices.Compare(a[:], b[:]) }
			slices.SortFunc(want, byID)
			slices.SortFunc(got, byID)
			b.same(got, want, "who is left")
		}
	}
}

func moving(b *bed) {
	plain := b.run(dag.RunRunning)
	waits, has := b.claiming(dag.ClaimAsked, "q", "", dag.Medium, 1), b.claiming(dag.ClaimGranted, "q", "", dag.Medium, 1)
	kept := b.claiming(dag.ClaimAsked, "q", "", dag.Medium, 2)
	kept.Claim.Kept = true
	b.add(plain, waits, has, kept)
	var got []dag.RunID
	for after := (dag.RunID{}); ; {
		page, err := b.s.Load(b.ctx, store.LoadQuery{After: after, Limit: 1, Moving: true})
		b.ok(err)
		if len(page) == 0 {
			break
		}
		after = page[0].Run.ID
		got = append(got, after)
	}
	b.same(got, []dag.RunID{plain.ID, has.ID, kept.ID}, "what moves")
	all, err := b.s.Load(b.ctx, store.LoadQuery{Limit: 10})
	b.ok(err)
	if !slices.ContainsFunc(all, func(r store.RunRecord) bool { return r.Run.ID == waits.ID }) {
		b.Fatal("a run that waits is not loaded at all")
	}
}
