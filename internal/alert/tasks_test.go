package alert_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
)

// taskEvent returns an event about a task of a run.
func taskEvent(i int, e alert.Event, run, task string) alert.Happening {
	h := happening(i, 'F')
	h.Event, h.Run, h.Task = e, run, task
	return h
}

// TestTaskEvents: the tasks of one run count once. The key tasks selects tasks, also those because of which a
// run failed.
func TestTaskEvents(t *testing.T) {
	failed := func(names ...string) alert.Happening {
		h := happening(0, 'F')
		h.Failures = func(match func(string) bool) bool {
			for _, name := range names {
				if match(name) {
					return true
				}
			}
			return false
		}
		return h
	}
	buried := happening(0, 'F')
	buried.Cause, buried.Message = string(dag.CauseTask), "task load[7] failed: exit code 1"
	success := happening(9, 'S')
	for name, c := range map[string]struct {
		rule   alert.Rule
		events []alert.Happening
		want   string
	}{
		"of one run": {alert.Rule{On: on(alert.TaskFailed)}, []alert.Happening{taskEvent(0, alert.TaskFailed, "x", "a"), taskEvent(1, alert.TaskFailed, "x", "b"),
			taskEvent(2, alert.TaskFailed, "y", "a"), success}, "open 1 opened, open 1, open 2, - resolved"},
		"and the run": {alert.Rule{On: on(alert.TaskFailed, alert.Failed)}, []alert.Happening{taskEvent(0, alert.TaskFailed, "run-0", "a"), failed("a"), success},
			"open 1 opened, open 1, - resolved"},
		"after 2": {alert.Rule{On: on(alert.Retrying), After: 2}, []alert.Happening{taskEvent(0, alert.Retrying, "x", "a"), taskEvent(1, alert.Retrying, "x", "a"),
			taskEvent(2, alert.Retrying, "y", "a")}, "counting 1, counting 1, open 2 opened"},
		"in turn": {alert.Rule{On: on(alert.TaskFailed), After: 3}, []alert.Happening{taskEvent(0, alert.TaskFailed, "x", "a"), taskEvent(1, alert.TaskFailed, "y", "a"),
			taskEvent(2, alert.TaskFailed, "x", "b"), taskEvent(3, alert.TaskFailed, "z", "a"), taskEvent(4, alert.TaskFailed, "y", "b")}, "counting 1, counting 2, counting 2, open 3 opened, open 3"},
		"in turn, and the run": {alert.Rule{On: on(alert.TaskFailed, alert.Failed)}, []alert.Happening{taskEvent(0, alert.TaskFailed, "run-0", "a"),
			taskEvent(1, alert.TaskFailed, "y", "a"), failed("a"), taskEvent(3, alert.TaskFailed, "y", "b")}, "open 1 opened, open 2, open 2, open 2"},
		"each": {alert.Rule{On: on(alert.Lost), Each: true}, []alert.Happening{taskEvent(0, alert.Lost, "x", "a"), taskEvent(1, alert.Lost, "x", "a")}, "- event, - event"},
		"selected": {alert.Rule{On: on(alert.TaskFailed), Tasks: []string{"lo*"}}, []alert.Happening{taskEvent(0, alert.TaskFailed, "x", "a"),
			taskEvent(1, alert.TaskFailed, "y", "load[3]")}, "-, open 1 opened"},
		"selected runs": {alert.Rule{On: on(alert.Failed), Tasks: []string{"load"}}, []alert.Happening{failed("a", "b"), failed("a", "load[3]")}, "-, open 1 opened"},
		"without rows":  {alert.Rule{On: on(alert.Failed), Tasks: []string{"load"}}, []alert.Happening{buried}, "open 1 opened"},
	} {
		t.Run(name, func(t *testing.T) {
			c.rule.Name, c.rule.To, c.rule.Severity = "r", []string{"ops"}, "error"
			var is *alert.Incident
			var got []string
			for i := range c.events {
				got = append(got, check(t, &is, alert.Step(&c.rule, is, &c.events[i]), c.events[i].At))
			}
			if all := strings.Join(got, ", "); all != c.want {
				t.Errorf("got  %s\nwant %s", all, c.want)
			}
		})
	}
}

// TestRecovered: a rule about recoveries says nothing until a run succeeds after failures.
func TestRecovered(t *testing.T) {
	r := alert.Rule{Name: "r", On: on(alert.Recovered), To: []string{"ops"}, Severity: "info"}
	play := func(events, want string) {
		t.Helper()
		var is *alert.Incident
		var got []string
		for i, e := range events {
			h := happening(i, e)
			got = append(got, check(t, &is, alert.Step(&r, is, &h), h.At))
		}
		if all := strings.Join(got, ", "); all != want {
			t.Errorf("%s: got  %s\nwant %s", events, all, want)
		}
	}
	play("SFSS", "-, counting 1, - event, -")
	play("FRTMS", "counting 1, counting 1, counting 1, counting 2, - event")
	r.After = 2
	play("FSFFS", "counting 1, -, counting 1, counting 2, - event")
	h, s := happening(0, 'F'), happening(1, 'S')
	r.After = 0
	c := alert.Step(&r, nil, &h)
	if c.Incident.Detail.Count++; !strings.Contains(string(alert.Step(&r, c.Incident, &s).Notices[0].Data), "shop/orders: run run-1 succeeded again (after 2 failures)") {
		t.Errorf("said %s", alert.Step(&r, c.Incident, &s).Notices[0].Data)
	}
}

// TestApprovals: each approval has an incident, which ends with the approval or the run, and not with the
// success of another run.
func TestApprovals(t *testing.T) {
	r := alert.Rule{Name: "r", On: on(alert.Approval), To: []string{"ops"}, Escalate: []alert.Rung{{After: 9, To: []string{"lead"}}}}
	open := map[string]*alert.Incident{}
	var run = func(i int, h alert.Happening, want string) {
		t.Helper()
		h.ID = uuid.UUID{byte(i), 1}
		if got := steps(&r, open, &h); got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
	run(1, taskEvent(1, alert.Approval, "x", "ok"), "r [task ok, run x] open 1 told")
	run(2, taskEvent(2, alert.Approval, "x", "go"), "r [task go, run x] open 1 told")
	run(3, taskEvent(3, alert.Approval, "y", "ok"), "r [task ok, run y] open 1 told")
	run(4, happening(4, 'S'), "")
	if is := open["r [task ok, run x]"]; !r.Has(is) || is.RuleName() != "r" || is.Climbs() != 11 {
		t.Errorf("%+v", is)
	}
	if other := (alert.Rule{Name: "r", On: on(alert.Failed)}); other.Has(open["r [task ok, run x]"]) {
		t.Error("a rule about failures has the incident of an approval")
	}
	run(5, taskEvent(5, alert.Decided, "x", "ok"), "r [task ok, run x] resolved 1 told")
	run(6, taskEvent(6, alert.Decided, "x", "ok"), "")
	over := happening(7, 'S')
	over.Run, over.Over = "x", true
	run(7, over, "r [task go, run x] resolved 1 told")
	r.Tasks = []string{"ok"}
	run(8, taskEvent(8, alert.Approval, "z", "go"), "")
	r.Tasks, r.Each = nil, true
	run(9, taskEvent(9, alert.Approval, "z", "go"), "r [task go, run z] resolved 1 told")
	r.Each = false
	for i := range 1010 {
		h := taskEvent(i, alert.Approval, fmt.Sprint("many", i), "ok")
		steps(&r, open, &h)
	}
	if len(open) != 1000 {
		t.Errorf("%d approvals are open", len(open))
	}
}

// TestTaskTexts checks the texts about events of tasks.
func TestTaskTexts(t *testing.T) {
	r := alert.Rule{Name: "r", On: on(alert.TaskFailed, alert.Retrying, alert.Lost, alert.Poison, alert.Quarantined), To: []string{"ops"}, Each: true}
	for want, h := range map[string]alert.Happening{
		"shop/orders: task load of run x failed: exit code 1":                              {Event: alert.TaskFailed, Task: "load", Message: "exit code 1"},
		"shop/orders: task load of run x failed and is tried again: exit code 1":           {Event: alert.Retrying, Task: "load", Message: "exit code 1"},
		"shop/orders: task load of run x lost its worker: w1 is gone":                      {Event: alert.Lost, Task: "load", Message: "w1 is gone"},
		"shop/orders: task load of run x failed because it lost its worker too often: 6th": {Event: alert.Poison, Task: "load", Message: "6th"},
		"shop/orders: the split of run x failed because it lost its worker too often: 6th": {Event: alert.Poison, Message: "6th"},
		"shop/orders: run x was quarantined: a row is damaged":                             {Event: alert.Quarantined, Message: "a row is damaged"},
	} {
		h.Of, h.Run = alert.Subject{Namespace: "shop", Name: "orders"}, "x"
		var body alert.Notice
		if err := json.Unmarshal(alert.Step(&r, nil, &h).Notices[0].Data, &body); err != nil || body.Text != want {
			t.Errorf("%q, %v, want %q", body.Text, err, want)
		}
	}
}
