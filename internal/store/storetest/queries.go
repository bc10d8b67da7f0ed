package storetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// queries covers the reads that people make.
func queries() []check {
	return []check{
		{"newest first", func(b *bed) { b.wantRuns(b.mixed(), store.RunQuery{}, all) }},
		{"of a workflow", func(b *bed) {
			b.wantRuns(b.mixed(), store.RunQuery{Workflow: 2}, func(r *dag.RunRow) bool { return r.Workflow == 2 })
		}},
		{"of other workflows", func(b *bed) {
			rows := b.mixed()
			for _, q := range []store.RunQuery{{Not: 2}, {Not: 2, States: []string{"active"}}, {Not: 2, States: []string{"failed"}},
				{Not: 1, States: []string{"succeeded"}}, {Not: 2, User: "bob"}, {Not: 99}} {
				others := func(r *dag.RunRow) bool {
					return r.Workflow != q.Not && (q.User == "" || r.User == q.User) && (len(q.States) == 0 || slices.Contains(q.Expanded(), r.State.String()))
				}
				b.wantRuns(rows, q, others)
				n := int64(0)
				for i := range rows {
					if others(&rows[i]) {
						n++
					}
				}
				counted := q
				counted.Count, counted.Limit = true, 2
				page, err := b.s.Runs(b.ctx, counted)
				b.ok(err)
				b.same(page.Total, store.Total{N: n, Exact: true}, "the number of runs of other workflows")
			}
		}},
		{"of a user", func(b *bed) {
			b.wantRuns(b.mixed(), store.RunQuery{User: "bob"}, func(r *dag.RunRow) bool { return r.User == "bob" })
		}},
		{"active", func(b *bed) {
			b.wantRuns(b.mixed(), store.RunQuery{States: []string{"active"}}, func(r *dag.RunRow) bool { return !r.State.Terminal() })
		}},
		{"in each state", func(b *bed) {
			rows := b.mixed()
			for s := dag.RunSubmitted; s <= dag.RunSkipped; s++ {
				b.wantRuns(rows, store.RunQuery{States: []string{s.String()}}, func(r *dag.RunRow) bool { return r.State == s })
			}
		}},
		{"in a state that does not exist", func(b *bed) {
			b.wantRuns(b.mixed(), store.RunQuery{States: []string{"asleep"}}, func(*dag.RunRow) bool { return false })
		}},
		{"since", func(b *bed) {
			rows := b.mixed()
			since := rows[13].Created
			b.wantRuns(rows, store.RunQuery{Since: since}, func(r *dag.RunRow) bool { return r.Created >= since })
			b.wantRuns(rows, store.RunQuery{Since: since + 1}, func(r *dag.RunRow) bool { return r.Created > since })
		}},
		{"before", func(b *bed) {
			rows := b.mixed()
			b.wantRuns(rows[:13], store.RunQuery{Before: rows[13].ID}, all)
			b.wantRuns(rows, store.RunQuery{Before: runID(9999)}, all)
			b.wantRuns(nil, store.RunQuery{Before: rows[0].ID}, all)
		}},
		{"everything at once", func(b *bed) {
			rows := b.mixed()
			since := rows[9].Created
			for _, q := range []store.RunQuery{
				{Workflow: 2, User: "bob", Since: since},
				{Workflow: 1, User: "ada", States: []string{"active"}},
				{Workflow: 1, States: []string{"failed"}, Since: since},
				{User: "bob", States: []string{"active"}, Since: since},
				{Workflow: 2, User: "bob", States: []string{"succeeded"}, Since: since, Before: rows[40].ID},
			} {
				in := rows
				if !q.Before.IsZero() {
					in = rows[:40]
				}
				b.wantRuns(in, q, func(r *dag.RunRow) bool {
					return (q.Workflow == 0 || r.Workflow == q.Workflow) && (q.User == "" || r.User == q.User) && r.Created >= q.Since &&
						(len(q.States) == 0 || slices.Contains(q.Expanded(), r.State.String()))
				})
			}
		}},
		{"nothing there", func(b *bed) {
			for _, q := range []store.RunQuery{{}, {Workflow: 1}, {User: "ada"}, {States: []string{"active"}}, {States: []string{"failed"}}, {Limit: 5}} {
				b.wantRuns(nil, q, all)
			}
		}},
		{"with tags", runTags},
		{"limits", runLimits},
		{"while runs are inserted", pagesWhileInserting},
		{"while runs are inserted by others", pagesBesideInserting},
		{"an ended run changes its state", runsFollowUpdates},
		{"a needle among 12,000", needle},
		{"in several states", runsInStates},
		{"the state of a run that begins again", runsChangeLists},
		{"what a run has, and what it does not", runsThatFit},
		{"between two instants", runsBetween},
		{"parameters, as far as a page has room", runParams},
		{"how many there are", runTotals},
	}
}

func runsInStates(b *bed) {
	rows := b.mixed()
	for _, states := range [][]string{{"failed", "stopped"}, {"failed", "stopped", "skipped"}, {"failed", "active"}, {"succeeded", "failed"},
		{"running", "waiting"}, {"succeeded"}, {"succeeded", "active"}, {"active", "running"}, {"failed", "failed"}, {"failed", "asleep"}} {
		for _, q := range []store.RunQuery{{States: states}, {States: states, Workflow: 2}, {States: states, Workflow: 1, User: "bob"}, {States: states, User: "ada"}} {
			b.wantRuns(rows, q, func(r *dag.RunRow) bool {
				return (q.Workflow == 0 || r.Workflow == q.Workflow) && (q.User == "" || r.User == q.User) && slices.Contains(q.Expanded(), r.State.String())
			})
		}
	}
}

// runsChangeLists checks that a run leaves the list of its former state.
func runsChangeLists(b *bed) {
	r := b.run(dag.RunRunning)
	b.add(r)
	for _, to := range []dag.RunState{dag.RunFailed, dag.RunRunning, dag.RunStopped, dag.RunRunning, dag.RunSucceeded, dag.RunRunning, dag.RunFailed} {
		u := dag.RunUpdate{RunRow: r, Was: r.State}
		if u.State, u.FinishedAt = to, 0; to.Terminal() {
			u.FinishedAt = 77
		} else {
			u.Generation++
		}
		b.put(func(x *store.Batch) { x.RunUpdates = []dag.RunUpdate{u} })
		r = u.RunRow
		for s := dag.RunSubmitted; s <= dag.RunSkipped; s++ {
			b.wantRuns([]dag.RunRow{r}, store.RunQuery{States: []string{s.String()}}, func(r *dag.RunRow) bool { return r.State == s })
			b.wantRuns([]dag.RunRow{r}, store.RunQuery{States: []string{s.String()}, Workflow: 1}, func(r *dag.RunRow) bool { return r.State == s })
		}
	}
	b.sound()
}

// sound makes the engine compare the data that it stores twice.
func (b *bed) sound() {
	b.Helper()
	if c, ok := b.s.(interface {
		Check(ctx context.Context) ([]string, error)
	}); ok {
		bad, err := c.Check(b.ctx)
		b.ok(err)
		b.same(bad, []string(nil), "what is kept twice")
	}
}

// runsThatFit checks each condition of a query.
func runsThatFit(b *bed) {
	b.put(func(x *store.Batch) {
		one, two := workflow(1, "alpha"), workflow(2, "beta")
		two.Namespace = "shop"
		x.WorkflowInserts = []store.Workflow{one, two}
	})
	parent := b.run(dag.RunRunning)
	other, err := b.s.Register(b.ctx, "0190a7a8-0000-7000-8000-00000000beef", "n2")
	b.ok(err)
	var rows []dag.RunRow
	for i, change := range []func(*dag.RunRow){
		func(*dag.RunRow) {},
		func(r *dag.RunRow) { r.Workflow = 2 },
		func(r *dag.RunRow) { r.Origin, r.Fire = dag.OriginSchedule, &dag.Fire{Trigger: "nightly", Instant: 5} },
		func(r *dag.RunRow) {
			r.Origin, r.Fire = dag.OriginBackfill, &dag.Fire{Trigger: "nightly", Instant: 6, Backfill: 9}
		},
		func(r *dag.RunRow) {
			r.Fire = &dag.Fire{Parent: &dag.Parent{Task: 1, Line: []dag.Ancestor{{Run: parent.ID, Workflow: 1}}}}
		},
		func(r *dag.RunRow) { r.Leader = other.ID },
		func(r *dag.RunRow) { r.State, r.Cause, r.Message = dag.RunFailed, dag.CauseLost, "Disk full at /srv" },
		func(r *dag.RunRow) { r.Key, r.KeyHash = "order-4711", []byte{1} },
	} {
		r := b.run(dag.RunSucceeded)
		r.FinishedAt = dag.Micros(900 + i)
		change(&r)
		rows = append(rows, r)
	}
	b.add(append(rows, parent)...)
	rows = append(rows, parent)
	for what, c := range map[string]struct {
		q    store.RunQuery
		want []int
	}{
		"namespace":          {store.RunQuery{Namespace: "shop"}, []int{1}},
		"trigger":            {store.RunQuery{Trigger: "nightly"}, []int{2, 3}},
		"trigger and origin": {store.RunQuery{Trigger: "nightly", Origin: dag.OriginSchedule}, []int{2}},
		"backfill":           {store.RunQuery{Backfill: 9}, []int{3}},
		"parent":             {store.RunQuery{Parent: parent.ID}, []int{4}},
		"node":               {store.RunQuery{Node: "n2"}, []int{5}},
		"cause":              {store.RunQuery{Cause: string(dag.CauseLost)}, []int{6}},
		"text of a message":  {store.RunQuery{Text: "disk FULL"}, []int{6}},
		"text of a key":      {store.RunQuery{Text: "4711"}, []int{7}},
		"text of a workflow": {store.RunQuery{Text: "shop/be"}, []int{1}},
		"text of an id":      {store.RunQuery{Text: rows[0].ID.String()}, []int{0}},
		"text and state":     {store.RunQuery{Text: "disk", States: []string{"failed"}, Workflow: 1}, []int{6}},
		"nothing":            {store.RunQuery{Namespace: "sho"}, nil},
		"no such parent":     {store.RunQuery{Parent: rows[0].ID}, nil},
	} {
		var want []dag.RunRow
		for _, i := range c.want {
			want = append(want, rows[i])
		}
		slices.Reverse(want)
		for _, limit := range []int{1, 100} {
			c.q.Limit = limit
			b.same(b.pages(c.q, nil), want, what)
		}
	}
}

// runsBetween checks that bounds in time are exact even if the clock went back a little.
func runsBetween(b *bed) {
	const hour = dag.Micros(3600 * 1e6)
	at := dag.Micro(time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC))
	var rows []dag.RunRow
	for i := range 200 {
		r := b.run(dag.RunSucceeded)
		if i%10 == 3 {
			r.State = dag.RunFailed
		}
		r.Created = at + dag.Micros(i)*hour/4
		if i%7 == 0 {
			r.Created -= hour / 2
		}
		r.ID = madeAt(at+dag.Micros(i)*hour/4, uint16(i))
		rows = append(rows, r)
	}
	b.add(rows...)
	for _, q := range []store.RunQuery{
		{Since: rows[150].Created}, {Until: rows[50].Created}, {Since: rows[20].Created, Until: rows[22].Created},
		{Since: rows[20].Created, Until: rows[120].Created, States: []string{"failed"}},
		{Since: rows[20].Created, Until: rows[120].Created, Workflow: 1}, {Since: rows[30].Created, Until: rows[30].Created},
		{Until: 1}, {Since: at + 1000*hour},
	} {
		b.wantRuns(rows, q, func(r *dag.RunRow) bool {
			return r.Created >= q.Since && (q.Until == 0 || r.Created < q.Until) && (len(q.States) == 0 || r.State == dag.RunFailed)
		})
	}
}

// madeAt returns a run id with the given time.
func madeAt(at dag.Micros, n uint16) (id dag.RunID) {
	binary.BigEndian.PutUint64(id[:8], uint64(at/1000)<<16|7<<12)
	id[8] = 0x80
	binary.BigEndian.PutUint16(id[14:], n)
	return id
}

func runParams(b *bed) {
	var rows []dag.RunRow
	for range 10 {
		r := b.run(dag.RunSucceeded)
		r.Params = bytes.Repeat([]byte("x"), 1000)
		rows = append(rows, r)
	}
	b.add(rows...)
	page, err := b.s.Runs(b.ctx, store.RunQuery{Limit: 100})
	b.ok(err)
	b.same(len(page.Runs), 10, "runs without parameters")
	b.same(page.Runs[0].Params, []byte(nil), "parameters that nobody asked for")
	for bytes, want := range map[int]int{1: 1, 999: 1, 1000: 1, 2999: 2, 3000: 3, 10_000: 10, 0: 10} {
		q := store.RunQuery{Limit: 100, Params: true, Bytes: bytes}
		page, err := b.s.Runs(b.ctx, q)
		b.ok(err)
		b.same(len(page.Runs), want, fmt.Sprintf("runs of a page of %d bytes", bytes))
		b.same(page.Next.IsZero(), want == 10, "no more")
		b.same(len(b.pages(q, nil)), 10, "runs of all pages")
	}
}

func runTotals(b *bed) {
	rows := b.mixed()
	for _, q := range []store.RunQuery{{}, {Workflow: 1}, {User: "bob"}, {States: []string{"active"}}, {States: []string{"failed"}},
		{States: []string{"failed", "skipped"}, Workflow: 2}, {States: []string{"succeeded"}, Workflow: 1}, {States: []string{"running"}},
		{States: []string{"failed"}, Workflow: 1, User: "ada"}, {Text: "bob"}, {Since: rows[10].Created}, {States: []string{"asleep"}}} {
		want := int64(len(b.pages(q, nil)))
		for _, limit := range []int{1, 3, 100} {
			q.Limit, q.Count = limit, true
			page, err := b.s.Runs(b.ctx, q)
			b.ok(err)
			b.same(page.Total, store.Total{N: want, Exact: true}, fmt.Sprintf("total of %+v", q))
		}
	}
}

func runsByKeys(b *bed) {
	var want []dag.RunRow
	var asked []store.RunKey
	for i := range 50 {
		r := b.run(dag.RunRunning)
		if r.Key = key(i); i%3 == 0 {
			r.Workflow = 2
		}
		want = append(want, r)
		asked = append(asked, store.RunKey{Workflow: r.Workflow, Key: r.Key}, store.RunKey{Workflow: 3 - r.Workflow, Key: r.Key})
	}
	b.add(want...)
	b.add(b.run(dag.RunRunning)) // an empty key means that there is no key
	got, err := b.s.RunsByKeys(b.ctx, append(asked, store.RunKey{Workflow: 1}, store.RunKey{Workflow: 1, Key: "other"}))
	b.ok(err)
	byID := func(x, y dag.RunRow) int { return bytes.Compare(x.ID[:], y.ID[:]) }
	slices.SortFunc(got, byID)
	slices.SortFunc(want, byID)
	b.same(got, want, "the runs")
	got, err = b.s.RunsByKeys(b.ctx, nil)
	b.ok(err)
	b.same(len(got), 0, "runs of no keys")
}

func all(*dag.RunRow) bool { return true }

// mixed adds runs of all states, of two workflows and of two users. It returns them oldest first.
func (b *bed) mixed() []dag.RunRow {
	b.Helper()
	var rows []dag.RunRow
	for n := range 50 {
		r := b.run(dag.RunState(n*7) % (dag.RunSkipped + 1))
		if n%3 == 0 {
			r.Workflow = 2
		}
		if n%4 < 2 {
			r.User = "bob"
		}
		rows = append(rows, r)
	}
	b.add(rows...)
	return rows
}

// wantRuns reads all pages of a query, with several sizes of pages, and compares them with the rows that
// match.
func (b *bed) wantRuns(rows []dag.RunRow, q store.RunQuery, match func(*dag.RunRow) bool) {
	b.Helper()
	var want []dag.RunRow
	for i := range rows {
		if match(&rows[i]) {
			want = append(want, rows[i])
		}
	}
	slices.Reverse(want)
	for _, limit := range []int{0, 1, 3, max(len(want), 1), len(want) + 1, 1000, 5000} {
		q.Limit = limit
		b.same(b.pages(q, nil), want, "runs")
	}
}

// pages reads all pages of a query. It calls the function between after each page.
func (b *bed) pages(q store.RunQuery, between func()) []dag.RunRow {
	b.Helper()
	var got []dag.RunRow
	q.Params = true
	for {
		page, err := b.s.Runs(b.ctx, q)
		b.ok(err)
		if q.Limit > 0 && len(page.Runs) > q.Limit {
			b.Fatalf("a page of %d runs, limit %d", len(page.Runs), q.Limit)
		}
		got = append(got, page.Runs...)
		if page.Next.IsZero() {
			return got
		}
		if page.Next == q.Before {
			b.Fatalf("a cursor that does not move: %s", page.Next)
		}
		q.Before = page.Next
		if between != nil {
			between()
		}
	}
}

func runLimits(b *bed) {
	var rows []dag.RunRow
	for range 1003 {
		rows = append(rows, b.run(dag.RunSucceeded))
	}
	b.add(rows...)
	for limit, want := range map[int]int{1: 1, 999: 999, 1000: 1000, 1001: 1000, 1 << 30: 1000, 0: 1000, -1: 1000} {
		page, err := b.s.Runs(b.ctx, store.RunQuery{Limit: limit})
		b.ok(err)
		if len(page.Runs) != want || page.Next.IsZero() {
			b.Errorf("limit %d gave %d of 1,003 runs (next %s), want %d", limit, len(page.Runs), page.Next, want)
		}
	}
	exact, err := b.s.Runs(b.ctx, store.RunQuery{Limit: 3, Before: rows[3].ID})
	b.ok(err)
	b.same(len(exact.Runs), 3, "the last page")
	if !exact.Next.IsZero() {
		b.Error("the last page says that there is another")
	}
}

func pagesWhileInserting(b *bed) {
	rows := b.mixed()
	slices.Reverse(rows)
	got := b.pages(store.RunQuery{Limit: 7}, func() { b.add(b.run(dag.RunRunning), b.run(dag.RunSubmitted)) })
	b.same(got, rows, "runs")
}

func pagesBesideInserting(b *bed) {
	rows := b.mixed()
	slices.Reverse(rows)
	var wg sync.WaitGroup
	from := b.count
	wg.Go(func() {
		for n := range uint32(60) {
			x := &store.Batch{}
			x.RunInserts = []dag.RunRow{{Header: dag.Header{ID: runID(from + n + 1), Workflow: 1, Created: 5}}}
			if _, err := b.s.Commit(b.ctx, x); err != nil {
				b.Errorf("insert: %v", err)
			}
		}
	})
	for range 10 {
		got := b.pages(store.RunQuery{Limit: 9}, nil)
		b.same(got[len(got)-len(rows):], rows, "the runs that were there before")
	}
	wg.Wait()
	b.same(len(b.pages(store.RunQuery{}, nil)), len(rows)+60, "runs at the end")
}

func runsFollowUpdates(b *bed) {
	r := b.run(dag.RunRunning)
	b.add(r)
	u := dag.RunUpdate{RunRow: r, Was: r.State}
	u.State, u.FinishedAt = dag.RunStopped, 77
	b.put(func(x *store.Batch) { x.RunUpdates = []dag.RunUpdate{u} })
	none := func(*dag.RunRow) bool { return false }
	b.wantRuns([]dag.RunRow{u.RunRow}, store.RunQuery{States: []string{"active"}}, none)
	b.wantRuns([]dag.RunRow{u.RunRow}, store.RunQuery{States: []string{"running"}}, none)
	b.wantRuns([]dag.RunRow{u.RunRow}, store.RunQuery{States: []string{"stopped"}}, all)
	b.wantRuns([]dag.RunRow{u.RunRow}, store.RunQuery{Workflow: 1}, all)
}

// keys covers idempotency keys of runs.
func keys() []check {
	return []check{
		{"found by workflow and key", func(b *bed) {
			one, two := b.run(dag.RunRunning), b.run(dag.RunRunning)
			one.Key, two.Key, two.Workflow = "k", "k", 2 // the same key in two workflows
			b.add(one, two)
			for _, r := range []dag.RunRow{one, two} {
				got, err := store.RunByKey(b.ctx, b.s, r.Workflow, "k")
				b.ok(err)
				b.same(got, r, "the run")
			}
		}},
		{"found by many keys", runsByKeys},
		{"not found", func(b *bed) {
			b.world()
			for _, miss := range []struct {
				w   dag.WorkflowID
				key string
			}{{1, "other"}, {2, "taken"}, {1, "Taken"}, {1, "taken "}, {1, ""}} {
				_, err := store.RunByKey(b.ctx, b.s, miss.w, miss.key)
				b.is(err, store.ErrNotFound)
			}
		}},
		{"no key is no key", func(b *bed) {
			b.add(b.run(dag.RunRunning), b.run(dag.RunRunning))
			b.add(b.run(dag.RunRunning))
		}},
		{"stays taken when the run has ended", func(b *bed) {
			r := b.run(dag.RunSucceeded)
			r.Key = "k"
			b.add(r)
			again := b.run(dag.RunSubmitted)
			again.Key = "k"
			x := &store.Batch{}
			x.RunInserts = []dag.RunRow{again}
			b.fails(x, store.ErrRefused)
		}},
		{"free after a refused batch", func(b *bed) {
			r := b.run(dag.RunRunning)
			r.Key = "k"
			x := b.batch()
			x.RunInserts = []dag.RunRow{r, r}
			b.fails(x, store.ErrRefused)
			b.add(r)
		}},
		{"compare by bytes", func(b *bed) {
			for _, k := range []string{"é", "e\u0301", "É", "k", "K", "k ", " k", "k%", "k_", "'", "0", "00"} {
				r := b.run(dag.RunRunning)
				r.Key = k
				b.add(r)
				got, err := store.RunByKey(b.ctx, b.s, 1, k)
				b.ok(err)
				b.same(got.ID, r.ID, "the run with key "+k)
			}
		}},
		{"one of many concurrent guests wins", oneGuestWins},
		{"owner and guest meet by id and key", ownerMeetsGuest},
	}
}

func oneGuestWins(b *bed) {
	for round := range 4 {
		rows := make([]dag.RunRow, 6)
		for i := range rows {
			rows[i] = b.run(dag.RunSubmitted)
			rows[i].Key = key(round)
		}
		won := make([]bool, len(rows))
		var wg sync.WaitGroup
		for i := range rows {
			wg.Go(func() {
				x := &store.Batch{}
				x.RunInserts = rows[i : i+1]
				_, err := b.s.Commit(b.ctx, x)
				if won[i] = err == nil; err != nil && !isKind(err, store.ErrRefused) {
					b.Errorf("a guest that lost: %v", err)
				}
			})
		}
		wg.Wait()
		winner, err := store.RunByKey(b.ctx, b.s, 1, key(round))
		b.ok(err)
		for i := range rows {
			if won[i] != (rows[i].ID == winner.ID) {
				b.Errorf("guest %d won: %v; the row is %s", i, won[i], winner.ID)
			}
		}
	}
	b.same(len(b.contents().Runs), 4, "runs")
}

func ownerMeetsGuest(b *bed) {
	guest := b.run(dag.RunSubmitted)
	guest.Key = "k"
	x := &store.Batch{}
	x.RunInserts = []dag.RunRow{guest}
	b.ok(b.commit(x))
	sameID, sameKey := guest, b.run(dag.RunRunning)
	sameID.State, sameKey.Key = dag.RunRunning, "k"
	for _, r := range []dag.RunRow{sameID, sameKey} {
		x := b.batch()
		x.RunInserts = []dag.RunRow{b.run(dag.RunRunning), r}
		b.fails(x, store.ErrRefused)
	}
}

// needle searches a rare run. Each page reads a bounded number of rows, and all pages together read every
// row.
func needle(b *bed) {
	found := b.run(dag.RunFailed)
	b.add(found)
	for range 6 {
		var rows []dag.RunRow
		for range 2000 {
			rows = append(rows, b.run(dag.RunSucceeded))
		}
		b.add(rows...)
	}
	for _, q := range []store.RunQuery{{States: []string{"failed"}, Limit: 2}, {States: []string{"failed"}, Workflow: 1, User: "ada"}, {User: "ada", States: []string{"failed"}}} {
		b.same(b.pages(q, nil), []dag.RunRow{found}, "runs")
		page, err := b.s.Runs(b.ctx, q)
		b.ok(err)
		b.same(len(page.Runs), 1, "runs of the first page")
	}
	b.same(b.pages(store.RunQuery{States: []string{"active"}}, nil), []dag.RunRow(nil), "active runs")
}
