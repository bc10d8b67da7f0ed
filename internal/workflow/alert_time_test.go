package workflow

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestAlertTimes reads rules about the time of runs. want is the JSON of the rule, or part of the fault.
func TestAlertTimes(t *testing.T) {
	for rule, want := range map[string]string{
		"deadline: {after: 2h}, to: a":                                               `"on":["late"],"to":["a"],"severity":"error","deadline":{"after":7200000000}}`,
		"on: late, deadline: {after: 2h, from: started, for: end}, to: a":            `"deadline":{"after":7200000000,"from":"started","for":"end"}}`,
		`deadline: {by: "07:30", timezone: Europe/Berlin}, to: a`:                    `"deadline":{"by":"07:30","timezone":"Europe/Berlin"}}`,
		"on: slow, than: 45m, to: a":                                                 `"name":"slow","on":["slow"],"to":["a"],"severity":"error","than":{"fixed":2700000000}}`,
		"on: slow, than: 1.5x p95, to: a":                                            `"than":{"times":1.5,"percentile":95}}`,
		"on: failed, to: a, escalate: {after: 30m, to: b}":                           `"escalate":[{"after":1800000000,"to":["b"]}]}`,
		"on: failed, to: a, escalate: [{after: 1m, to: b}, {after: 2m, to: [c, d]}]": `"escalate":[{"after":60000000,"to":["b"]},{"after":120000000,"to":["c","d"]}]}`,

		"on: late, to: a": "an alert on the event late needs the key deadline",
		"on: slow, to: a": "an alert on the event slow needs the key than, which says how long a run may take",
		"on: [late, failed], deadline: {after: 2h}, to: a":                      "is only for the event late",
		"on: [slow, failed], than: 5m, to: a":                                   "is only for the event slow",
		"than: 5m, to: a":                                                       `"name":"slow","on":["slow"]`,
		"on: slow, than: 2x p42, to: a":                                         "must be a duration such as 45m, or a multiple such as 2x p95",
		"deadline: {after: 2h}, than: 5m, to: a":                                "write two alerts",
		"deadline: {}, to: a":                                                   "either the key after or the key by",
		`deadline: {after: 2h, by: "07:30"}, to: a`:                             "either the key after or the key by",
		`deadline: {by: "7:30"}, to: a`:                                         "must be a time such as",
		`deadline: {by: "07:30", timezone: Berlin}, to: a`:                      "there is no time zone",
		`deadline: {by: "07:30", from: started}, to: a`:                         "from needs the key after",
		"deadline: {after: 2h, timezone: UTC}, to: a":                           "timezone needs the key by",
		"deadline: {after: 2h, from: started, for: start}, to: a":               "cannot be late to start",
		"on: slow, than: 500ns, to: a":                                          "the key than is at least 1s",
		"on: slow, than: 0x p95, to: a":                                         "at least 1x",
		"on: slow, than: 0.99x p95, to: a":                                      "at least 1x",
		"deadline: {after: 1us, from: started, for: end}, to: a":                "a deadline is at least 1s",
		"deadline: {after: 999ms}, to: a":                                       "a deadline is at least 1s",
		"deadline: {after: 91d}, to: a":                                         "more than 90d",
		"deadline: {after: 2h}, after: 2, to: a":                                "this alert watches the time",
		"deadline: {after: 2h}, each: true, to: a":                              "open while a run is late",
		"on: failed, to: a, escalate: [{after: 2m, to: b}, {after: 1m, to: c}]": "must be later than the step before it",
		"on: succeeded, to: a, escalate: {after: 2m, to: b}":                    "no incident stays open",
		"on: failed, to: a, escalate: {after: 2m}":                              "alerts[0].escalate has no to",
	} {
		ws, errs := Parse([]byte("name: x\nalerts:\n  - {"+rule+"}\ntasks: {a: {run: x}}\n"), Options{File: "f.yaml"})
		got := errs.Error()
		if len(errs) == 0 {
			data, err := json.Marshal(ws[0].Alerts[0])
			if err != nil {
				t.Fatal(err)
			}
			got = string(data)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s\nwant %s", rule, got, want)
		}
	}
}
