package alert_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
)

// steps applies an event to a rule with groups as an owner does. It returns the changed incidents in the form
// "ROW STATE COUNT", with "told" after it if channels are notified.
func steps(r *alert.Rule, open map[string]*alert.Incident, h *alert.Happening) string {
	var all []string
	for _, c := range alert.Steps(r, open, h) {
		n := c.Incident
		text := fmt.Sprintf("%s %s %d", n.Rule, n.State, n.Detail.Count)
		if len(c.Notices) > 0 {
			text += " told"
		}
		all = append(all, text)
		if open[n.Rule] = n; n.Ended != 0 {
			delete(open, n.Rule)
		}
	}
	return strings.Join(all, "; ")
}

// TestGroups: each group has an incident. A success resolves those with its tag and its trigger, whatever
// their cause was.
func TestGroups(t *testing.T) {
	r := alert.Rule{Name: "r", On: on(alert.Failed), To: []string{"ops"}, GroupBy: []string{"cause", "tag:team"}}
	open := map[string]*alert.Incident{}
	for i, c := range []struct {
		event rune
		tags  dag.Tags
		cause string
		want  string
	}{
		{'F', "team=a", "timeout", "r [cause=timeout, team=a] open 1 told"},
		{'F', "team=a", "task", "r [cause=task load, team=a] open 1 told"},
		{'F', "team=b", "task", "r [cause=task load, team=b] open 1 told"},
		{'F', "team=a", "task", "r [cause=task load, team=a] open 2"},
		{'F', "", "task", "r [cause=task load, team=] open 1 told"},
		{'T', "team=a", "task", ""},
		{'S', "team=a", "", "r [cause=task load, team=a] resolved 2 told; r [cause=timeout, team=a] resolved 1 told"},
		{'S', "team=a", "", ""},
		{'F', "team=a", "task", "r [cause=task load, team=a] open 1 told"},
		{'S', "", "", "r [cause=task load, team=] resolved 1 told"},
	} {
		h := happening(i, c.event)
		h.Tags, h.Cause = c.tags, c.cause
		if c.cause == "task" {
			h.Cause = string(dag.CauseTask)
			h.Message = fmt.Sprintf("task load[%d] failed: exit code 1", i)
		}
		if got := steps(&r, open, &h); got != c.want {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
	}
	is := open["r [cause=task load, team=b]"]
	if is == nil || !r.Has(is) || is.RuleName() != "r" || is.Detail.Last.Subject != "cause=task load, team=b" {
		t.Errorf("%+v", is)
	}
	r.GroupBy = []string{"cause"}
	if r.Has(is) {
		t.Error("a rule with other groups still has the incident")
	}
}

// TestManyGroups: the groups beyond the bound share one incident, and each event counts once.
func TestManyGroups(t *testing.T) {
	r := alert.Rule{Name: "r", On: on(alert.Failed), To: []string{"ops"}, GroupBy: []string{"tag:order"}}
	open := map[string]*alert.Incident{}
	told, events := 0, 10_000
	for i := range events {
		h := happening(i, 'F')
		h.ID, h.Tags = uuid.UUID{byte(i), byte(i >> 8), 1}, dag.Tags(fmt.Sprintf("order=%d", i%200))
		if strings.HasSuffix(steps(&r, open, &h), "told") {
			told++
		}
	}
	var counts []int64
	sum := int64(0)
	for _, is := range open {
		counts = append(counts, is.Detail.Count)
		sum += is.Detail.Count
	}
	slices.Sort(counts)
	if len(open) != 51 || told != 51 || sum != int64(events) || counts[0] != 50 || counts[50] != 7500 {
		t.Errorf("%d incidents, %d told of %d events: %v", len(open), told, sum, counts)
	}
	h := happening(events, 'S')
	h.Tags = "order=7"
	if got := steps(&r, open, &h); got != "r [further groups] resolved 7500 told; r [order=7] resolved 50 told" {
		t.Error(got)
	}
}
