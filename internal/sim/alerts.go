package sim

import (
	"context"
	"strings"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/store"
)

// alertRules returns the alert rules of every workflow in a world with alerts. The rules named in timedRules
// are about unfinished runs, and so is the rule about approvals. When every run has ended, none of their
// incidents may be open.
func alertRules() []alert.Rule {
	late, slow, to := []alert.Event{alert.Late}, []alert.Event{alert.Slow}, []string{"a", "b"}
	return []alert.Rule{
		{Name: "r", On: []alert.Event{alert.Failed, alert.Missed, alert.Stopped, alert.Skipped}, To: to,
			Escalate: []alert.Rung{{After: 300_000, To: []string{"b", "c"}}, {After: 900_000, To: []string{"d"}}}},
		{Name: "d", On: late, To: to, Deadline: &alert.Deadline{After: 2_000_000}},
		{Name: "e", On: late, To: to, Deadline: &alert.Deadline{After: 500_000, For: alert.ForEnd}},
		{Name: "b", On: late, To: to, Deadline: &alert.Deadline{After: 50_000, For: alert.ForStart, From: alert.FromQueued}},
		{Name: "s", On: slow, To: to, Than: &alert.Than{Fixed: 300_000}},
		{Name: "k", On: []alert.Event{alert.TaskFailed, alert.Retrying, alert.Lost, alert.Poison, alert.Quarantined}, To: to},
		{Name: "v", On: []alert.Event{alert.Recovered}, To: []string{"v"}},
		{Name: "q", On: []alert.Event{alert.Approval}, To: to},
		{Name: "p", On: slow, To: to, Than: &alert.Than{Times: 1.5, Percentile: 95}},
	}
}

var timedRules = map[string]bool{"e": true, "b": true, "s": true, "p": true}

// alerts checks the incidents after everything has ended.
func (v *witness) alerts(ctx context.Context) {
	for q := (store.IncidentQuery{Counting: true, Limit: 1000}); ; {
		page, err := v.w.st.Incidents(ctx, q)
		must(err)
		for i := range page {
			if n := &page[i]; timedRules[n.Rule] || strings.HasPrefix(n.Rule, "q ") {
				v.w.violate("late", "every run has ended, and incident %s of rule %s is %s", n.ID, n.Rule, n.State)
			}
		}
		if len(page) < q.Limit {
			return
		}
		last := &page[len(page)-1]
		q.Before, q.BeforeID = last.Created, last.ID
	}
}
