package alert_test

import (
	"testing"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
)

// TestRuleOfTags: a rule with tags is about runs that have all of them. A success of another run resolves
// nothing.
func TestRuleOfTags(t *testing.T) {
	rule := alert.Rule{Name: "r", On: on(alert.Failed), To: []string{"ops"}, Tags: []alert.Tag{{Key: "team", Value: "data"}, {Key: "tier", Value: "1"}}}
	var is *alert.Incident
	for i, c := range []struct {
		event rune
		tags  dag.Tags
		want  string
	}{
		{'F', "", "-"}, {'F', "team=data", "-"}, {'F', "team=data\ntier=2", "-"}, {'F', "a=b\nteam=data\ntier=1", "open 1 opened"},
		{'S', "", "open 1"}, {'F', "team=ops\ntier=1", "open 1"}, {'S', "team=data\ntier=1", "- resolved"},
	} {
		h := happening(i, c.event)
		h.Tags = c.tags
		if got := check(t, &is, alert.Step(&rule, is, &h), h.At); got != c.want {
			t.Errorf("%d: %s, want %s", i, got, c.want)
		}
	}
}
