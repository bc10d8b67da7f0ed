package sim

import (
	"strings"
	"sync"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestAlerts gives workflows alert rules. Whatever fails, memory has the same incidents as the rows, each
// transition has its notices, and a rule has at most one open incident.
func TestAlerts(t *testing.T) {
	all := soak(0, 250, nil, Stage{Alerts: true})
	for _, seed := range all.bad {
		t.Errorf("seed %d: %.400s\n\tgo test ./internal/sim -run TestSeed$ -seed %d -alerts -v", seed, all.what[seed], seed)
	}
}

// TestAlertsGoBack does the same as TestAlerts, with a store that goes back to an earlier state.
func TestAlertsGoBack(t *testing.T) {
	all := soak(0, 100, nil, Stage{Alerts: true, Back: true})
	for _, seed := range all.bad {
		t.Errorf("seed %d: %.400s\n\tgo test ./internal/sim -run TestSeed$ -seed %d -alerts -back -v", seed, all.what[seed], seed)
	}
}

// TestAlertsCanFail checks that the simulator finds a lost notice.
func TestAlertsCanFail(t *testing.T) {
	m := &Mutant{Name: "lost-notice", commit: func(v *view, b *store.Batch) (dag.Micros, error) {
		if n := len(b.Notices); n > 0 {
			c := *b
			c.Notices = b.Notices[:n-1]
			return v.write(&c)
		}
		return v.write(b)
	}}
	if all := soak(0, 50, m, Stage{Alerts: true}); len(all.bad) == 0 {
		t.Error("no seed shows that notices are lost")
	}
}

// TestAlertsAreMet checks that incidents of each rule, and escalations, occur in worlds with alerts.
func TestAlertsAreMet(t *testing.T) {
	var mu sync.Mutex
	met := map[string]int{}
	m := &Mutant{Name: "counted", commit: func(v *view, b *store.Batch) (dag.Micros, error) {
		mu.Lock()
		for i := range b.Incidents {
			if n := &b.Incidents[i]; n.State == store.IncidentOpen {
				rule, _, _ := strings.Cut(n.Rule, " [")
				met[rule]++
			}
		}
		for i := range b.Notices {
			met["to "+b.Notices[i].Channel]++
		}
		mu.Unlock()
		return v.write(b)
	}}
	soak(0, 200, m, Stage{Alerts: true})
	for _, name := range []string{"r", "d", "e", "b", "s", "p", "k", "q", "to c", "to d", "to v", "lost node_lost x", "disk disk_low z"} {
		if met[name] == 0 {
			t.Errorf("no incident of %s: %v", name, met)
		}
	}
}
