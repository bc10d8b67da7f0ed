package workflow

import (
	"strings"
	"testing"
)

func TestEventSourceTakes(t *testing.T) {
	for _, c := range []struct {
		types  []string
		source string
		kind   string
		from   string
		takes  bool
	}{
		{nil, "", "a", "b", true},
		{[]string{"order.*"}, "", "order.created", "b", true},
		{[]string{"order.*"}, "", "order", "b", false},
		{[]string{"a", "b"}, "shop", "b", "shop", true},
		{[]string{"a", "b"}, "shop", "b", "shop2", false},
		{[]string{"*.created"}, "*", "order.created", "", true},
		{[]string{"a*b*c"}, "", "a1b2c", "", true},
		{[]string{"a*b*b"}, "", "ab", "", false},
		{[]string{"a*a"}, "", "a", "", false},
		{[]string{"**"}, "", "x", "", true},
	} {
		if got := (&EventSource{Types: c.types, Source: c.source}).Takes(c.kind, c.from); got != c.takes {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A filter of a source sees the event only. overlap: wait is for sources only.
func TestIntakeFaults(t *testing.T) {
	for entry, want := range map[string]string{
		`{event: {type: a, filter: "params.a == 'b'"}}`:            "a filter cannot see params: it sees the event only",
		`{event: {type: a, filter: "trigger.time == event.time"}}`: "a filter cannot see the trigger: it sees the event only",
		`{event: {type: a, filter: "1 + 1"}}`:                      "a filter must be true or false",
		`{event: {type: a, batch: {max: 501}}}`:                    "500",
		`{event: {type: a, batch: {max: 5, wait: 2h}}}`:            "wait is at most 1h",
		`{event: "a b"}`:             "a type such as order.created",
		`{every: 1h, overlap: wait}`: "overlap: wait is for sources that can wait",
		`{event: a, catchup: all}`:   "catchup is for schedules",
	} {
		_, errs := Parse([]byte("name: w\nparams: {a: {default: b}}\ntriggers:\n  - "+entry+"\ntasks: {a: {run: x}}\n"), Options{File: "f.yaml"})
		if len(errs) == 0 || !strings.Contains(errs.Error(), want) {
			t.Errorf("%s: %v", entry, errs)
		}
	}
}
