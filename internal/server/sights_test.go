package server_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"skein.dev/skein/internal/monitor"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// newWatch is the monitor of node-1.
func newWatch(f *far) *monitor.Monitor {
	return monitor.New(monitor.Config{
		Self: func() store.Member { return store.Member{Handler: f.e.Handler().ID, Name: "node-1"} },
		View: func() []store.Member {
			all, _, _ := f.Members(context.Background())
			return all
		},
		Call: func(_ context.Context, to store.Member, _ string, _, answer any) error {
			is, answers := f.says[to.Name]
			if !answers {
				return errors.New("no route to " + to.Name)
			}
			*answer.(*monitor.Report) = is
			return nil
		},
		Clock: f.Clock, Look: func(*monitor.Report) {}, Log: slog.New(slog.DiscardHandler),
	})
}

// TestSights: the list of nodes says how the node that answers sees each of them, and which nodes do not
// reach which.
func TestSights(t *testing.T) {
	b, f := newTown(t)
	f.says["node-2"] = monitor.Report{Node: "node-2", Why: "it is full", Unreached: []string{"node-1", "node-3"}}
	sights := func() (all []*api.NodeSight) {
		for _, n := range want[api.List[api.Node]](t, b.get("/api/v1/nodes"), 200).Items {
			all = append(all, n.Sight)
		}
		return all
	}
	if all := sights(); all[1].State != "unknown" || all[0].State != "self" {
		t.Errorf("before the first round: %+v, %+v", all[0], all[1])
	}
	f.watch.Round(t.Context())
	f.watch.Round(t.Context())
	one, two, three := sights()[0], sights()[1], sights()[2]
	if one.State != "self" || !slices.Equal(one.UnreachedBy, []string{"node-2"}) {
		t.Errorf("node-1: %+v", one)
	}
	if two.State != "unready" || two.By != "node-1" || *two.Reason != "it is full" || two.CheckedAt == nil || len(two.UnreachedBy) != 0 {
		t.Errorf("node-2: %+v", two)
	}
	if three.State != "unreachable" || *three.Reason != "no route to node-3" || !slices.Equal(three.UnreachedBy, []string{"node-1", "node-2"}) {
		t.Errorf("node-3: %+v", three)
	}
}

// TestNodeLoads: a node returns its own load, and refuses calls about a worker or another node.
func TestNodeLoads(t *testing.T) {
	b, _ := newTown(t)
	if got := want[api.NodeLoads](t, b.get("/api/v1/nodes/node-1/metrics?span=15m"), 200); got.Node != "node-1" || got.Items == nil || len(got.Items) != 0 {
		t.Errorf("%+v", got)
	}
	wantProblem(t, b.get("/api/v1/nodes/node-1/metrics?span=2h"), 422, api.ProblemInvalid)
	wantProblem(t, b.get("/api/v1/nodes/nowhere/metrics"), 404, api.ProblemNotFound)
	if got := b.get("/api/v1/nodes/node-2/metrics"); got.status == 200 {
		t.Errorf("node-1 answers for node-2: %s", got.body)
	}
}
