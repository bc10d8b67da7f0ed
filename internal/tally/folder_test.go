package tally_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
	"skein.dev/skein/internal/store/sqlite"
	"skein.dev/skein/internal/tally"
)

const day = dag.Micros(24 * 3600 * 1e6)

// d returns the beginning of a day. Day 10 is tomorrow, because the folder skips runs that ended long before
// a mark.
func d(n int32) dag.Micros { return (dag.Micro(time.Now())/day + dag.Micros(n) - 9) * day }

// at returns the number of a day since 1970.
func at(n int32) int32 { return store.DayOf(d(n)) }

// bench is a store with one workflow of two tasks, its owner and its folder.
type bench struct {
	*testing.T
	st     store.Store
	fence  store.Fence
	owner  dag.HandlerID
	folder *tally.Folder
	graph  *dag.Graph
	graphs map[dag.RunID]*dag.Graph // the graphs of runs with a graph of their own
	ids    byte
	heard  bool // the folder is notified of ends
	// broken is the error that Get returns for the graph of every version. grown is the error for the own
	// graph of a run.
	broken, grown error
}

// Get returns the graph of the workflow.
func (b *bench) Get(dag.WorkflowID, int32) (*dag.Graph, error) {
	if b.broken != nil {
		return nil, b.broken
	}
	return b.graph, nil
}

// Of returns the graph of a run.
func (b *bench) Of(r *dag.RunRow) (*dag.Graph, error) {
	if b.broken != nil || b.grown != nil {
		return nil, errors.Join(b.broken, b.grown)
	}
	return b.graphOf(r.ID), nil
}

func (b *bench) graphOf(id dag.RunID) *dag.Graph {
	if g := b.graphs[id]; g != nil {
		return g
	}
	return b.graph
}

// onStores runs a test on the stores that need no server. The conformance suite checks that PostgreSQL
// behaves in the same way.
func onStores(t *testing.T, f func(b *bench)) {
	t.Run("memory", func(t *testing.T) { f(newBench(t, memory.New(memory.Options{}))) })
	t.Run("sqlite", func(t *testing.T) {
		db, err := sqlite.Open(filepath.Join(t.TempDir(), "skein.db"))
		if err != nil {
			t.Fatal(err)
		}
		f(newBench(t, db))
	})
}

func newBench(t *testing.T, st store.Store) *bench {
	t.Cleanup(func() { st.Close() })
	b := &bench{T: t, st: st, heard: true}
	var err error
	b.graph, err = dag.NewGraph(dag.GraphSpec{Tasks: []dag.TaskSpec{{Name: "load"}, {Name: "check", Needs: []string{"load"}}}})
	b.ok(err)
	b.take()
	b.commit(&store.Batch{WorkflowInserts: []store.Workflow{{ID: 1, Namespace: "default", Name: "w", State: store.WorkflowActive, Version: 1, Latest: 1,
		Revision: 1, Created: 1, Modified: 1}}})
	b.fresh()
	return b
}

func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// take makes a new owner take the shard.
func (b *bench) take() {
	b.Helper()
	h, err := b.st.Register(b.Context(), uuid.NewString(), "node")
	b.ok(err)
	got, err := b.st.Acquire(b.Context(), h.ID, []dag.ShardID{0})
	b.ok(err)
	b.owner, b.fence = h.ID, got[0].Fence
}

// fresh makes a new folder of the owner.
func (b *bench) fresh() {
	owner := b.owner
	b.folder = tally.NewFolder(tally.Config{Store: b.st, Graphs: b, Log: slog.New(slog.DiscardHandler), Owner: func() dag.HandlerID { return owner },
		Owns: func(dag.ShardID) bool { return true }})
}

func (b *bench) commit(x *store.Batch) {
	b.Helper()
	x.Fences = []store.Fence{b.fence}
	_, err := b.st.Commit(b.Context(), x)
	b.ok(err)
	b.fence.Seq++
	for i := range x.RunUpdates {
		if r := &x.RunUpdates[i].RunRow; b.heard && r.State.Terminal() {
			b.folder.Ended([]store.Ended{{Fence: b.fence, ID: r.ID, Workflow: r.Workflow, Version: r.Version, Generation: r.Generation, State: r.State,
				Created: r.Created, Split: r.SplitAt, Finished: r.FinishedAt}})
		}
	}
}

func records(run dag.RunID, at dag.Micros, recs ...dag.Record) dag.EventRow {
	for i := range recs {
		recs[i].Task = dag.LeaderTask
	}
	return dag.EventRow{Run: run, At: at, Records: dag.PackRecords(recs)}
}

// run makes a run that begins one second after its creation and has not ended.
func (b *bench) run(created dag.Micros) dag.RunRow {
	b.Helper()
	b.ids++
	r := dag.RunRow{Header: dag.Header{ID: dag.RunID{1, b.ids, 6: 0x70, 8: 0x80}, Workflow: 1, Version: 1, Priority: dag.Medium, Origin: dag.OriginAPI, Created: created},
		State: dag.RunRunning, Generation: 1, SplitAt: created + 1e6, StartedAt: created + 1e6}
	b.commit(&store.Batch{Changes: dag.Changes{RunInserts: []dag.RunRow{r}, Events: []dag.EventRow{records(r.ID, r.SplitAt, dag.Record{Kind: dag.RecSplit, Count: 2})}}})
	return r
}

// end ends a run with one attempt of task 0 that takes the given time.
func (b *bench) end(r *dag.RunRow, state dag.RunState, at, took dag.Micros) {
	b.Helper()
	was := r.State
	r.State, r.FinishedAt = state, at
	attempt := dag.AttemptRow{Run: r.ID, Task: 0, Token: dag.Token(r.Generation), Generation: r.Generation, Handler: b.owner, State: dag.AttemptFailed,
		Assigned: at - took - 1000, Started: at - took, Finished: at}
	b.commit(&store.Batch{Changes: dag.Changes{RunUpdates: []dag.RunUpdate{{RunRow: *r, Was: was}}, AttemptInserts: []dag.AttemptRow{attempt},
		Events: []dag.EventRow{records(r.ID, at, dag.Record{Kind: dag.RecState, Text: state.String()})}}})
}

// again lets an ended run begin again.
func (b *bench) again(r *dag.RunRow, at dag.Micros) {
	b.Helper()
	was := r.State
	r.State, r.FinishedAt, r.StartedAt, r.Generation = dag.RunRunning, 0, at, r.Generation+1
	b.commit(&store.Batch{Changes: dag.Changes{RunUpdates: []dag.RunUpdate{{RunRow: *r, Was: was}},
		Events: []dag.EventRow{records(r.ID, at, dag.Record{Kind: dag.RecRecovered})}}})
}

func (b *bench) step() {
	b.Helper()
	b.ok(b.folder.Step(b.Context()))
}

// cell reads the counts of a day.
func (b *bench) cell(of int32, task string) (c tally.Cell) {
	b.Helper()
	rows, err := b.st.Tally(b.Context(), store.TallyQuery{Workflow: 1, Span: store.TallyDay, From: at(of), To: at(of), Task: task})
	b.ok(err)
	for i := range rows {
		c, err = tally.Unpack(&rows[i])
		b.ok(err)
	}
	return c
}

func (b *bench) ends(of int32, task string, want ...int64) {
	b.Helper()
	if is := b.cell(of, task).Ends; is != [4]int64(append(want, make([]int64, 4-len(want))...)) {
		b.Fatalf("day %d, task %q: %v, want %v", of, task, is, want)
	}
}

// differences recounts the tally, as skein verify does.
func (b *bench) differences() []string {
	b.Helper()
	c, err := tally.NewCheck(b.Context(), b.st)
	b.ok(err)
	b.ok(b.st.Scan(b.Context(), func(rec store.RunRecord, events []dag.EventRow) error {
		c.Run(&rec, events, b.graphOf(rec.Run.ID))
		return nil
	}))
	found, err := c.Differences(b.Context())
	b.ok(err)
	return found
}

func (b *bench) verified() {
	b.Helper()
	if found := b.differences(); len(found) > 0 {
		b.Fatalf("the tally differs: %q", found)
	}
}

func TestCounts(t *testing.T) {
	onStores(t, func(b *bench) {
		one, two, three := b.run(d(10)), b.run(d(10)), b.run(d(10))
		b.end(&one, dag.RunSucceeded, d(10)+3e6, 500_000)
		b.step()
		b.end(&two, dag.RunFailed, d(10)+5e6, 1_500_000)
		b.end(&three, dag.RunStopped, d(11), 100)
		b.step()
		b.step()
		b.ends(10, "", 1, 1)
		b.ends(11, "", 0, 0, 1)
		b.ends(10, "load", 0, 2)
		c := b.cell(10, "")
		if c.Took[tally.Succeeded].Max != 2e6 || c.Took[tally.Failed].Max != 4e6 || c.Wait.N != 2 || c.Wait.Max != 1e6 || c.Last != d(10)+5e6 {
			b.Errorf("%+v", c)
		}
		if took := b.cell(10, "load").Took[tally.Failed]; took.N != 2 || took.Max != 1_500_000 {
			b.Errorf("the task took %+v", took)
		}
		b.verified()
	})
}

// TestFirstEndIsCountedEarly: at the first end of a shard without a progress, a folder makes a step at
// once. Otherwise it would have to read many ends from the rows.
func TestFirstEndIsCountedEarly(t *testing.T) {
	onStores(t, func(b *bench) {
		one, two := b.run(d(10)), b.run(d(10))
		b.end(&one, dag.RunSucceeded, d(10)+3e6, 500_000)
		if !b.folder.Woken() {
			b.Error("the first end of a shard brings no step")
		}
		b.step()
		b.end(&two, dag.RunSucceeded, d(10)+4e6, 500_000)
		if b.folder.Woken() {
			b.Error("an end of a known shard brings a step")
		}
		b.step()
		b.ends(10, "", 2)
		b.verified()
	})
}

// TestEndsAgain: a recovered run is counted at each of its ends, however the folder learns of them.
func TestEndsAgain(t *testing.T) {
	onStores(t, func(b *bench) {
		r := b.run(d(10))
		b.end(&r, dag.RunFailed, d(10)+3e6, 100)
		b.step()
		b.again(&r, d(12))
		b.end(&r, dag.RunSucceeded, d(12)+4e6, 100)
		b.again(&r, d(13))
		b.end(&r, dag.RunFailed, d(13)+1e6, 100)
		b.step()
		want := func() {
			b.Helper()
			b.ends(10, "", 0, 1)
			b.ends(12, "", 1)
			b.ends(13, "", 0, 1)
			b.ends(12, "load", 0, 1)
			if took := b.cell(12, "").Took[tally.Succeeded]; took.Max != 4e6 {
				b.Errorf("the second life took %d", took.Max)
			}
			b.verified()
		}
		want()
		// If the tally of a database is lost, it is made again completely.
		marks, err := b.st.TallyMarks(b.Context(), 0)
		b.ok(err)
		b.ok(b.st.PutTally(b.Context(), b.owner, store.TallyStep{Epoch: b.fence.Epoch, Rev: marks[0].Rev, Seq: 0, Drop: []dag.WorkflowID{1}}))
		b.ends(12, "")
		b.fresh()
		b.step()
		want()
	})
}

// TestTakeover: if the folder was not notified of ends, it finds them in the rows, and counts them once.
func TestTakeover(t *testing.T) {
	onStores(t, func(b *bench) {
		one, two, three, four := b.run(d(10)), b.run(d(10)), b.run(d(10)), b.run(d(10))
		b.end(&one, dag.RunSucceeded, d(10)+3e6, 100)
		b.step()
		b.heard = false
		b.end(&two, dag.RunSucceeded, d(10)+3e6, 100) // the process dies before the folder is notified
		former := b.folder
		b.take()
		b.fresh()
		b.heard = true
		b.end(&three, dag.RunSucceeded, d(10)+3e6, 100)
		b.step()
		b.ends(10, "", 3)
		// The former owner is still alive, but the counts that it writes are fenced.
		former.Ended([]store.Ended{{Fence: store.Fence{Epoch: b.fence.Epoch - 1, Seq: b.fence.Seq}, ID: three.ID, Workflow: 1, Version: 1, Generation: 1, State: dag.RunSucceeded, Finished: d(10)}})
		b.ok(former.Step(b.Context()))
		b.ends(10, "", 3)
		// The shard is taken again while the folder continues.
		b.heard = false
		b.end(&four, dag.RunSucceeded, d(10)+3e6, 100)
		b.take()
		b.fresh()
		b.heard = true
		b.step()
		b.ends(10, "", 4)
		b.verified()
	})
}

// TestUnknownStep: a step whose outcome is unknown is counted once, whether or not it was written.
func TestUnknownStep(t *testing.T) {
	for _, outcome := range []memory.Outcome{memory.FailBefore, memory.UnknownWritten, memory.UnknownLost} {
		fail := false
		st := memory.New(memory.Options{Fault: func(op memory.Op) memory.Outcome {
			if fail && op.Kind == memory.LogsBefore {
				return outcome
			}
			return memory.OK
		}})
		b := newBench(t, st)
		b.step()
		r := b.run(d(10))
		b.end(&r, dag.RunSucceeded, d(10)+3e6, 100)
		fail = true
		if err := b.folder.Step(context.Background()); err == nil {
			t.Fatal("no error")
		}
		fail = false
		b.step()
		b.ends(10, "", 1)
		b.verified()
	}
}

// TestDamagedRow: a row that cannot be read is made again from the runs that are kept.
func TestDamagedRow(t *testing.T) {
	onStores(t, func(b *bench) {
		one, two := b.run(d(10)), b.run(d(10))
		b.end(&one, dag.RunSucceeded, d(10)+3e6, 100)
		b.step()
		rows, err := b.st.Tally(b.Context(), store.TallyQuery{Workflow: 1, From: at(10), To: at(10)})
		b.ok(err)
		marks, err := b.st.TallyMarks(b.Context(), 0)
		b.ok(err)
		rows[0].Data[3] ^= 1
		b.ok(b.st.PutTally(b.Context(), b.owner, store.TallyStep{Epoch: b.fence.Epoch, Rev: marks[0].Rev, Seq: -1, Rows: rows}))
		if len(b.differences()) == 0 {
			b.Error("verify finds no damage")
		}
		b.end(&two, dag.RunSucceeded, d(10)+3e6, 100)
		_ = b.folder.Step(b.Context()) // another step came between
		b.step()
		b.ends(10, "", 2)
		b.verified()
	})
}

// TestVerifyFinds: the check finds a wrong count, also if retention has deleted runs.
func TestVerifyFinds(t *testing.T) {
	onStores(t, func(b *bench) {
		one, two := b.run(d(10)), b.run(d(10))
		b.end(&one, dag.RunSucceeded, d(10)+3e6, 100)
		b.end(&two, dag.RunFailed, d(10)+4e6, 100)
		x := store.Expiry{Workflow: 1, Before: d(100), Limit: 1}
		expire := func() int {
			marks, err := b.st.TallyMarks(b.Context(), 0)
			b.ok(err)
			m, ok := store.Counted(marks, 1)
			x.Tallied, x.Counted = ok, m.Seq
			did, err := store.Can(b.st).Retention.Expire(b.Context(), b.owner, x)
			b.ok(err)
			return len(did.Runs)
		}
		b.step()
		if n := expire(); n != 1 {
			b.Fatalf("%d runs are gone", n)
		}
		b.verified()
		three := b.run(d(10))
		b.end(&three, dag.RunFailed, d(10)+4e6, 100)
		for expire() > 0 { // the third run is not counted yet
		}
		b.step()
		b.ends(10, "", 1, 2)
		b.verified()
		c := b.cell(10, "")
		c.Ends[tally.Failed]++
		marks, err := b.st.TallyMarks(b.Context(), 0)
		b.ok(err)
		row := store.TallyRow{TallyKey: store.TallyKey{Workflow: 1, At: at(10)}, N: c.N(), Data: c.Pack()}
		b.ok(b.st.PutTally(b.Context(), b.owner, store.TallyStep{Epoch: b.fence.Epoch, Rev: marks[0].Rev, Seq: -1, Rows: []store.TallyRow{row}}))
		if len(b.differences()) == 0 {
			b.Error("verify does not find a run too many")
		}
		err = b.st.PutTally(b.Context(), b.owner, store.TallyStep{Epoch: b.fence.Epoch, Rev: marks[0].Rev, Seq: -1})
		if !errors.Is(err, store.ErrFenced) {
			b.Errorf("a second step from one revision: %v", err)
		}
	})
}

// unread is a store that reads no run.
type unread struct{ store.Store }

func (unread) Load(context.Context, store.LoadQuery) ([]store.RunRecord, error) {
	return nil, errors.New("a run was read")
}

// TestFreshRunsAreNotRead: a run that was inserted and ended by one transaction has no attempts to count, so
// the folder reads nothing.
func TestFreshRunsAreNotRead(t *testing.T) {
	onStores(t, func(b *bench) {
		b.st = unread{b.st}
		b.fresh()
		b.step()
		r := dag.RunRow{Header: dag.Header{ID: dag.RunID{2, 6: 0x70, 8: 0x80}, Workflow: 1, Version: 1, Priority: dag.Medium, Origin: dag.OriginAPI, Created: d(10)},
			State: dag.RunSkipped, Generation: 1, SplitAt: d(10), StartedAt: d(10), FinishedAt: d(10) + 1}
		b.commit(&store.Batch{Changes: dag.Changes{RunInserts: []dag.RunRow{r}, Events: []dag.EventRow{records(r.ID, d(10), dag.Record{Kind: dag.RecState, Text: r.State.String()})}}})
		end := store.Ended{Fence: b.fence, ID: r.ID, Workflow: 1, Version: 1, Generation: 1, State: r.State, Created: r.Created, Split: r.SplitAt, Finished: r.FinishedAt, Fresh: true}
		b.folder.Ended([]store.Ended{end})
		b.step()
		b.ends(10, "", 0, 0, 0, 1)
		b.verified()
	})
}
