package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// clusterRules returns rules about lost nodes and full disks.
func clusterRules() *alert.ClusterRules {
	c := &alert.ClusterRules{Rules: []alert.ClusterRule{
		{On: []alert.Event{alert.NodeLost, alert.ShardUnowned}, To: []string{"ops", "mail"}},
		{Name: "disk", On: []alert.Event{alert.DiskLow}, To: []string{"ops"}, Severity: "warning"},
	}}
	if err := c.Check(); err != nil {
		panic(err)
	}
	return c
}

func found(all ...alert.Finding) *alert.Findings { return &alert.Findings{All: all} }

func lostNode(name string, handler int) alert.Finding {
	return alert.Finding{Event: alert.NodeLost, Subject: name, Cause: fmt.Sprintf("handler %d", handler)}
}

func disk(node string, free int64) alert.Finding {
	return alert.Finding{Event: alert.DiskLow, Subject: node, Value: free}
}

// TestClusterIncidents follows the incidents of a cluster: each condition opens one, and its end resolves it.
// A condition that cannot be measured changes nothing.
func TestClusterIncidents(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			st := open(t)
			var failing atomic.Bool
			n := alerted(t, st, &failing)
			see := func(rules *alert.ClusterRules, f *alert.Findings, want string) {
				t.Helper()
				if err := engine.NewIncidents(n.Engine).Observe(t.Context(), rules, f); err != nil {
					t.Fatal(err)
				}
				n.quiet()
				wantIncidents(t, st, want)
			}
			const opened = "open 1" + toldOpened
			const disked, over = "open 1 opened:ops", "resolved 1" + toldOpened + toldResolved
			see(clusterRules(), found(disk("a", 2000)), "")
			see(clusterRules(), found(lostNode("b", 2), disk("a", 2000)), opened)
			see(clusterRules(), found(lostNode("b", 2), disk("a", 2000)), opened)
			n.close()
			n = alerted(t, st, &failing)
			see(clusterRules(), found(lostNode("b", 2), disk("a", 999)), opened+", "+disked)
			see(clusterRules(), &alert.Findings{Unknown: map[alert.Event]bool{alert.NodeLost: true}, Blind: map[string]bool{"a": true}}, opened+", "+disked)
			see(clusterRules(), found(disk("a", 999)), over+", "+disked)
			see(clusterRules(), found(lostNode("b", 2), disk("a", 999)), over+", "+disked) // the same loss is notified only once
			see(clusterRules(), found(lostNode("b", 7), disk("a", 999)), over+", "+disked+", "+opened)
			see(nil, found(), over+", resolved 1 opened:ops resolved:ops, "+over)
		})
	}
}

// TestClusterIncidentsOfPeople: an alert that a person resolves opens again only when its condition has ended in
// between, also after a takeover.
func TestClusterIncidentsOfPeople(t *testing.T) {
	st := openMemory(t)
	var failing atomic.Bool
	n := alerted(t, st, &failing)
	see := func(f *alert.Findings) (open []store.Incident) {
		t.Helper()
		if err := engine.NewIncidents(n.Engine).Observe(t.Context(), clusterRules(), f); err != nil {
			t.Fatal(err)
		}
		open, err := st.Incidents(t.Context(), store.IncidentQuery{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		return open
	}
	low := found(disk("a", 1))
	open := see(low)
	if len(open) != 1 || open[0].Workflow != 0 || open[0].Shard != store.GateShard || open[0].Namespace != store.SystemNamespace {
		t.Fatalf("%+v", open)
	}
	if err := engine.NewIncidents(n.Engine).Change(t.Context(), open[0].ID, engine.IncidentChange{Resolve: true, Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	if got := see(low); len(got) != 0 {
		t.Errorf("it opened again: %+v", got)
	}
	n.close()
	n = alerted(t, st, &failing)
	if got := see(low); len(got) != 0 {
		t.Errorf("it opened again after a takeover: %+v", got)
	}
	see(found(disk("a", 5000)))
	if got := see(low); len(got) != 1 {
		t.Errorf("it did not open again after its condition had ended: %+v", got)
	}
	var many []alert.Finding
	for i := range 200 {
		many = append(many, disk(fmt.Sprintf("n%03d", i), 1))
	}
	if got := see(found(many...)); len(got) != 50 {
		t.Errorf("%d incidents of one rule are open, the limit is 50", len(got))
	}
	n.quiet()
	n.close()
}

// TestClusterIncidentsCrashAtEveryCommit: three nodes observe, one after the other, and each of them dies at every
// commit. Each condition has one incident, with each notice once.
func TestClusterIncidentsCrashAtEveryCommit(t *testing.T) {
	for _, after := range []bool{false, true} {
		atEveryCommit(t, 1, func(k int) bool {
			st := openMemory(t)
			var failing atomic.Bool
			steps := []*alert.Findings{found(lostNode("b", 2), disk("a", 1)), found(lostNode("b", 2), lostNode("c", 3)), found()}
			died := false
			for _, f := range steps {
				m := newMortal(st, k, after)
				n := alerted(t, m, &failing)
				died = observedUntil(t, n, m, f) || died
				n.close()
				last := alerted(t, st, &failing) // the next owner sees the same
				if err := engine.NewIncidents(last.Engine).Observe(t.Context(), clusterRules(), f); err != nil {
					t.Fatal(err)
				}
				last.quiet()
				last.close()
			}
			wantSorted(t, st, []string{"resolved 1 opened:ops resolved:ops", "resolved 1" + toldOpened + toldResolved, "resolved 1" + toldOpened + toldResolved})
			return died
		})
	}
}

// observedUntil observes. It reports whether the process of the store died.
func observedUntil(t *testing.T, n *node, m *mortal, f *alert.Findings) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		select {
		case <-m.died:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := engine.NewIncidents(n.Engine).Observe(ctx, clusterRules(), f)
	return err != nil
}

// wantSorted compares the incidents, in any order.
func wantSorted(t *testing.T, st store.Store, want []string) {
	t.Helper()
	got := strings.Split(incidents(t, st), ", ")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("incidents are %q, want %q", got, want)
	}
}

// TestClusterEscalation: an alert about the cluster escalates, and all channels are notified of its end.
func TestClusterEscalation(t *testing.T) {
	st := openMemory(t)
	var failing atomic.Bool
	n := alerted(t, st, &failing)
	rules := clusterRules()
	rules.Rules[1].Escalate = []alert.Rung{{After: dag.Micros(1), To: []string{"boss"}}}
	all := engine.NewIncidents(n.Engine)
	if err := all.Observe(t.Context(), rules, found(disk("a", 1))); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it climbs", func() bool { return incidents(t, st) == "open 1 opened:ops escalated:boss" })
	n.quiet()
	if err := all.Observe(t.Context(), rules, found()); err != nil {
		t.Fatal(err)
	}
	n.quiet()
	wantIncidents(t, st, "resolved 1 opened:ops escalated:boss resolved:boss resolved:ops")
	n.close()
}

// askedStore counts the reads of last incidents.
type askedStore struct {
	store.Store
	asked atomic.Int32
}

func (s *askedStore) LastIncident(ctx context.Context, wf dag.WorkflowID, rule string) (store.Incident, error) {
	s.asked.Add(1)
	return s.Store.LastIncident(ctx, wf, rule)
}

// TestClusterIncidentsRead: conditions for which there is no room cost the owner no reads, and one observation
// makes few of them, because runs wait meanwhile.
func TestClusterIncidentsRead(t *testing.T) {
	st := &askedStore{Store: openMemory(t)}
	var failing atomic.Bool
	n := alerted(t, st, &failing)
	var many []alert.Finding
	for i := range 300 {
		many = append(many, disk(fmt.Sprintf("n%03d", i), 1), lostNode(fmt.Sprintf("n%03d", i), i+1))
	}
	for i, want := range []int32{100, 0} {
		before := st.asked.Load()
		if err := engine.NewIncidents(n.Engine).Observe(t.Context(), clusterRules(), found(many...)); err != nil {
			t.Fatal(err)
		}
		if got := st.asked.Load() - before; got > want {
			t.Errorf("observation %d read %d rows, want up to %d", i, got, want)
		}
	}
	if open, err := st.Incidents(t.Context(), store.IncidentQuery{Limit: 1000}); err != nil || len(open) != 100 {
		t.Errorf("%d incidents are open, want 50 of each event: %v", len(open), err)
	}
	n.quiet()
	n.close()
}
