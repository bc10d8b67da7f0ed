package engine_test

import (
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
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

// TestMeter has runs succeed, fail after a retry, and wait for what a wait has a label for.
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
		// What an unknown commit did is found in the rows, and not counted.
		x.counted(metrictest.Values{`fires_total{outcome="fired"}`: 2})
	})
}
