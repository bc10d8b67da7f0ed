package workflow

import (
	"encoding/json"
	"testing"
	"time"
)

// TestSplitter: a workflow with a splitter becomes two tasks. The first one has the kind of the splitter, and
// gets the parameters and the version. The second one consists of the tasks that the first one outputs. The
// other keys of splitter apply to the first task.
func TestSplitter(t *testing.T) {
	all, errs := Parse([]byte(`
name: fleet
params: {want: {type: json, default: {a: 2}}, n: {type: int, default: 3}}
defaults: {timeout: 5m}
splitter: {kind: fleet.plan, with: {region: eu, at: "${{ trigger.time }}"}, retry: {max: 3}, on_lost: fail, group: planners}
---
name: plain
splitter: fleet.plan
`), Options{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	raw, err := json.Marshal(all[0])
	if err != nil {
		t.Fatal(err)
	}
	w, err := Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	split, work := &w.Tasks[0], &w.Tasks[1]
	p := w.Policy(0)
	if split.Name != "split" || split.Kind != "fleet.plan" || p.Retry.Max != 3 || p.Timeout != 5*time.Minute || split.Group != "planners" || split.OnLost != "fail" {
		t.Errorf("%+v, %+v", split, p)
	}
	if work.Name != "work" || work.Needs[0] != "split" || work.Made == nil || len(w.ReadsOutputs(1)) != 1 {
		t.Errorf("%+v", work)
	}
	params, err := w.CheckParams(map[string]any{"n": 4}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 1, 6, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		of     *Workflow
		params json.RawMessage
		want   string
	}{
		{w, params, `{"params":{"n":4,"want":{"a":2}},"version":7,"with":{"at":"2026-11-01T06:00:00Z","region":"eu"}}`},
		{all[1], json.RawMessage("{}"), `{"params":{},"version":7}`},
	} {
		res, err := c.of.Resolve(0, Inputs{Version: 7, Params: c.params, TriggerTime: at})
		var got any
		if err == nil {
			err = json.Unmarshal(res.Input, &got)
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, err := json.Marshal(got); err != nil || string(text) != c.want {
			t.Errorf("the input is %s, want %s", text, c.want)
		}
	}
}
