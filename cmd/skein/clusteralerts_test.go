//go:build linux

package main

import (
	"slices"
	"testing"
	"time"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestLostNodeIsToldOnce: the node that judges the cluster is killed. The next judge opens one alert about its
// death, and the alert ends when the node is back.
func TestLostNodeIsToldOnce(t *testing.T) {
	f := newFlight(t, 3)
	f.listed(3)
	one := f.members[0]
	alerts := skein.NewAlerts(one.client)
	if _, err := alerts.SetChannel(t.Context(), "system", "ops", map[string]any{"log": map[string]any{}}); err != nil {
		t.Fatal(err)
	}
	rules := api.ClusterAlertsRequest{Rules: []api.ClusterAlert{{Name: "lost", On: []string{"node_lost"}, To: []string{"ops"}, Severity: "critical"}}}
	if _, err := alerts.SetCluster(t.Context(), rules); err != nil {
		t.Fatal(err)
	}
	judge := -1
	one.home.until("the first shard has an owner", func() bool {
		nodes, err := one.client.Nodes(t.Context())
		if err != nil {
			return false
		}
		for _, n := range nodes.Items {
			if slices.Contains(n.Shards.List, 0) {
				judge = slices.IndexFunc(f.members, func(m *member) bool { return m.name == n.Name })
			}
		}
		return judge >= 0
	})
	dead, alive := f.members[judge], f.members[(judge+1)%3]
	all := func() (found []api.Alert) {
		time.Sleep(100 * time.Millisecond) // leaves the processor to the nodes
		page, err := skein.NewAlerts(alive.client).List(t.Context(), skein.AlertFilter{Namespace: "system", All: true}, "", 100)
		if err != nil {
			return nil // the shard has no owner now
		}
		return page.Items
	}
	dead.kill()
	alive.home.until("the death is told", func() bool { return len(all()) > 0 })
	is := all()
	if len(is) != 1 || is[0].State != "open" || is[0].Workflow != "" || is[0].Subject == nil || *is[0].Subject != dead.name || is[0].Rule != "lost" || is[0].Severity != "critical" {
		t.Fatalf("the alerts are %+v", is)
	}
	dead.start()
	alive.home.until("the node is back", func() bool { now := all(); return len(now) > 0 && now[0].State == "resolved" })
	if is = all(); len(is) != 1 {
		t.Errorf("one death has %d alerts: %+v", len(is), is)
	}
	got, err := skein.NewAlerts(alive.client).Get(t.Context(), is[0].ID)
	if err != nil || len(got.Notices) != 2 {
		t.Errorf("its messages are %+v, want one of its beginning and one of its end: %v", got.Notices, err)
	}
}
