package tally_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/tally"
)

// TestGraphsFail: attempts are counted later if a version cannot be read now, and never if no program can read
// it.
func TestGraphsFail(t *testing.T) {
	onStores(t, func(b *bench) {
		fails := func(err *error) {
			b.Helper()
			r := b.run(d(10))
			b.end(&r, dag.RunSucceeded, d(10)+3e6, 100)
			*err = errkind.FromStore("read a version", store.ErrUnavailable)
			if b.folder.Step(b.Context()) == nil {
				b.Fatal("a step that cannot read the version succeeds")
			}
			*err = nil
			b.step()
		}
		fails(&b.broken)
		b.ends(10, "", 1)
		b.ends(10, "load", 0, 1)
		fails(&b.grown)
		b.ends(10, "", 2)
		b.ends(10, "load", 0, 2)
		for _, forever := range []error{errkind.ErrDamaged, errkind.FromStore("read a version", store.ErrNotFound), errkind.ErrPanic} {
			r := b.run(d(11))
			b.end(&r, dag.RunSucceeded, d(11)+3e6, 100)
			b.broken = forever
			b.step()
			b.broken = nil
		}
		b.ends(11, "", 3)
		b.ends(11, "load")
	})
}

// TestClockWasAhead: ends are found in the rows also if the clock was ahead at the mark.
func TestClockWasAhead(t *testing.T) {
	onStores(t, func(b *bench) {
		one, two, three, four := b.run(d(9)), b.run(d(9)), b.run(d(9)), b.run(d(9))
		b.step() // afterwards the folder counts the ends of which it is notified
		b.end(&one, dag.RunSucceeded, d(30), 100)
		b.step()
		b.heard = false
		b.end(&two, dag.RunSucceeded, d(9)+3e6, 100)
		b.fresh()
		b.step()
		b.ends(9, "", 1)
		b.heard = true
		b.end(&three, dag.RunSucceeded, d(30), 100)
		b.step()
		b.end(&four, dag.RunSucceeded, d(9)+3e6, 100)
		b.step()
		marks, err := b.st.TallyMarks(b.Context(), 0)
		b.ok(err)
		if m, _ := store.Counted(marks, 1); m.At != d(9)+3e6 {
			b.Errorf("the mark is at %d, the last end at %d", m.At, d(9)+3e6)
		}
		b.ends(9, "", 2)
		b.ends(30, "", 2)
		b.verified()
	})
}

// scratched is a store where histories of runs cannot be read, or where something happens before the next
// step of the tally is written.
type scratched struct {
	store.Store
	events map[dag.RunID]error
	before func()

	loads    []int // the numbers of runs of the reads
	attempts int   // attempts of each run in addition to its own
	reads    []store.TallyQuery
}

func (s *scratched) Load(ctx context.Context, q store.LoadQuery) ([]store.RunRecord, error) {
	s.loads = append(s.loads, len(q.IDs))
	recs, err := s.Store.Load(ctx, q)
	for i := range recs {
		recs[i].Attempts = append(recs[i].Attempts, make([]dag.AttemptRow, s.attempts)...)
	}
	return recs, err
}

func (s *scratched) Tally(ctx context.Context, q store.TallyQuery) ([]store.TallyRow, error) {
	s.reads = append(s.reads, q)
	return s.Store.Tally(ctx, q)
}

func (s *scratched) Events(ctx context.Context, run dag.RunID, after int64, limit int) ([]dag.EventRow, error) {
	if err := s.events[run]; err != nil {
		return nil, err
	}
	return s.Store.Events(ctx, run, after, limit)
}

func (s *scratched) PutTally(ctx context.Context, owner dag.HandlerID, step store.TallyStep) error {
	if then := s.before; then != nil {
		s.before = nil
		then()
	}
	return s.Store.PutTally(ctx, owner, step)
}

// scratch puts a store that damages rows in front of the store of the bench.
func (b *bench) scratch() *scratched {
	s := &scratched{Store: b.st, events: map[dag.RunID]error{}}
	b.st = s
	b.fresh()
	return s
}

// TestManyAttempts: the fewer attempts the runs have, the more of them are loaded at once.
func TestManyAttempts(t *testing.T) {
	onStores(t, func(b *bench) {
		s := b.scratch()
		b.heard = false
		for range 40 {
			r := b.run(d(10))
			b.end(&r, dag.RunSucceeded, d(10)+3e6, 100)
		}
		b.fresh()
		s.loads = nil
		b.step()
		if !slices.Equal(s.loads, []int{1, 2, 4, 8, 16, 9}) {
			b.Errorf("runs of few attempts are loaded by %v", s.loads)
		}
		for range 40 {
			r := b.run(d(11))
			b.end(&r, dag.RunSucceeded, d(11)+3e6, 100)
		}
		b.fresh()
		s.loads, s.attempts = nil, 6000
		b.step()
		if most := slices.Max(s.loads); most > 2 {
			b.Errorf("runs of 6,000 attempts are loaded by %v", s.loads)
		}
		b.ends(10, "", 40)
		b.ends(11, "", 40)
	})
}

// TestReadsOnlyItsDays: a step reads the rows of the days that it counts, and not those of the days between.
func TestReadsOnlyItsDays(t *testing.T) {
	onStores(t, func(b *bench) {
		s := b.scratch()
		b.step()
		for _, day := range []int32{30, 10, 11} {
			r := b.run(d(day))
			b.end(&r, dag.RunSucceeded, d(day)+3e6, 100)
		}
		s.reads = nil
		b.step()
		var days [][2]int32
		for _, q := range s.reads {
			if q.Span == store.TallyDay {
				days = append(days, [2]int32{q.From, q.To})
			}
		}
		if !slices.Equal(days, [][2]int32{{at(10), at(11)}, {at(30), at(30)}}) {
			b.Errorf("it reads the days %v", days)
		}
		for _, day := range []int32{10, 11, 30} {
			b.ends(day, "", 1)
		}
	})
}

// TestDamagedHistory: although the history of one run is damaged, the other runs are counted. The first end
// of the damaged run is counted from its row.
func TestDamagedHistory(t *testing.T) {
	onStores(t, func(b *bench) {
		s := b.scratch()
		b.heard = false
		one, two, three := b.run(d(10)), b.run(d(10)), b.run(d(10))
		b.end(&one, dag.RunFailed, d(10)+3e6, 100)
		b.end(&two, dag.RunFailed, d(10)+4e6, 100)
		b.again(&two, d(11))
		b.end(&two, dag.RunFailed, d(11)+1e6, 100)
		b.end(&three, dag.RunSucceeded, d(10)+5e6, 100)
		for _, r := range []dag.RunRow{one, two} {
			s.events[r.ID] = store.ErrCorrupt
		}
		b.step()
		b.ends(10, "", 1, 1)
		b.ends(10, "load", 0, 2)
		b.ends(11, "")
		s.events[one.ID] = store.ErrUnavailable
		b.fresh()
		b.step() // nothing has ended since
		b.ends(10, "", 1, 1)
	})
}

// TestDeletedWhileMadeAgain: if a run is deleted while damaged counts are made again, the check reports no
// difference.
func TestDeletedWhileMadeAgain(t *testing.T) {
	onStores(t, func(b *bench) {
		inner := b.st
		one, two, three := b.run(d(10)), b.run(d(10)), b.run(d(10))
		b.end(&one, dag.RunSucceeded, d(10)+3e6, 100)
		b.end(&two, dag.RunSucceeded, d(10)+4e6, 100)
		b.step()
		rows, err := b.st.Tally(b.Context(), store.TallyQuery{Workflow: 1, From: at(10), To: at(10)})
		b.ok(err)
		marks, err := b.st.TallyMarks(b.Context(), 0)
		b.ok(err)
		rows[0].Data[3] ^= 1
		b.ok(b.st.PutTally(b.Context(), b.owner, store.TallyStep{Epoch: b.fence.Epoch, Rev: marks[0].Rev, Seq: -1, Rows: rows}))
		s := b.scratch()
		b.step()
		b.end(&three, dag.RunSucceeded, d(10)+5e6, 100)
		s.before = func() {
			did, err := store.Can(inner).Retention.Expire(b.Context(), b.owner, store.Expiry{Workflow: 1, Before: d(100), Limit: 1, Tallied: true, Counted: b.fence.Seq})
			if err != nil || len(did.Runs) != 1 {
				b.Fatal(did, err)
			}
		}
		b.step()
		b.verified()
	})
}

// TestVerifyWhileRunsGo: if a run is deleted during the scan, the check reports no difference. If a run
// cannot be read, the check skips only the workflow of that run, and says so.
func TestVerifyWhileRunsGo(t *testing.T) {
	onStores(t, func(b *bench) {
		one, two := b.run(d(10)), b.run(d(10))
		b.end(&one, dag.RunSucceeded, d(10)+3e6, 100)
		b.end(&two, dag.RunSucceeded, d(10)+4e6, 100)
		b.step()
		check := func(bad func(*store.RunRecord), then func()) []string {
			b.Helper()
			c, err := tally.NewCheck(b.Context(), b.st)
			b.ok(err)
			b.ok(b.st.Scan(b.Context(), func(rec store.RunRecord, events []dag.EventRow) error {
				if bad != nil && rec.Run.ID == one.ID {
					bad(&rec)
				}
				c.Run(&rec, events, b.graph)
				return nil
			}))
			then()
			found, err := c.Differences(b.Context())
			b.ok(err)
			return found
		}
		for what, workflow := range map[string]dag.WorkflowID{"its workflow is known": 1, "its workflow is unknown": 0} {
			found := check(func(rec *store.RunRecord) {
				rec.Run.Workflow, rec.Bad = workflow, errors.New("damaged")
			}, func() {})
			if len(found) != 0 {
				b.Errorf("a run that cannot be read, and %s: %q", what, found)
			}
		}
		found := check(nil, func() {
			_, err := store.Can(b.st).Retention.Expire(b.Context(), b.owner, store.Expiry{Workflow: 1, Before: d(100), Limit: 1, Tallied: true, Counted: b.fence.Seq})
			b.ok(err)
		})
		if len(found) > 0 {
			b.Errorf("a deletion during the scan: %q", found)
		}
	})
}

// stands is a store that is used by a program without the tally.
type stands struct {
	store.Store
	all bool
}

func (s *stands) TallyStands() bool { return s.all }

// TestHeldUntilTallyStands: the folder finds in the rows the ends from the time before all programs knew the
// tally.
func TestHeldUntilTallyStands(t *testing.T) {
	onStores(t, func(b *bench) {
		s := &stands{Store: b.st}
		b.st = s
		b.fresh()
		r := b.run(d(10))
		b.end(&r, dag.RunSucceeded, d(10)+3e6, 100)
		b.step()
		if n := b.folder.Held(); n != 0 {
			b.Errorf("%d ends are held", n)
		}
		s.all = true
		b.step()
		b.ends(10, "", 1)
	})
}
