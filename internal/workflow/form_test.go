package workflow

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

const formFile = `name: x
tasks:
  ok:
    approval:
      form:
        amount: {type: number, min: 0.5, max: 100}
        count: {type: integer, default: 3, min: 1}
        why: {type: string, pattern: "[A-Z].*", max: 10}
        note: {type: text, required: false}
        sure: boolean
        way: {type: enum, options: [cash, card], default: card}
        day: date
  pay: {needs: ok, if: "tasks.ok.outputs.amount > 10.0 && tasks.ok.outputs.sure && tasks.ok.outputs.way == 'card' && tasks.ok.outputs.note == null", run: "true"}
`

// TestForm: answers are converted to the types of their fields, or refused with every fault.
func TestForm(t *testing.T) {
	all, errs := Parse([]byte(formFile), Options{File: "f.yaml"})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	a := all[0].Tasks[0].Approval
	good := func() map[string]any {
		return map[string]any{"amount": "25", "why": "Goodwill", "sure": "true", "day": "2026-11-27"}
	}
	out, err := a.Answers(good())
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := json.Marshal(out); string(got) != `{"amount":25.0,"count":3,"day":"2026-11-27","note":null,"sure":true,"way":"card","why":"Goodwill"}` {
		t.Errorf("%s", got)
	}
	for name, wrong := range map[string][]any{
		"amount": {0.4, 100.5, "x"}, "count": {"2.5", 0}, "sure": {"perhaps"}, "way": {"gold"}, "day": {"27.11.2026"}, "other": {1},
		"why": {"goodwill", "xGood", "Goodwill\n", "A\nB", "Far too long", ""}, "note": {strings.Repeat("x", 10_001)},
	} {
		for _, v := range wrong {
			given := good()
			given[name] = v
			_, err := a.Answers(given)
			var faults ValueErrors
			if !errors.As(err, &faults) || len(faults) != 1 || faults[0].Name != name {
				t.Errorf("%s=%v: %v", name, v, err)
			}
		}
	}
	var faults ValueErrors
	if _, err := a.Answers(nil); !errors.As(err, &faults) || len(faults) != 4 {
		t.Errorf("no answers: %v", err)
	}
	if _, err := a.Answers(map[string]any{"a": strings.Repeat("x", formBytesMax), "b": "x"}); !errors.As(err, &faults) || len(faults) != 1 || faults[0].Name != "" {
		t.Errorf("too many bytes: %v", err)
	}
	if got, want := a.Words(out), `amount=25.0, count=3, why (text), sure=true, way="card", day="2026-11-27"`; got != want {
		t.Errorf("the words are %s, want %s", got, want)
	}
}
