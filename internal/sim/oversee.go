package sim

import (
	"context"
	"fmt"
	"time"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

const (
	// overseeEach is the interval between two observations by a node.
	overseeEach = 350 * time.Millisecond
	// conditionFor is how long a condition of a simulated cluster lasts.
	conditionFor = 900 * time.Millisecond
)

// clusterRules returns the rules about the cluster in a world with alerts.
func clusterRules() *alert.ClusterRules {
	return &alert.ClusterRules{Rules: []alert.ClusterRule{
		{Name: "lost", On: []alert.Event{alert.NodeLost}, To: []string{"a", "b"}, Escalate: []alert.Rung{{After: 300_000, To: []string{"c"}}}},
		{Name: "disk", On: []alert.Event{alert.DiskLow}, To: []string{"a"}},
	}}
}

// conditions returns what every node would measure now. The cause of a loss differs from that of the next
// loss.
func conditions(w *World) *alert.Findings {
	slot, f := int64(w.now)/int64(conditionFor), &alert.Findings{}
	for i, node := range []string{"x", "y"} {
		if (slot+int64(i))%3 == 0 {
			f.All = append(f.All, alert.Finding{Event: alert.NodeLost, Subject: node, Cause: fmt.Sprint(slot)})
		}
	}
	f.All = append(f.All, alert.Finding{Event: alert.DiskLow, Subject: "z", Value: slot % 2 * 5000})
	return f
}

// oversee makes the owner of the first shard observe the cluster while clients are active.
func oversee(w *World, l *life) {
	if !w.stage.Alerts {
		return
	}
	w.spawn(l, "oversee", func() {
		for !l.dead && l.ctx.Err() == nil && int64(w.now) < int64(w.swarm.active) {
			if l.eng != nil && l.eng.Owns(store.GateShard) {
				// If it fails, the next observation tries again.
				_ = engine.NewIncidents(l.eng).Observe(l.ctx, clusterRules(), conditions(w))
			}
			l.Await(l.ctx, nil, overseeEach)
		}
	})
}

// oneEach checks that each loss of a node has at most one incident, whichever node observed the loss.
func (v *witness) oneEach(ctx context.Context) {
	seen := map[string]store.Incident{}
	for q := (store.IncidentQuery{Over: true, Limit: 1000}); ; {
		page, err := v.w.st.Incidents(ctx, q)
		must(err)
		for i := range page {
			n, err := alert.Read(page[i])
			must(err)
			if n.Detail.Of != "lost" {
				continue
			}
			key := n.Rule + " " + n.Detail.First.Cause
			if other, twice := seen[key]; twice {
				v.w.violate("told twice", "incidents %s and %s are about one loss", other.ID, n.ID)
			}
			seen[key] = page[i]
		}
		if len(page) < q.Limit {
			return
		}
		q.Before, q.BeforeID = page[len(page)-1].Created, page[len(page)-1].ID
	}
}
