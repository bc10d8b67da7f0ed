package alert

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"

	"skein.dev/skein/internal/store"
)

// TestClusterRules: rules are completed, checked and bounded.
func TestClusterRules(t *testing.T) {
	ops := []string{"ops"}
	for name, c := range map[string]struct {
		rules []ClusterRule
		wrong bool
	}{
		"plain":           {[]ClusterRule{{On: []Event{NodeLost, DiskLow}, To: ops}}, false},
		"no event":        {[]ClusterRule{{To: ops}}, true},
		"unknown event":   {[]ClusterRule{{On: []Event{"failed"}, To: ops}}, true},
		"no channel":      {[]ClusterRule{{On: []Event{NodeLost}}}, true},
		"twice":           {[]ClusterRule{{On: []Event{NodeLost}, To: ops}, {On: []Event{NodeLost}, To: ops}}, true},
		"severity":        {[]ClusterRule{{On: []Event{NodeLost}, To: ops, Severity: "loud"}}, true},
		"limit":           {[]ClusterRule{{On: []Event{DiskLow}, To: ops, Limit: 500}}, false},
		"limit of two":    {[]ClusterRule{{On: []Event{DiskLow, QueueOld}, To: ops, Limit: 500}}, true},
		"limit of none":   {[]ClusterRule{{On: []Event{NodeLost}, To: ops, Limit: 500}}, true},
		"steps go back":   {[]ClusterRule{{On: []Event{NodeLost}, To: ops, Escalate: []Rung{{After: 5, To: ops}, {After: 5, To: ops}}}}, true},
		"a name of words": {[]ClusterRule{{Name: "a b", On: []Event{NodeLost}, To: ops}}, true},
		"too many":        {make([]ClusterRule, 21), true},
	} {
		rules := &ClusterRules{Rules: c.rules}
		err := rules.Check()
		if (err != nil) != c.wrong {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (rules.Rules[0].Name == "" || rules.Rules[0].Severity != "error") {
			t.Errorf("%s: the rule is not complete: %+v", name, rules.Rules)
		}
	}
}

// TestClusterStanding checks that the limit of a rule decides whether a condition is true, for events below
// and above their limit. Near the limit, an open incident stays open.
func TestClusterStanding(t *testing.T) {
	rules := &ClusterRules{Rules: []ClusterRule{{Name: "all", To: []string{"ops"}}, {Name: "tight", On: []Event{QueueOld}, To: []string{"ops"}, Limit: 5 * second}}}
	for e := range clusterEvents {
		rules.Rules[0].On = append(rules.Rules[0].On, e)
	}
	stands := func(f Finding) string {
		var keys []string
		all, stays := rules.Standing(&Findings{All: []Finding{f}})
		for _, s := range all {
			keys = append(keys, s.Rule.Name)
		}
		if len(stays) > 0 {
			keys = append(keys, "stays")
		}
		return strings.Join(keys, " ")
	}
	for _, c := range []struct {
		f    Finding
		want string
	}{
		{Finding{Event: NodeLost, Subject: "b"}, "all"},
		{Finding{Event: DiskLow, Value: 1000}, "stays"},
		{Finding{Event: DiskLow, Value: 999}, "all"},
		{Finding{Event: CertificateEnds, Value: 14 * day}, "stays"},
		{Finding{Event: CertificateEnds, Value: -1}, "all"},
		{Finding{Event: ClockSkew, Value: second - 1}, "stays"},
		{Finding{Event: ClockSkew, Value: second}, "all"},
		{Finding{Event: QueueOld, Value: 6 * second}, "tight"},
		{Finding{Event: QueueOld, Value: 20 * minute}, "all tight"},
		{Finding{Event: ShardUnowned, Value: second, Ages: true}, "stays"},
		{Finding{Event: ShardUnowned, Value: 30 * second, Ages: true}, "all"},
	} {
		if got := stands(c.f); got != c.want {
			t.Errorf("%s %d: %q, want %q", c.f.Event, c.f.Value, got, c.want)
		}
	}
	if (*ClusterRules)(nil).Named("all") != nil {
		t.Error("no rules have a rule")
	}
}

// TestClusterTexts: each event has a text, and a silence finds the rule by its name.
func TestClusterTexts(t *testing.T) {
	for e := range clusterEvents {
		r := ClusterRule{Name: "r", To: []string{"ops"}, Severity: "error", On: []Event{e}}
		c := (&ClusterIncident{Key: keyOf("r", e, "n1"), Rule: &r, Finding: &Finding{Event: e, Subject: "n1", Message: "why"}}).Opens(uuid.UUID{1}, 5)
		if clusterTexts[e] == "" || len(c.Notices) != 1 || !strings.HasPrefix(textOf(t, &c), "cluster: ") || !strings.HasSuffix(textOf(t, &c), ": why") {
			t.Errorf("%s: %s", e, textOf(t, &c))
		}
		end := Close(c.Incident, Word{Reason: "it is over", At: 9})
		if got := textOf(t, &end); !strings.HasPrefix(got, "cluster: ") || !strings.HasSuffix(got, " is resolved: it is over") {
			t.Errorf("the end of %s: %s", e, got)
		}
		silent := c
		if silent.Silence([]store.Silence{{Namespace: store.SystemNamespace, Rule: "r", Until: 100}}, 6); len(silent.Notices) != 0 {
			t.Errorf("%s is told in a silence", e)
		}
	}
}

func textOf(t *testing.T, c *Change) string {
	t.Helper()
	if len(c.Notices) == 0 {
		return ""
	}
	var n Notice
	if err := json.Unmarshal(c.Notices[0].Data, &n); err != nil {
		t.Fatal(err)
	}
	return n.Text
}
