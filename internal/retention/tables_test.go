package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/store"
)

// shelf is a store of workflows for tests of retention. It records the calls, and a test decides the answers.
type shelf struct {
	store.Store
	store.Retention
	now       dag.Micros
	flows     []store.Workflow
	deleted   []store.Workflow
	failing   map[dag.WorkflowID]error // errors that Expire returns
	endless   dag.WorkflowID           // its ledger always has more lines
	calls     map[string]int           // by method and workflow
	continued []store.FireKey          // the position at which each call for endless began
	upgrades  int                      // remaining steps of the upgrade
	runs      []bool                   // which of the finished runs are deleted
	held, old byte                     // numbers of runs: the first old runs are old, and the first held of these are kept at any age
	marked    int64                    // the Seq of the last mark that was read; each mark has the next Seq
	counted   []int64                  // the value Counted of each call of Expire
}

func (s *shelf) call(method string, w dag.WorkflowID) { s.calls[fmt.Sprint(method, " ", w)]++ }

func (s *shelf) Clock(context.Context) (dag.Micros, error) { return s.now, nil }
func (s *shelf) Workflows(_ context.Context, q store.WorkflowQuery) ([]store.Workflow, error) {
	if q.After != "" {
		return nil, nil
	}
	return s.flows, nil
}
func (s *shelf) TallyMarks(context.Context, dag.ShardID) ([]store.TallyMark, error) {
	s.marked++
	return []store.TallyMark{{Seq: s.marked}}, nil
}
func (s *shelf) ExpireTally(context.Context, dag.HandlerID, store.TallyExpiry) (int, error) {
	return 0, nil
}
func (s *shelf) ExpireIncidents(context.Context, store.IncidentExpiry) (int, error) { return 0, nil }
func (s *shelf) DeletedWorkflows(_ context.Context, after dag.WorkflowID, _ int) ([]store.Workflow, error) {
	if after != 0 {
		return nil, nil
	}
	return s.deleted, nil
}
func (s *shelf) Version(context.Context, dag.WorkflowID, int32) (store.Version, error) {
	return store.Version{Def: []byte("{}")}, nil
}
func (s *shelf) FinishedBut(_ context.Context, w dag.WorkflowID, keep int) (store.RunPos, error) {
	s.call("newest", w)
	return store.RunPos{15: byte(max(0, len(s.runs)-keep))}, nil
}
func (s *shelf) Expire(_ context.Context, _ dag.HandlerID, x store.Expiry) (did store.Expired, err error) {
	s.call("runs", x.Workflow)
	s.counted = append(s.counted, x.Counted)
	for at := x.After[15]; int(at) < len(s.runs) && did.Next[15] < x.After[15]+10; at++ {
		did.Next[15], did.Old = at+1, did.Old || at < s.old
		if (at+1 <= x.To[15] || at < s.old) && at >= s.held && !s.runs[at] {
			did.Runs = append(did.Runs, dag.RunID{at + 1})
			s.runs[at] = true
		}
	}
	return did, s.failing[x.Workflow]
}
func (s *shelf) ExpireFires(_ context.Context, _ dag.HandlerID, x store.FireExpiry) (store.FiresExpired, error) {
	s.call("fires", x.Workflow)
	if x.Workflow != s.endless {
		return store.FiresExpired{}, nil
	}
	s.continued = append(s.continued, x.After)
	return store.FiresExpired{Gone: 1, Next: store.FireKey{Decided: x.After.Decided + 1}}, nil
}
func (s *shelf) ExpireBackfills(context.Context, dag.HandlerID, store.BackfillExpiry) (int, error) {
	return 0, nil
}
func (s *shelf) ExpireVersions(context.Context, dag.HandlerID, store.VersionExpiry) (int, error) {
	return 0, nil
}
func (s *shelf) ExpireWorkflow(_ context.Context, _ dag.HandlerID, x store.WorkflowExpiry) (int, error) {
	s.call("workflow", x.Workflow)
	return 0, nil
}
func (s *shelf) ExpireRecords(context.Context, dag.HandlerID, store.RecordExpiry) (int, error) {
	s.call("records", 0)
	return 0, nil
}
func (s *shelf) Upgrade(context.Context) (bool, error) {
	s.upgrades--
	return s.upgrades > 0, nil
}

// newShelf returns a store with the workflows w1, w2 and so on, and a Cleaner for it.
func newShelf(t *testing.T, n int, change func(*Rules)) (*shelf, *Cleaner) {
	t.Helper()
	s := &shelf{now: dag.Micro(time.Now()), calls: map[string]int{}, failing: map[dag.WorkflowID]error{}}
	for i := range n {
		s.flows = append(s.flows, store.Workflow{ID: dag.WorkflowID(i + 1), Namespace: "default", Name: fmt.Sprint("w", i+1), Version: 1})
	}
	rules := Rules{Age: 90 * 24 * time.Hour, Runs: 1000, Bounds: Bounds{KeysAge: 7 * 24 * time.Hour, Keys: 100_000, FiresAge: 90 * 24 * time.Hour, Fires: 100_000}}
	if change != nil {
		change(&rules)
	}
	f := New(Config{Store: s, Rules: func() Rules { return rules }, ByHand: func() bool { return false }, Superseded: SupersededMin, Rest: RestUsual, Log: slog.New(slog.DiscardHandler),
		Owner: func() dag.HandlerID { return 1 }, Owns: func(dag.ShardID) bool { return true }, Gone: func(int) {}, Passed: func() {},
		DeleteFiles: func(context.Context, []logs.Run) error { return nil }})
	return s, f
}

// TestLargeLedgerHoldsUpNoOther bounds the part of a pass that one workflow gets, and lets the next pass
// continue where the pass has ended.
func TestLargeLedgerHoldsUpNoOther(t *testing.T) {
	s, f := newShelf(t, 2, nil)
	s.endless = 1
	for pass := range 3 {
		if err := f.tables(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(s.continued); n != (pass+1)*pastSteps {
			t.Fatalf("pass %d made %d steps of the large ledger, want %d", pass, n, (pass+1)*pastSteps)
		}
		if n := s.calls["fires 2"]; n != 1 {
			t.Errorf("pass %d: the other ledger was looked at %d times, want once a day", pass, n)
		}
		s.now += dag.Micros(forgetEvery.Microseconds())
	}
	for i, after := range s.continued {
		if after.Decided != dag.Micros(i) {
			t.Fatalf("step %d begins at %v", i, after.Decided)
		}
	}
}

// TestPassCountsOnce checks that a pass determines only once which runs are among the newest, and examines
// all other runs once.
func TestPassCountsOnce(t *testing.T) {
	s, f := newShelf(t, 1, func(r *Rules) { r.Runs, r.Keys = 100, 120 })
	s.runs = make([]bool, 200)
	if err := f.tables(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.calls["newest 1"] != 2 || s.calls["runs 1"] != 11 {
		t.Errorf("100 runs to keep of 200, 10 in a call: %v", s.calls)
	}
	for i, gone := range s.runs {
		if gone != (i < 100) {
			t.Fatalf("run %d is deleted: %v", i, gone)
		}
	}
}

// TestOldRunsBehindProtectedOnes checks that old runs are deleted although they come after protected runs,
// which are more than one call examines.
func TestOldRunsBehindProtectedOnes(t *testing.T) {
	s, f := newShelf(t, 1, func(r *Rules) { r.Runs = 1000 })
	s.runs, s.held, s.old = make([]bool, 100), 40, 60
	if err := f.tables(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, gone := range s.runs {
		if gone != (i >= 40 && i < 60) {
			t.Fatalf("run %d is deleted: %v", i, gone)
		}
	}
	if n := s.calls["runs 1"]; n != 7 {
		t.Errorf("%d calls, want 7: the first call that sees young runs only is the last", n)
	}
}

// TestFailureOfOneWorkflow checks that after a failure of one workflow, the rows of other workflows and those
// without a workflow are still deleted. A pass ends early only if the database answers for no workflow.
func TestFailureOfOneWorkflow(t *testing.T) {
	s, f := newShelf(t, 2*unansweredMax, nil)
	for i := range 2*unansweredMax - 1 {
		s.failing[dag.WorkflowID(i+1)] = store.ErrCorrupt
	}
	s.failing[3] = store.ErrUnavailable
	err := f.tables(t.Context())
	if !errors.Is(err, store.ErrCorrupt) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("the error of the pass: %v", err)
	}
	if last := fmt.Sprint("runs ", 2*unansweredMax); s.calls[last] != 1 || s.calls["records 0"] != 1 {
		t.Errorf("after the failures: %v", s.calls)
	}
	s, f = newShelf(t, 2*unansweredMax, nil)
	for i := range 2 * unansweredMax {
		s.failing[dag.WorkflowID(i+1)] = store.ErrUnavailable
	}
	if err := f.tables(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("the error of the pass: %v", err)
	}
	if last := fmt.Sprint("runs ", unansweredMax); len(s.calls) != 2*unansweredMax || s.calls[last] != 1 {
		t.Errorf("calls of a database that does not answer: %v", s.calls)
	}
}

// TestDeletedWorkflowKeptForEver checks that the rows of a deleted workflow are kept if retention_age is 0.
func TestDeletedWorkflowKeptForEver(t *testing.T) {
	for age, want := range map[time.Duration]int{0: 0, 24 * time.Hour: 1} {
		s, f := newShelf(t, 0, func(r *Rules) { r.Age = age })
		s.deleted = []store.Workflow{{ID: 1, Namespace: "default", Name: "w", State: store.WorkflowDeleted}}
		if err := f.tables(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := s.calls["workflow 1"]; n != want {
			t.Errorf("retention_age %v: %d calls to delete the workflow, want %d", age, n, want)
		}
	}
}

// TestRetentionDropsGoneWorkflows checks that a Cleaner drops the state of workflows that are gone, or whose
// shards belong to another node.
func TestRetentionDropsGoneWorkflows(t *testing.T) {
	s, f := newShelf(t, 3, nil)
	for _, left := range []int{3, 1} {
		s.flows = s.flows[:left]
		if err := f.tables(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(f.turns) != left || len(f.rules) != left {
			t.Errorf("%d turns and %d rules of %d workflows", len(f.turns), len(f.rules), left)
		}
	}
	f.cfg.Owns = func(dag.ShardID) bool { return false }
	if err := f.tables(t.Context()); err != nil || len(f.turns)+len(f.rules) != 0 {
		t.Errorf("%d turns and %d rules of no workflow, %v", len(f.turns), len(f.rules), err)
	}
}

// TestUpgradeRests checks that there is a pause between the steps of an upgrade, even if a step takes no
// time, because then another node does the work.
func TestUpgradeRests(t *testing.T) {
	s, f := newShelf(t, 0, nil)
	s.upgrades = 5
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f.upgrade(t.Context())
		if took := time.Since(began); took != 4*upgradeRest || s.upgrades != 0 {
			t.Errorf("%d steps are left after %v", s.upgrades, took)
		}
	})
}

// TestEachDeletionAsksWhatIsCounted checks that the marks of the tally are read before each transaction that
// deletes runs.
func TestEachDeletionAsksWhatIsCounted(t *testing.T) {
	s, f := newShelf(t, 1, func(r *Rules) { r.Runs = 5 })
	s.runs = make([]bool, 30)
	synctest.Test(t, func(t *testing.T) {
		if err := f.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if len(s.counted) < 2 {
		t.Fatalf("%d transactions", len(s.counted))
	}
	for i, seq := range s.counted {
		if seq != int64(i+1) {
			t.Errorf("transaction %d deletes runs up to mark %d, want the newest mark %d", i+1, seq, i+1)
		}
	}
}
