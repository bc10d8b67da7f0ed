package workflow

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
)

const madeFile = `
name: nightly
params: {day: string, limit: {type: int, default: 3}}
env: {A: "1"}
defaults: {timeout: 5m}
on_failure: end
max_concurrent_runs: 2
tasks:
  plan: {run: "true", outputs: {todo: json}}
  work: {needs: plan, tasks: "tasks.plan.outputs.todo"}
`

// made evaluates the task work from the outputs of the task before it.
func made(t *testing.T, todo string) (*Workflow, []byte, error) {
	t.Helper()
	all, errs := Parse([]byte(madeFile), Options{})
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
	if got := w.ReadsOutputs(1); len(got) != 1 || got[0] != "plan" {
		t.Fatalf("it reads %v", got)
	}
	source, err := w.MadeSource(1, Inputs{Params: json.RawMessage(`{"day":"monday","limit":3}`), TriggerTime: time.Unix(0, 0),
		Outputs: func(string) (json.RawMessage, dag.TaskState) {
			return json.RawMessage(`{"todo":` + todo + `}`), dag.Succeeded
		}}, "nightly-x")
	if err != nil || source == nil {
		return nil, source, err
	}
	w, err = ParseMade(source, nil)
	return w, source, err
}

func TestMadeTasks(t *testing.T) {
	list, first, err := made(t, `[{"name":"b","needs":["a"],"run":"echo $DAY","env":{"DAY":"${{ params.day }}"}},{"name":"a","kind":"vm.create","with":{"n":1}}]`)
	if err != nil {
		t.Fatal(err)
	}
	if list.Name != "nightly-x" || len(list.Params) != 2 || len(list.Env) != 1 || list.OnFailure != "end" || list.Defaults.Timeout == nil || list.MaxRuns != 0 {
		t.Errorf("it is %+v", list)
	}
	if len(list.Tasks) != 2 || list.Tasks[0].Name != "b" || list.Tasks[1].Kind != "vm.create" {
		t.Errorf("its tasks are %+v", list.Tasks)
	}
	if _, err := list.Graph(0); err != nil {
		t.Error(err)
	}
	_, same, err := made(t, `{"b":{"needs":["a"],"run":"echo $DAY","env":{"DAY":"${{ params.day }}"}},"a":{"kind":"vm.create","with":{"n":1}}}`)
	if err != nil || string(same) != string(first) && !strings.Contains(string(same), `"b": {`) {
		t.Errorf("a mapping gives %v\n%s", err, same)
	}
	for _, none := range []string{`[]`, `{}`} {
		if _, source, err := made(t, none); source != nil || err != nil {
			t.Errorf("%s gives %s, %v", none, source, err)
		}
	}
	many := make([]string, MadeTasksMax+1)
	for i := range many {
		many[i] = fmt.Sprintf(`{"name":"t%d","run":"true"}`, i)
	}
	for todo, want := range map[string]string{
		`7`:                                "tasks: 7 is neither a list of tasks nor a mapping of tasks by name",
		`[{"run":"true"}]`:                 "tasks[0] has no name",
		`[{"name":7,"run":"true"}]`:        "tasks[0] has no name",
		`[{"name":"a.b","run":"x"}]`:       "tasks",
		`{"a":{"run":"x","needs":"b"}}`:    `"b"`,
		`{"a":{"run":"x","queue":"-x y"}}`: "tasks.a.queue",
		`{"a":{"run":"x"},"b":{"run":"x","needs":"c"},"c":{"run":"x","needs":"b"}}`: "circle",
		`{"a":{"approval":{"by":[]}}}`:                                              "tasks.a.approval.by is an empty list",
		`[{"name":"a","run":"x"},{"name":"a","run":"y"}]`:                           "tasks",
		`["` + strings.Repeat("x", MadeBytesMax) + `"]`:                             "the limit is",
		`[` + strings.Join(many, ",") + `]`:                                         "10001 tasks, the limit is 10000",
	} {
		if _, _, err := made(t, todo); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", todo, err, want)
		}
	}
	w, _, _ := made(t, `[{"name":"a","run":"x"}]`)
	if one, other := w.MadeName(0, "1"), w.MadeName(0, "2"); one == other || !strings.HasPrefix(one, "nightly-x-") {
		t.Errorf("names %s, %s", one, other)
	}
}
