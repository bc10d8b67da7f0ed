package workflow

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestAlertTasks reads rules about tasks. want is the JSON of the rule, or part of the fault.
func TestAlertTasks(t *testing.T) {
	for rule, want := range map[string]string{
		"on: task_failed, tasks: load, to: a":                              `"name":"task_failed","on":["task_failed"],"to":["a"],"severity":"error","tasks":["load"]}`,
		"on: [failed, retrying], tasks: [load, 'mo*'], to: a":              `"tasks":["load","mo*"]}`,
		"on: [poison, lost, quarantined], to: a":                           `"on":["poison","lost","quarantined"]`,
		"on: approval, tasks: 'm?ve', to: a, escalate: {after: 5m, to: b}": `"escalate":`,
		"on: approval, each: true, to: a":                                  `"each":true`,
		"on: recovered, to: a":                                             `"on":["recovered"],"to":["a"],"severity":"info"}`,
		"on: recovered, after: 3, tasks: load, to: a":                      `"after":3,"tasks":["load"]}`,

		"on: failed, tasks: laod, to: a":                     "no task has the name laod",
		"on: failed, tasks: [load, 'x*'], to: a":             "no task has the name x*",
		"on: failed, tasks: [], to: a":                       "alerts[0].tasks is an empty list",
		"on: failed, tasks: '[', to: a":                      "must be the name of a task",
		"on: missed, tasks: load, to: a":                     "selects events of tasks, and missed is none",
		"deadline: {after: 2h}, tasks: load, to: a":          "selects events of tasks, and late is none",
		"on: [approval, failed], to: a":                      "approval needs an alert of its own",
		"on: approval, after: 2, to: a":                      "each approval has an alert of its own",
		"on: approval, group_by: trigger, to: a":             "each approval has an alert of its own",
		"on: [recovered, failed], to: a":                     "recovered needs an alert of its own",
		"on: recovered, each: true, to: a":                   "recovered needs an alert of its own",
		"on: recovered, to: a, escalate: {after: 5m, to: b}": "no incident stays open",
		"on: started, to: a":                                 "alerts on started are not supported yet",
	} {
		ws, errs := Parse([]byte("name: x\nalerts:\n  - {"+rule+"}\ntasks: {load: {run: x}, move: {run: x}}\n"), Options{File: "f.yaml"})
		got := errs.Error()
		if len(errs) == 0 {
			data, err := json.Marshal(ws[0].Alerts[0])
			if err != nil {
				t.Fatal(err)
			}
			got = string(data)
		} else if !strings.Contains(got, "f.yaml:3:") {
			t.Errorf("%s: the fault names no place: %s", rule, got)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s\nwant %s", rule, got, want)
		}
	}
}
