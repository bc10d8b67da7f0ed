package storetest

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// linesAtRandom makes runs join and leave queues in transactions of all sizes, many of them at one instant.
// Some runs join again. For some, the owner begins or ceases to keep them in memory. A list in the test holds
// the expected content.
func linesAtRandom(b *bed) {
	rnd := rand.New(rand.NewPCG(9, 9))
	var all []dag.RunRow
	claim := func(asked dag.Micros) *dag.Claim {
		return &dag.Claim{Queue: "q", Key: []string{"", "k"}[rnd.IntN(8)/7], Level: dag.Priority(rnd.IntN(2)), Asked: asked, Kept: rnd.IntN(9) == 0}
	}
	for turn := range dag.Micros(12) {
		b.put(func(x *store.Batch) {
			for i := range all {
				r := &all[i]
				u := dag.RunUpdate{Was: r.State, Claimed: r.Claim}
				is := *r.Claim
				switch what := rnd.IntN(20); {
				case what < 6 && is.InLine(), turn == 11:
					is.Stage, is.Granted = dag.ClaimGranted, 500
				case what == 6 && is.InLine():
					is.Kept = !is.Kept
				case what == 7:
					is = *claim(100 + turn)
				default:
					continue
				}
				r.Claim, u.RunRow = &is, *r
				u.Claim = &is
				x.RunUpdates = append(x.RunUpdates, u)
			}
			for range []int{1300, 3, 0, 40}[turn%4] {
				r := b.claiming(dag.ClaimAsked, "q", "", dag.Highest, 0)
				r.Claim = claim(100 + turn/2)
				all, x.RunInserts = append(all, r), append(x.RunInserts, r)
			}
			rnd.Shuffle(len(x.RunUpdates), func(i, j int) { x.RunUpdates[i], x.RunUpdates[j] = x.RunUpdates[j], x.RunUpdates[i] })
		})
		lineIs(b, all)
	}
}

// lineIs compares the queues with the runs that should be in them.
func lineIs(b *bed, all []dag.RunRow) {
	b.Helper()
	var lines []store.Line
	for _, line := range []string{"q/", "q/k"} {
		for level := range dag.Priority(2) {
			var want []*dag.RunRow
			for i := range all {
				if r := &all[i]; r.Claim.InLine() && r.Claim.Line() == line && r.Claim.Level == level {
					want = append(want, r)
				}
			}
			if len(want) == 0 {
				continue
			}
			lines = append(lines, store.Line{Name: line, Level: level, Runs: int64(len(want))})
			slices.SortStableFunc(want, func(a, b *dag.RunRow) int { return cmp.Compare(a.Claim.Asked, b.Claim.Asked) })
			from := want[len(want)/2].Claim.Asked
			b.same(len(b.line(line, level, from, 7)), min(7, len(slices.DeleteFunc(slices.Clone(want), func(r *dag.RunRow) bool { return r.Claim.Asked < from }))), "a page")
			got, err := b.s.InLine(b.ctx, line, level, 0, len(all))
			b.ok(err)
			b.same(len(got), len(want), "how many stand in line")
			here := map[dag.RunID]*dag.RunRow{}
			for _, r := range want {
				here[r.ID] = r
			}
			seats := make([]store.Seat, len(got))
			for i := range got {
				r := here[got[i].Run]
				if delete(here, got[i].Run); r == nil || r.Claim.Asked != want[i].Claim.Asked || got[i].Claim.Kept != r.Claim.Kept {
					b.Fatalf("place %d of line %s, level %d: %+v, it is of %+v", i+1, line, level, got[i], want[i])
				}
				seats[i] = seatOf(r)
			}
			if level > 0 {
				continue // other runs are before it
			}
			some := []store.Seat{seats[0], seats[len(seats)/2], seats[len(seats)-1]}
			places, err := b.s.Places(b.ctx, &store.SeatQuery{Seats: some, Most: 10_000})
			b.ok(err)
			for i, want := range []int{1, len(seats)/2 + 1, len(seats)} {
				b.same(places[i].Number, want, "the place of one in the list")
			}
		}
	}
	got, err := b.s.Lines(b.ctx)
	b.ok(err)
	b.same(got, lines, "lines")
	moving, err := b.s.Load(b.ctx, store.LoadQuery{Limit: 10_000, Moving: true})
	b.ok(err)
	aside := 0
	for i := range all {
		if all[i].Claim.Aside() {
			aside++
		}
	}
	b.same(len(moving), len(all)-aside, "who need be in memory")
}
