package tally_test

import (
	"fmt"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/tally"
)

// named ends a run of a version with its own names of tasks, from the number first on. Each has one attempt.
func (b *bench) named(first int, at dag.Micros) {
	b.Helper()
	spec := dag.GraphSpec{}
	for i := range tally.TasksMax {
		spec.Tasks = append(spec.Tasks, dag.TaskSpec{Name: fmt.Sprintf("t%05d", first+i)})
	}
	g, err := dag.NewGraph(spec)
	b.ok(err)
	r := b.run(at)
	b.graphs[r.ID] = g
	was := r.State
	r.State, r.FinishedAt = dag.RunSucceeded, at+3e6
	x := &store.Batch{Changes: dag.Changes{RunUpdates: []dag.RunUpdate{{RunRow: r, Was: was}},
		Events: []dag.EventRow{records(r.ID, at, dag.Record{Kind: dag.RecState, Text: r.State.String()})}}}
	for i := range tally.TasksMax {
		x.AttemptInserts = append(x.AttemptInserts, dag.AttemptRow{Run: r.ID, Task: dag.TaskID(i), Token: 1, Generation: 1, Handler: b.owner,
			State: dag.AttemptSucceeded, Assigned: at, Started: at + 1e6, Finished: at + 2e6})
	}
	b.commit(x)
}

// TestNamesAreBounded: the names of a workflow's tasks are bounded on each day, and the attempts of further
// names are summed. The check finds no difference, whatever the order in which the ends are counted.
func TestNamesAreBounded(t *testing.T) {
	onStores(t, func(b *bench) {
		b.graphs = map[dag.RunID]*dag.Graph{}
		b.step()
		for first := 0; first < tally.NamesMax+300; first += tally.TasksMax {
			b.named(first, d(10))
		}
		b.step()
		b.named(0, d(10)+10e6)              // names that have rows
		b.named(tally.NamesMax, d(10)+10e6) // names that have none
		b.named(9000, d(11))                // on another day
		b.step()
		b.take() // the next owner counts from the rows
		b.fresh()
		b.named(tally.NamesMax+100, d(10)+20e6)
		b.step()
		n := 0
		b.ok(tally.Rows(b.Context(), b.st, store.TallyQuery{Workflow: 1, Span: store.TallyDay, From: at(10), To: at(10), Tasks: true}, func(*store.TallyRow) error {
			n++
			return nil
		}))
		if want := tally.NamesMax + 2; n != want { // with the row of the runs, and with the row of the rest
			b.Errorf("%d rows of a day, want %d", n, want)
		}
		b.ends(10, "t00000", 2)
		b.ends(10, store.TallyRest, 4*tally.TasksMax)
		b.ends(11, "t09000", 1)
		b.verified()
	})
}
