package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

func (n *node) stock() store.NamespaceStock {
	n.t.Helper()
	all, err := engine.NamespacesOf(n.Engine).Stocks(n.t.Context())
	if err != nil {
		n.t.Fatal(err)
	}
	return all["test"]
}

// over fails the test if err is an error other than a QuotaError for the given quota. It reports whether err
// is set.
func (n *node) over(err error, quota string) bool {
	n.t.Helper()
	var over *store.QuotaError
	if err != nil && (!errors.As(err, &over) || over.Quota != quota || over.Namespace != "test") {
		n.t.Errorf("refused by %v, want quota %s", err, quota)
	}
	return err != nil
}

// TestQuotaOfVersions: versions beyond the quota are refused, also for other workflows of the namespace, and
// also if several are applied at once. An apply that changes nothing is accepted.
func TestQuotaOfVersions(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			n := start(t, open(t), newHands(t), bounded)
			apply := func(name string, source int) error {
				g := graph(t, "a").Pack()
				_, _, err := n.Apply(t.Context(), engine.Definition{Namespace: "test", Name: name, Graph: g, Digest: fmt.Append(nil, source), User: "ada"})
				return err
			}
			if err := apply("w", 1); err != nil {
				t.Fatal(err)
			}
			n.quotas(store.Quotas{Versions: 5})
			var made atomic.Int64
			var wg sync.WaitGroup
			for i := range 12 {
				wg.Go(func() {
					if !n.over(apply(fmt.Sprint("w", i), 1), store.QuotaVersions) {
						made.Add(1)
					}
				})
			}
			wg.Wait()
			if got := made.Load(); got != 4 || n.stock().Versions != 5 {
				t.Fatalf("%d versions were made, %+v is kept; want 4 and 5", got, n.stock())
			}
			if !n.over(apply("w", 2), store.QuotaVersions) {
				t.Error("a new version beyond the quota is accepted")
			}
			if err := apply("w", 1); err != nil {
				t.Error("the version that is there:", err)
			}
			n.submit(n.workflow("w"))
			n.quotas(store.Quotas{Versions: 6})
			if err := apply("w", 2); err != nil {
				t.Error(err)
			}
		})
	}
}

func (n *node) workflow(name string) store.Workflow {
	n.t.Helper()
	all, err := n.Workflows(n.t.Context(), store.WorkflowQuery{Namespace: "test", Limit: 100})
	if err != nil {
		n.t.Fatal(err)
	}
	return all[slices.IndexFunc(all, func(w store.Workflow) bool { return w.Name == name })]
}

// TestQuotaOfStoredBytes: starts whose parameters exceed the quota are refused. All starts are refused while
// more bytes are stored than the quota allows. A transaction that is repeated is counted once.
func TestQuotaOfStoredBytes(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			h := newHands(t)
			h.held = true
			n := start(t, open(t), h, bounded)
			w := n.apply("w", graph(t, "a"))
			kept := n.stock().Bytes
			params := func(size int) func(*engine.Submission) {
				return func(s *engine.Submission) {
					s.Params = append(append([]byte(`{"x":"`), bytes.Repeat([]byte("x"), size-8)...), `"}`...)
				}
			}
			n.submit(w, params(2000))
			n.quotas(store.Quotas{StoredBytes: kept + 10_000, Runs: 1000})
			var accepted atomic.Int64
			var wg sync.WaitGroup
			for range 12 {
				wg.Go(func() {
					if _, ok := n.tries(w, store.QuotaStoredBytes, params(2000)); ok {
						accepted.Add(1)
					}
				})
			}
			wg.Wait()
			if got := accepted.Load(); got != 4 || n.stock().Bytes != kept+10_000 {
				t.Fatalf("%d runs were accepted, %+v is kept; want 4 and %d bytes", got, n.stock(), kept+10_000)
			}
			key := func(s *engine.Submission) { s.Key = "k" }
			if _, ok := n.tries(w, store.QuotaStoredBytes, params(2000), key); ok {
				t.Error("a run with a key is accepted beyond the quota")
			}
			id, ok := n.tries(w, store.QuotaStoredBytes)
			if !ok {
				t.Error("a run without parameters is refused at the quota")
			}
			if err := n.Do(t.Context(), engine.Command{Run: id, Intent: dag.IntentStop}); err != nil {
				t.Fatal(err)
			}
			n.ends(id, dag.RunStopped)
			n.quotas(store.Quotas{StoredBytes: kept + 9_000})
			if _, ok := n.tries(w, store.QuotaStoredBytes); ok {
				t.Error("a run is accepted while the namespace keeps more than its quota")
			}
			over, err := engine.NamespacesOf(n.Engine).Room(t.Context(), "test")
			if err != nil || over == nil || over.Quota != store.QuotaStoredBytes {
				t.Errorf("no room because of %v, %v", over, err)
			}
			n.sound()
		})
	}
}

// TestQuotaOfKeptRuns: the bytes of a run are counted when it ends, also those of attempts that ended under
// an earlier owner. They are counted once if the run ends twice, and subtracted when the run is deleted. No
// run begins while more bytes are stored than the quota allows.
func TestQuotaOfKeptRuns(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			h, st := newHands(t), open(t)
			h.held = true
			n := start(t, st, h, bounded)
			w := n.apply("w", graph(t, "a; b: a; c: b"))
			base := n.stock().Bytes
			n.quotas(store.Quotas{StoredBytes: base + 2000})
			id := n.submit(w)
			end := func(r dag.Result) {
				t.Helper()
				h.end(h.holding(1)[0], r)
				h.holding(0)
			}
			end(dag.Result{State: dag.AttemptSucceeded, Logged: 3000})
			h.holding(1)
			if got := n.stock().Bytes; got != base {
				t.Errorf("%d bytes count before the end of the run", got-base)
			}
			n.close()
			h = newHands(t)
			h.held = true
			n = start(t, st, h, bounded)
			end(dag.Result{State: dag.AttemptSucceeded, Left: 500, Outputs: []byte(`{"x":"0123456789"}`)})
			end(dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, Logged: 1 << 50})
			n.ends(id, dag.RunFailed)
			want := base + 3000 + 500 + 18 + dag.SizeMax + 4*dag.AttemptWeight // one attempt of b was lost
			if got := n.stock().Bytes; got != want {
				t.Errorf("%d bytes count after the end, want %d", got-base, want-base)
			}
			n.quotas(store.Quotas{StoredBytes: base + 3000}) // reads the stock again, as each node does every 2 s
			if _, ok := n.tries(w, store.QuotaStoredBytes); ok {
				t.Error("a run is accepted while the namespace keeps more than its quota")
			}
			n.sound()
		})
	}
}

// TestParamsOfQuarantinedRuns: a run that is quarantined before it begins keeps its parameters like any other
// run. The store subtracts them when it deletes the run, so they have to be counted before.
func TestParamsOfQuarantinedRuns(t *testing.T) {
	var counted atomic.Int64
	n, _, give := ownerless(t, func(op memory.Op) memory.Outcome {
		if op.Batch == nil {
			return memory.OK
		}
		begins := slices.ContainsFunc(op.Batch.RunUpdates, func(u dag.RunUpdate) bool { return !u.State.Terminal() })
		if begins && op.Kind == memory.CommitBefore {
			return memory.Refuse
		}
		for _, u := range op.Batch.Stocks {
			if op.Kind == memory.CommitAfter {
				counted.Add(u.Bytes)
			}
		}
		return memory.OK
	}, bounded)
	give(true)
	s := submission(n.apply("w", graph(t, "a")))
	s.Params = append(append([]byte(`{"x":"`), bytes.Repeat([]byte("x"), 2000)...), `"}`...)
	a, err := n.Deposit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	n.meet()
	n.ends(a.Run, dag.RunFailed)
	if got := counted.Load(); got != int64(len(s.Params)) {
		t.Errorf("%d bytes are counted, want %d", got, len(s.Params))
	}
}
