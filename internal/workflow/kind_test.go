package workflow

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/dag"
)

const ofKinds = `
name: vms
params: {n: {type: int, default: 3}, day: {type: string, default: monday}}
defaults: {retry: {max: 2, on_exit: [75]}}
env: {A: x}
tasks:
  plan: {run: x, outputs: {size: float, hosts: json}}
  make:
    needs: plan
    kind: vm.create
    group: eu
    with:
      name: vm <${{ params.n }}>
      n: "${{ params.n }}"
      plain: 9007199254740993
      deep: [{at: "${{ tasks.plan.outputs.hosts[0] }}", size: "${{ tasks.plan.outputs.size }}"}, "${{ params.day }}", null]
    outputs: {id: string}
  each:
    needs: plan
    foreach: "${{ tasks.plan.outputs.hosts }}"
    kind: vm.check
    with: {host: "${{ item }}"}
  bare: {kind: vm.list}
`

// The handler of a kind gets the values with their types, wherever the expressions are.
func TestInputOfKinds(t *testing.T) {
	w := must(t, ofKinds)
	roundTrip(t, w)
	in := Inputs{RunID: "r", Attempt: 1, Params: json.RawMessage(`{"n":3,"day":"monday"}`), Item: json.RawMessage(`"a"`),
		Outputs: func(task string) (json.RawMessage, dag.TaskState) {
			return json.RawMessage(`{"hosts":["a","b"],"size":2.0}`), dag.Succeeded
		}}
	for name, want := range map[string]string{
		"make": `{"deep":[{"at":"a","size":2},"monday",null],"n":3,"name":"vm <3>","plain":9007199254740993}`,
		"each": `{"host":"a"}`, "bare": `{}`, "plan": "",
	} {
		i, _ := w.Find(name)
		got, err := w.Resolve(i, in)
		if err != nil || string(got.Input) != want {
			t.Errorf("%s: %s, %v; want %s", name, got.Input, err, want)
		}
		if p := w.Policy(i); (p.Place.Kind() != "") != (name != "plan") || (len(p.Retry.OnExit) > 0) != (name == "plan") || p.Retry.Max != 2 {
			t.Errorf("%s: %q %+v", name, p.Place, p.Retry)
		}
	}
	i, _ := w.Find("make")
	if reads := w.ReadsOutputs(i); !slices.Equal(reads, []string{"plan"}) {
		t.Errorf("it reads %v", reads)
	}
	in.Params = json.RawMessage(`{"n":3,"day":"` + strings.Repeat("x", 50<<10) + `"}`)
	w.Tasks[i].With[3].Value = json.RawMessage(`[` + strings.Repeat(`"${{ params.day }}",`, 6) + `1]`)
	if _, err := w.Resolve(i, in); err == nil || !strings.Contains(err.Error(), "256.0 KiB") {
		t.Errorf("an input without bound: %v", err)
	}
}
