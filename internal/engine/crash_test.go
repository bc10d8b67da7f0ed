package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// mortal is a store whose process dies at its kth commit, before or after the commit is written. Afterwards
// all calls fail.
type mortal struct {
	store.Store
	mu    sync.Mutex
	count int
	at    int // 0 means never
	after bool
	dead  bool
	died  chan struct{}
}

func newMortal(st store.Store, at int, after bool) *mortal {
	return &mortal{Store: st, at: at, after: after, died: make(chan struct{})}
}

func (m *mortal) gone() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return fmt.Errorf("the process is dead: %w", store.ErrUnavailable)
	}
	return nil
}

func (m *mortal) die() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
	close(m.died)
	return fmt.Errorf("the process dies: %w", store.ErrUnknown)
}

func (m *mortal) Commit(ctx context.Context, b *store.Batch) (dag.Micros, error) {
	if err := m.gone(); err != nil {
		return 0, err
	}
	m.count++
	if m.count == m.at && !m.after {
		return 0, m.die()
	}
	now, err := m.Store.Commit(ctx, b)
	if err == nil && m.count == m.at {
		return 0, m.die()
	}
	return now, err
}

func (m *mortal) Acquire(ctx context.Context, h dag.HandlerID, s []dag.ShardID) ([]store.Acquired, error) {
	if err := m.gone(); err != nil {
		return nil, err
	}
	return m.Store.Acquire(ctx, h, s)
}

func (m *mortal) Load(ctx context.Context, q store.LoadQuery) ([]store.RunRecord, error) {
	if err := m.gone(); err != nil {
		return nil, err
	}
	return m.Store.Load(ctx, q)
}

// TestCrashAtEveryCommit kills the process at each commit of a small workload, before and after the commit is
// written. The next process finishes all runs under new tokens.
func TestCrashAtEveryCommit(t *testing.T) {
	for name, open := range openers {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/after=%v", name, after), func(t *testing.T) {
				t.Parallel()
				atEveryCommit(t, 7, func(k int) bool { return crashAt(t, open(t), k, after) })
			})
		}
	}
}

// atEveryCommit kills a workload at each of its commits in turn, until the workload ends before the next one.
// dies reports whether it died at commit k. On a busy machine the writer puts several steps into one commit,
// so the number of commits varies: if there were too few for a meaningful test, the workload is repeated.
func atEveryCommit(t *testing.T, least int, dies func(k int) bool) {
	t.Helper()
	const tries = 20
	for k, try := 1, 1; ; {
		died := dies(k)
		switch {
		case t.Failed():
			t.Fatalf("it was to die at commit %d", k)
		case died:
			k, try = k+1, 1
		case k > least:
			return
		case try == tries:
			t.Fatalf("in %d lives the workload had only %d commits", tries, k-1)
		default:
			try++
		}
	}
}

// crashAt runs the workload until it is done or the process dies at commit k, and then runs it a second time.
func crashAt(t *testing.T, st store.Store, k int, after bool) (died bool) {
	t.Helper()
	m := newMortal(st, k, after)
	first := newHands(t)
	first.result = crashResult
	n := start(t, m, first)
	told := crashWork(t, n, m.died)
	select {
	case <-m.died:
		died = true
	default:
		n.quiet()
	}
	n.close()
	second := newHands(t)
	second.result, second.past = crashResult, first
	n = start(t, st, second)
	again := crashWork(t, n, nil)
	for key, id := range told {
		if again[key] != id {
			t.Fatalf("commit %d: the submission %s was accepted as %s, and now is %s", k, key, id, again[key])
		}
	}
	n.quiet()
	for key, id := range again {
		want := dag.RunSucceeded
		if key[:4] == "fail" {
			want = dag.RunFailed
		}
		if s := n.state(id); s != want {
			t.Fatalf("commit %d: the run %s is %s, want %s", k, key, s, want)
		}
	}
	n.close()
	return died
}

// TestLostWhereItBelongs: a task that is bound to a node loses its attempt there, because its keeper died
// or the assignment never arrived. The node is there, so the task runs there again, and does not fail as if
// the node were gone.
func TestLostWhereItBelongs(t *testing.T) {
	st := openMemory(t)
	h := newHands(t)
	h.held = true
	n := start(t, st, h)
	id := n.submit(n.apply("w", graph(t, "a", func(s *dag.GraphSpec) { s.Tasks[0].Policy.Place = dag.NewPlace("n", "", nil) })))
	k := h.holding(1)[0]
	n.Report(engine.Report{Run: k.run, Task: k.task, Token: k.token, Lost: "its keeper died"})
	eventually(t, "it runs again", func() bool { return h.starts() == 2 })
	n.sound()
	life := engine.Life{Handler: n.Handler()} // the next process continues under this handler, and finds no attempts in its keeper
	n.close()
	h = newHands(t)
	n = start(t, st, h, func(c *engine.Config) { c.Life = &life })
	n.ends(id, dag.RunSucceeded)
	n.quiet()
	if as, err := n.Attempts(t.Context(), id, 0); err != nil || len(as) != 3 || as[0].State != dag.AttemptLost || as[1].State != dag.AttemptLost {
		t.Errorf("attempts %+v, %v", as, err)
	}
}

func crashResult(a engine.Assignment) dag.Result {
	switch {
	case a.Name == "bad", a.Name == "flaky" && a.Token == 1:
		return dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, Exited: true, ExitCode: 1}
	}
	return dag.Result{State: dag.AttemptSucceeded, Exited: true}
}

// crashWork applies three workflows, and starts runs of each under keys, one after the other. It returns
// the runs that were accepted before the process died.
func crashWork(t *testing.T, n *node, died <-chan struct{}) map[string]dag.RunID {
	t.Helper()
	told := map[string]dag.RunID{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if died != nil {
		stop := context.AfterFunc(ctx, func() {})
		defer stop()
		go func() {
			select {
			case <-died:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	retry := func(s *dag.GraphSpec) { s.Tasks[0].Policy.Retry.Max = 2 }
	for _, w := range []struct {
		name string
		g    *dag.Graph
	}{{"good", graph(t, "a; b: a; c: a; d: b c")}, {"flak", graph(t, "flaky; b: flaky", retry)}, {"fail", graph(t, "bad; b: bad")}} {
		wf, _, err := n.Apply(ctx, engine.Definition{Namespace: "test", Name: w.name, Graph: w.g.Pack(), Digest: []byte(w.name)})
		if err != nil {
			break
		}
		for i := range 2 {
			s := submission(wf)
			s.Key = fmt.Sprint(i)
			a, err := n.Submit(ctx, s)
			if err == nil {
				told[w.name+s.Key] = a.Run
			} else if !errors.Is(err, errkind.ErrUnavailable) {
				t.Fatal(err)
			}
		}
	}
	if died != nil { // the rest of the workload may still meet its end
		eventually(t, "it is done or dead", func() bool {
			select {
			case <-died:
				return true
			default:
				return n.Idle() && n.Free() == n.slots && n.Waiting() == 0
			}
		})
	}
	return told
}
