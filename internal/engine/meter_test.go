package engine_test

import (
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/metric/metrictest"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/storetest"
)

// counted checks numbers of the engine's metrics once everything is at rest.
func (n *node) counted(want metrictest.Values) {
	n.t.Helper()
	is := metrictest.Read(n.t, n.Stats().Metrics)
	for name, v := range want {
		if is[name] != v {
			n.t.Errorf("%s is %v, want %v", name, is[name], v)
		}
	}
	if n.t.Failed() {
		n.t.Log(is)
	}
}

// TestMeter lets runs succeed, fail after a retry, and wait for every reason that has a label.
func TestMeter(t *testing.T) {
	h, n := held(t)
	good := dag.Result{State: dag.AttemptSucceeded, Exited: true}
	bad := dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, Exited: true, ExitCode: 1}

	failing := n.shares("failing", build(t, dag.GraphSpec{Tasks: []dag.TaskSpec{{Name: "a", Policy: dag.Policy{Retry: dag.Retry{Max: 1}}}}}))
	id := n.submit(failing)
	h.end(h.holding(1)[0], bad)
	h.end(h.holding(1)[0], bad)
	n.ends(id, dag.RunFailed)

	odd := n.shares("odd", wide(t, 1))
	id = n.submit(odd)
	h.end(h.holding(1)[0], dag.Result{State: dag.AttemptFailed, Cause: "made up by a worker"})
	n.ends(id, dag.RunFailed)

	placed := n.shares("placed", build(t, dag.GraphSpec{Tasks: []dag.TaskSpec{
		{Name: "a", Policy: dag.Policy{Place: dag.NewPlace("n", "", nil)}}, {Name: "b"}}}))
	id = n.submit(placed)
	for _, a := range h.holding(2) {
		h.end(a, good)
	}
	n.ends(id, dag.RunSucceeded)

	n.queue("q", 1)
	for _, w := range []struct {
		name string
		what names
	}{{"queued", names{Queue: "q"}}, {"locked", names{Locks: []string{"l"}}}} {
		flow := n.naming(w.name, w.what)
		first, second := n.submit(flow), n.submit(flow)
		h.end(h.holding(1)[0], good)
		n.ends(first, dag.RunSucceeded)
		h.end(h.holding(1)[0], good)
		n.ends(second, dag.RunSucceeded)
	}
	n.quiet()
	n.counted(metrictest.Values{
		`runs_ended_total{workflow="test/failing",state="failed",cause="task_failed"}`: 1,
		`runs_ended_total{workflow="test/odd",state="failed",cause="task_failed"}`:     1,
		`runs_ended_total{workflow="test/placed",state="succeeded",cause=""}`:          1,
		`runs_ended_total{workflow="test/queued",state="succeeded",cause=""}`:          2,
		`run_seconds{workflow="test/queued"}`:                                          2,
		`attempts_ended_total{kind="work",state="failed",cause="exit"}`:                2,
		`attempts_ended_total{kind="work",state="failed",cause="other"}`:               1,
		`attempts_ended_total{kind="work",state="succeeded",cause=""}`:                 6,
		`task_wait_seconds{why="place"}`:                                               1,
		`task_wait_seconds{why="queue"}`:                                               1,
		`task_wait_seconds{why="lock"}`:                                                1,
		`task_wait_seconds{why="slot"}`:                                                8,
	})
}

// TestMeterOfEqualNames: a deleted workflow and a new one of the same name are shown as one.
func TestMeterOfEqualNames(t *testing.T) {
	h, n := held(t)
	good := dag.Result{State: dag.AttemptSucceeded, Exited: true}
	for range 2 {
		flow := n.shares("twice", wide(t, 1))
		id := n.submit(flow)
		h.end(h.holding(1)[0], good)
		n.ends(id, dag.RunSucceeded)
		if _, err := n.SetState(t.Context(), flow, store.WorkflowDeleted, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	n.counted(metrictest.Values{`runs_ended_total{workflow="test/twice",state="succeeded",cause=""}`: 2,
		`run_seconds{workflow="test/twice"}`: 2})
}

// TestMeterFires counts the decisions about the instants of a schedule, also those that a pause skips.
func TestMeterFires(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", "name: t, every: 3s")
		until(7 * time.Second)
		x.become(w, store.WorkflowPaused)
		until(13 * time.Second)
		x.counted(metrictest.Values{`fires_total{outcome="fired"}`: 2, `fires_total{outcome="skipped"}`: 2, `fire_lag_seconds`: 2})
	})
}

// TestMeterLateFires counts instants of the time in which no node ran, and an instant whose run did not begin
// in time. The latter was counted as fired before.
func TestMeterLateFires(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.set("w", "", "name: t, every: 2m, overlap: allow, catchup: all, delay_tolerance: 4m")
		until(2*time.Minute + time.Second)
		x.restart(t, 7*time.Minute+29*time.Second)
		pass(time.Second)
		x.counted(metrictest.Values{`fires_total{outcome="fired"}`: 0, `fires_total{outcome="late"}`: 2, `fires_total{outcome="missed"}`: 1})
	})
	bubble(t, func(t *testing.T, x *timed) {
		x.slow.Store(int64(30 * time.Second))
		x.set("w", "max_concurrent_runs: 1\n", "name: t, every: 10s, overlap: allow, delay_tolerance: 15s")
		until(36 * time.Second)
		x.counted(metrictest.Values{`fires_total{outcome="fired"}`: 3, `fires_total{outcome="late"}`: 0, `fires_total{outcome="missed"}`: 1})
	})
}

// TestMeterLost checks that a transaction counts once, however often it is tried.
func TestMeterLost(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", "name: t, every: 3s")
		tries := 0
		x.st.fails(func(b *store.Batch) storetest.Fault {
			if len(b.Fires) == 0 {
				return storetest.NoFault
			}
			switch tries++; tries {
			case 1:
				return storetest.Unavailable
			case 2:
				return storetest.Written
			}
			return storetest.NoFault
		})
		until(10 * time.Second)
		x.ledgerIs(w, "t", "0:03 fired\n0:06 fired\n0:09 fired")
		if tries < 2 {
			t.Fatalf("%d transactions fired", tries)
		}
		// The effects of a commit with an unknown outcome are loaded from the rows, and are not counted.
		x.counted(metrictest.Values{`fires_total{outcome="fired"}`: 2})
	})
}

// TestBacklog reads the waiting work: for slots, for a queue, for an approval, and for an instant.
func TestBacklog(t *testing.T) {
	h := newHands(t)
	h.held = true
	st := openMemory(t)
	n := start(t, st, h, naming, func(c *engine.Config) { c.Slots = 1 })
	backlog := func() metrictest.Values { return metrictest.Read(t, engine.Backlog(n.Engine)) }
	if v := backlog(); v["tasks_ready{group=\"\",kind=\"\"}"] != 0 || v["oldest_running_seconds"] != 0 || v["approvals_waiting"] != 0 {
		t.Errorf("nothing waits, but %v", v)
	}
	n.queue("q", 1)
	place := dag.NewPlace("", "gpu", nil)
	w := n.shares("w", build(t, dag.GraphSpec{Tasks: []dag.TaskSpec{
		{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "p", Policy: dag.Policy{Place: place}},
		{Name: "k", Policy: dag.Policy{Place: place.OfKind("train")}},
		{Name: "ok", Logic: &dag.Logic{Kind: dag.Approval}}}}))
	flow := n.naming("queued", names{Queue: "q"})
	id := n.submit(w)
	h.holding(1)
	for range 3 {
		n.submit(flow)
	}
	want := metrictest.Values{
		`tasks_ready{group="",kind=""}`:         3, // two of w, and one of the run that has its queue slot
		`tasks_ready{group="gpu",kind=""}`:      1,
		`tasks_ready{group="gpu",kind="train"}`: 1,
		`queue_waiting{queue="q"}`:              2,
		`approvals_waiting`:                     1,
	}
	same := func() {
		t.Helper()
		v := backlog()
		for name, is := range want {
			if v[name] != is {
				t.Errorf("%s is %v, want %v", name, v[name], is)
			}
		}
		for _, name := range []string{"oldest_running_seconds", "approval_oldest_seconds", `queue_oldest_seconds{queue="q"}`} {
			if v[name] <= 0 {
				t.Errorf("%s is %v", name, v[name])
			}
		}
	}
	same()
	n.close()
	h = newHands(t)
	h.held = true
	n = start(t, st, h, naming, func(c *engine.Config) { c.Slots = 1 }) // the same numbers, loaded from the rows
	busy := h.holding(1)
	same()
	if err := n.Decide(t.Context(), engine.Decision{Run: id, Task: "ok", Actor: "ada", May: func(*dag.RunRow) error { return nil },
		Outputs: func(*dag.RunRow) ([]byte, error) { return nil, nil }}); err != nil {
		t.Fatal(err)
	}
	h.end(busy[0], dag.Result{State: dag.AttemptSucceeded, Exited: true})
	h.holding(1)
	want = metrictest.Values{`tasks_ready{group="",kind=""}`: 2, `approvals_waiting`: 0}
	v := backlog()
	for name, is := range want {
		if v[name] != is {
			t.Errorf("%s is %v, want %v", name, v[name], is)
		}
	}
}
