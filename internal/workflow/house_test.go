package workflow

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
)

// withHouse adds kinds of the program for one test.
func withHouse(t *testing.T, more ...house) {
	t.Helper()
	was := houses
	houses, grammar = append(slices.Clone(was), more...), sync.OnceValue(workflowShape)
	t.Cleanup(func() { houses, grammar = was, sync.OnceValue(workflowShape) })
}

func TestHouseKinds(t *testing.T) {
	shape := func() *shape {
		return object("a mapping", key{name: "query", must: true, doc: "Its code.", shape: text("a text")},
			key{name: "params", doc: "Its values.", shape: table("a mapping", keyName(), &shape{kind: anyShape})})
	}
	withHouse(t, house{name: "ask", doc: "Asks.", shape: shape, plain: []string{"query"}, outputs: func(*node) []Output { return []Output{{Name: "n", Type: Int}} }},
		house{name: "box", doc: "Runs.", shape: shape, keys: []string{"env", "artifacts", "dir"}, exits: true})
	w := must(t, `
name: h
params: {day: {type: string, default: monday}}
defaults: {retry: {max: 1, on_exit: [3]}}
env: {A: "${{ params.day }}"}
tasks:
  a: {ask: {query: SELECT 1, params: {day: "${{ params.day }}", key: "${{ secrets.K }}"}}, patience: 3m}
  b: {needs: a, box: {query: "${{ tasks.a.outputs.n }}"}, env: {B: x}, dir: d, artifacts: [x]}
`)
	roundTrip(t, w)
	if p := w.Policy(0); p.Place.Kind() != "skein:ask" || len(p.Retry.OnExit) > 0 || w.Tasks[0].Patience == 0 {
		t.Errorf("%q %+v", p.Place, p.Retry)
	}
	if p := w.Policy(1); p.Place.Kind() != "skein:box" || len(p.Retry.OnExit) != 1 || w.Tasks[1].ProcessKeys()[0] != "env" {
		t.Errorf("%q %+v", p.Place, p.Retry)
	}
	in := Inputs{Params: json.RawMessage(`{"day":"monday"}`), Secret: func(string) (string, error) { return "canary", nil }}
	got, err := w.Resolve(0, in)
	if err != nil || string(got.Input) != `{"params":{"day":"monday","key":"canary"},"query":"SELECT 1"}` || got.Env != nil {
		t.Errorf("%s, %v, %v", got.Input, got.Env, err)
	}
	in.Process = true
	if got, err = w.Resolve(0, in); err != nil || len(got.Env) != 1 || got.Env[0].Value != "monday" {
		t.Errorf("%v, %v", got.Env, err)
	}
	if reads := w.ReadsOutputs(1); !slices.Equal(reads, []string{"a"}) {
		t.Errorf("it reads %v", reads)
	}
	if schema := string(Schema()); !strings.Contains(schema, `"ask"`) {
		t.Error("the schema of the file does not have the key")
	}
	for task, want := range map[string]string{
		`{ask: {query: "SELECT ${{ params.day }}"}}`:                     "${{ }} is not allowed",
		`{ask: {query: x}, env: {A: b}}`:                                 "env does not belong to ask",
		`{ask: {query: x}, outputs: [a]}`:                                "the outputs of ask are not declared",
		`{ask: {query: x}, retry: {max: 1, on_exit: [1]}}`:               "no exit codes",
		`{ask: {query: x}, with: {a: b}}`:                                "belongs to tasks with workflow or kind only",
		`{ask: {query: x}, run: x}`:                                      "several actions",
		`{ask: {}}`:                                                      "tasks.a.ask has no query",
		`{ask: x}`:                                                       "must be a mapping",
		`{ask: {query: x, params: {a: "${{ tasks.b.outputs.c }}"}}}`:     "tasks.b",
		`{run: x, patience: 1m}`:                                         "belongs to tasks of a kind only",
		`{kind: "skein:ask"}`:                                            "the name of a kind",
		`{kind: "slurm@"}`:                                               "the name of a kind",
		`{kind: "slurm@one"}`:                                            "the name of a kind",
		`{kind: "slurm@1.2-rc1", patience: 1m, env: {A: b}, inputs: []}`: "",
	} {
		_, errs := Parse([]byte("name: w\nparams: {day: string}\ntasks:\n  a: "+task+"\n"), Options{File: "f.yaml"})
		if said := errs.Error(); want == "" && len(errs) > 0 || !strings.Contains(said, want) {
			t.Errorf("%s: %s; want %q", task, said, want)
		}
	}
}
