package alert_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestStep plays events on one rule. An event is a letter: F failed, S succeeded, T stopped, K skipped, M
// missed, O orphan; f and s are the same events of backfills, and R is a recovered run that fails again. For
// each event the table has the state and the count of the incident that has not ended ("-" if there is none),
// and the kinds of notices.
func TestStep(t *testing.T) {
	for name, c := range map[string]struct {
		rule   alert.Rule
		events string
		want   string
	}{
		"failure, success":       {alert.Rule{On: on(alert.Failed)}, "FS", "open 1 opened, - resolved"},
		"failures in a row":      {alert.Rule{On: on(alert.Failed)}, "FFFS", "open 1 opened, open 2, open 3, - resolved"},
		"a new episode":          {alert.Rule{On: on(alert.Failed)}, "FSF", "open 1 opened, - resolved, open 1 opened"},
		"success alone":          {alert.Rule{On: on(alert.Failed)}, "SS", "-, -"},
		"recovered, fails again": {alert.Rule{On: on(alert.Failed)}, "FRF", "open 1 opened, open 1, open 2"},
		"not watched":            {alert.Rule{On: on(alert.Failed)}, "TKMF", "-, -, -, open 1 opened"},
		"others in between":      {alert.Rule{On: on(alert.Failed)}, "FTMS", "open 1 opened, open 1, open 1, - resolved"},
		"several events":         {alert.Rule{On: on(alert.Failed, alert.Missed, alert.Stopped, alert.Skipped)}, "FMTKS", "open 1 opened, open 2, open 3, open 4, - resolved"},
		"after 3":                {alert.Rule{On: on(alert.Failed), After: 3}, "FFFFS", "counting 1, counting 2, open 3 opened, open 4, - resolved"},
		"after 3, passed":        {alert.Rule{On: on(alert.Failed), After: 3}, "FFSFF", "counting 1, counting 2, -, counting 1, counting 2"},
		"after 2, recovered":     {alert.Rule{On: on(alert.Failed), After: 2}, "FRF", "counting 1, counting 1, open 2 opened"},
		"each":                   {alert.Rule{On: on(alert.Failed), Each: true}, "FFSF", "- event, - event, -, - event"},
		"success":                {alert.Rule{On: on(alert.Succeeded)}, "SFS", "- event, -, - event"},
		"failure and success":    {alert.Rule{On: on(alert.Failed, alert.Succeeded)}, "SFSS", "- event, open 1 opened, - resolved, - event"},
		"each of both":           {alert.Rule{On: on(alert.Failed, alert.Succeeded), Each: true}, "FS", "- event, - event"},
		"no success resolves":    {alert.Rule{On: on(alert.Orphan, alert.Failed)}, "OSFS", "open 1 opened, open 1, open 2, open 2"},
		"no backfills":           {alert.Rule{On: on(alert.Failed)}, "fFs", "-, open 1 opened, open 1"},
		"only backfills":         {alert.Rule{On: on(alert.Failed), Origin: []string{"backfill"}}, "FfSs", "-, open 1 opened, open 1, - resolved"},
	} {
		t.Run(name, func(t *testing.T) {
			c.rule.Name, c.rule.To, c.rule.Severity = "r", []string{"ops"}, "error"
			var is *alert.Incident
			var got []string
			for i, e := range c.events {
				h := happening(i, e)
				before, _ := json.Marshal(is)
				change := alert.Step(&c.rule, is, &h)
				if after, _ := json.Marshal(is); string(after) != string(before) {
					t.Fatalf("event %d changed the incident that it was given", i)
				}
				got = append(got, check(t, &is, change, h.At))
			}
			if all := strings.Join(got, ", "); all != c.want {
				t.Errorf("got  %s\nwant %s", all, c.want)
			}
		})
	}
}

func on(events ...alert.Event) []alert.Event { return events }

func happening(i int, e rune) alert.Happening {
	h := alert.Happening{Run: fmt.Sprint("run-", i), Origin: dag.OriginManual, At: dag.Micros(i + 1), ID: uuid.UUID{byte(i + 1)},
		Of: alert.Subject{Shard: 3, Workflow: 5, Namespace: "shop", Name: "orders"}}
	switch e {
	case 'f', 's':
		h.Origin = dag.OriginBackfill
	case 'R':
		h.Run = fmt.Sprint("run-", i-1)
	case 'M':
		h.Run, h.Trigger = "", "nightly"
	}
	h.Event = map[rune]alert.Event{'F': alert.Failed, 'R': alert.Failed, 'f': alert.Failed, 'S': alert.Succeeded, 's': alert.Succeeded,
		'T': alert.Stopped, 'K': alert.Skipped, 'M': alert.Missed, 'O': alert.Orphan}[e]
	h.Success = h.Event == alert.Succeeded
	return h
}

// check applies a change, as a store does, and describes it.
func check(t *testing.T, is **alert.Incident, c alert.Change, at dag.Micros) string {
	t.Helper()
	said := ""
	if n := c.Incident; n != nil {
		if *is != nil && n.ID == (*is).ID && n.Revision != (*is).Revision+1 || (*is == nil || n.ID != (*is).ID) && n.Revision != 1 {
			t.Errorf("revision %d", n.Revision)
		}
		if n.Shard != 3 || n.Workflow != 5 || n.Namespace != "shop" || n.Modified != at || (n.Ended != 0) != store.IncidentOver(n.State) {
			t.Errorf("incident %+v", n.Incident)
		}
		again, err := alert.Read(n.Incident)
		if err != nil || again.Detail.Count != n.Detail.Count {
			t.Errorf("read again: %+v, %v", again, err)
		}
		if *is = again; n.Ended != 0 {
			*is = nil
		}
	}
	for i := range c.Notices {
		var body alert.Notice
		if err := json.Unmarshal(c.Notices[i].Data, &body); err != nil {
			t.Fatal(err)
		}
		n := &c.Notices[i]
		if n.Seq != c.Incident.Detail.Seq || n.Seq != body.Seq || n.Channel != "ops" || n.State != store.NoticePending || n.Due != at || n.Shard != 3 || n.Workflow != 5 {
			t.Errorf("notice %+v of %+v", n, c.Incident.Detail)
		}
		said += " " + body.Kind
	}
	if *is == nil {
		return "-" + said
	}
	return fmt.Sprintf("%s %d%s", (*is).State, (*is).Detail.Count, said)
}

// TestPeople checks that people can acknowledge and resolve incidents.
func TestPeople(t *testing.T) {
	r := alert.Rule{Name: "r", On: on(alert.Failed), To: []string{"ops", "mail", "ops"}}
	h := happening(0, 'F')
	opened := alert.Step(&r, nil, &h)
	if len(opened.Notices) != 2 {
		t.Errorf("%d notices for two channels", len(opened.Notices))
	}
	acked := alert.Acknowledge(opened.Incident, alert.Word{By: "ann", At: 2})
	if acked.Incident.State != store.IncidentAcknowledged || len(acked.Notices) != 0 || acked.Incident.Detail.Acknowledged.By != "ann" {
		t.Errorf("acknowledged %+v", acked)
	}
	h = happening(2, 'F')
	more := alert.Step(&r, acked.Incident, &h)
	if more.Incident.State != store.IncidentAcknowledged || len(more.Notices) != 0 {
		t.Errorf("failed again %+v", more)
	}
	over := alert.Close(more.Incident, alert.Word{By: "ann", At: 4})
	if over.Incident.State != store.IncidentResolved || len(over.Notices) != 2 || over.Notices[0].Seq != 2 || over.Incident.Ended != 4 {
		t.Errorf("resolved %+v", over)
	}
	if !strings.Contains(string(over.Notices[0].Data), "shop/orders is resolved by ann") {
		t.Errorf("said %s", over.Notices[0].Data)
	}
}

// TestTexts checks the texts about events.
func TestTexts(t *testing.T) {
	r := alert.Rule{Name: "r", On: on(alert.Failed, alert.Missed, alert.Stopped, alert.Skipped, alert.Succeeded), To: []string{"ops"}, Each: true}
	for want, h := range map[string]alert.Happening{
		"shop/orders: run x failed: exit 1":                           {Event: alert.Failed, Run: "x", Message: "exit 1"},
		"shop/orders: run x was stopped":                              {Event: alert.Stopped, Run: "x"},
		"shop/orders: run x was skipped":                              {Event: alert.Skipped, Run: "x"},
		"shop/orders: run x succeeded":                                {Event: alert.Succeeded, Run: "x", Success: true},
		"shop/orders: trigger n missed an instant: nothing ran":       {Event: alert.Missed, Trigger: "n", Message: "nothing ran"},
		"shop/orders: trigger n missed 9 instants: nothing ran":       {Event: alert.Missed, Trigger: "n", Message: "nothing ran", Instants: 9},
		"shop/orders: run x of trigger n began too late: not by then": {Event: alert.Missed, Run: "x", Trigger: "n", Message: "not by then"},
	} {
		h.Of = alert.Subject{Namespace: "shop", Name: "orders"}
		var body alert.Notice
		if err := json.Unmarshal(alert.Step(&r, nil, &h).Notices[0].Data, &body); err != nil || body.Text != want {
			t.Errorf("%q, %v, want %q", body.Text, err, want)
		}
	}
}
