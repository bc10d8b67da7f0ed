package workflow

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
)

func TestConditions(t *testing.T) {
	view := dag.View{
		Success: true,
		Params:  []byte(`{"day":"monday","n":5,"f":3.0,"b":true,"o":null,"j":{"a":[1,2]}}`),
		Task: func(name string) (dag.TaskState, []byte) {
			if name == "a-b" {
				return dag.Failed, nil
			}
			return dag.Succeeded, []byte(`{"rows":7,"name":"x","list":["a","b"]}`)
		},
	}
	for source, want := range map[string]string{
		"success()":                                "true",
		"failure()":                                "false",
		"always()":                                 "true",
		"${{ always() }}":                          "true",
		"!failure() && success()":                  "true",
		"true":                                     "true",
		"params.n > 4":                             "true",
		"params.n * 2 == 10":                       "true",
		"params.f > 2":                             "true",
		"params.f / 2.0 == 1.5":                    "true",
		"params.b":                                 "true",
		"params.o == null":                         "true",
		"has(params.o)":                            "false",
		"has(params.day)":                          "true",
		"params.j.a[1] == 2":                       "true",
		"params['day'].startsWith('mon')":          "true",
		"size(params) == 6":                        "true",
		"tasks.v.outputs.rows > 0":                 "true",
		`tasks["v"].outputs["rows"] == 7`:          "true",
		"has(tasks.v.outputs.nothing)":             "false",
		"tasks.v.outputs.list.exists(x, x == 'b')": "true",
		`tasks["a-b"].state == "failed"`:           "true",
		"size(tasks.v.outputs) == 3":               "true",
		"tasks.v.outputs.nothing == 1":             `error task "v" gave no output "nothing"; it ended succeeded`,
		"tasks.v.outputs.name":                     "error the condition is neither true nor false, but a string",
		"params.day > 1":                           "error",
		"1 / 0 == 1":                               "error division by zero",
		"timestamp('2020-01-01T00:00:00Z') < timestamp('2021-01-01T00:00:00Z')": "true",
		"[1,2,3].map(x, [1,2,3].map(y, x*y)).size() == 3":                       "true",
	} {
		c, err := CompileCondition(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if c.Source() != source {
			t.Errorf("%s has the source %s", source, c.Source())
		}
		for range 2 {
			holds, err := c.Holds(view)
			got := map[bool]string{true: "true", false: "false"}[holds]
			if err != nil {
				got = "error " + err.Error()
			}
			if got != want && !(want == "error" && err != nil) {
				t.Errorf("%s is %s, want %s", source, got, want)
			}
		}
	}
}

func TestConditionReads(t *testing.T) {
	for source, want := range map[string]struct {
		handles bool
		reads   dag.Reads
	}{
		"success()":                                  {},
		"success() && params.a == 1":                 {false, dag.Reads{Params: true}},
		"failure()":                                  {true, dag.Reads{}},
		"always() && tasks.a.outputs.x > 1":          {true, dag.Reads{Tasks: []string{"a"}}},
		"tasks.a.outputs.x > tasks.b.outputs.y":      {false, dag.Reads{Tasks: []string{"a", "b"}}},
		"tasks.a.state == 'failed' || 'x' in params": {true, dag.Reads{Tasks: []string{"a"}, Params: true}},
	} {
		c, err := CompileCondition(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if c.Handles() != want.handles || !reflect.DeepEqual(c.Reads(), want.reads) {
			t.Errorf("%s: %v %+v", source, c.Handles(), c.Reads())
		}
	}
	for _, bad := range []string{"", "1 +", "trigger.time == 1", "run.id == 'x'", "nothing", "foo()", "tasks.a", strings.Repeat("x", 5000), "google.protobuf.Struct{}"} {
		if _, err := CompileCondition(bad); err == nil {
			t.Errorf("%s compiles", bad)
		}
	}
}

// The evaluation of a condition ends, whatever its text is.
func TestConditionCost(t *testing.T) {
	list := "[" + strings.TrimSuffix(strings.Repeat("1,", 200), ",") + "]"
	c, err := CompileCondition(list + ".all(a, " + list + ".all(b, " + list + ".all(c, " + list + ".all(d, a+b+c+d > 0))))")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Holds(dag.View{}); err == nil || !strings.Contains(err.Error(), "cost") {
		t.Errorf("said %v", err)
	}
}

func TestCompilerShares(t *testing.T) {
	var c Compiler
	one, err := c.Condition("params.a == 1")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if again, err := c.Condition("params.a == 1"); err != nil || again != one {
				t.Errorf("%v %v", again, err)
			}
			if holds, err := one.Holds(dag.View{Params: []byte(`{"a":1}`)}); err != nil || !holds {
				t.Errorf("%v %v", holds, err)
			}
		})
	}
	wg.Wait()
}

func TestResolve(t *testing.T) {
	w := must(t, `
name: w
namespace: shop
params: {day: string, n: int, f: float, o: {required: false}, j: json}
env: {DAY: "${{ params.day }}", SAME: workflow, RUN: "${{ run.namespace }}/${{ run.workflow }}/${{ run.id }}#${{ run.attempt }}"}
tasks:
  a: {run: x, outputs: {rows: int, all: json, big: float}}
  b:
    needs: a
    run: [echo, hi]
    dir: "out/${{ params.day }}"
    env:
      SAME: task
      TEXT: "a ${{ params.n }} b ${{ tasks.a.outputs.rows }}${{ params.o }}."
      BIG: "${{ tasks.a.outputs.rows * 1000000000 }}"
      F: "${{ params.f }} ${{ tasks.a.outputs.big }}"
      BOOL: "${{ params.n > 3 }}"
      LIST: "${{ tasks.a.outputs.all }}"
      MAP: "${{ {'a': params.j, 'b': [1, 2.5]} }}"
      DATE: "${{ date(trigger.time) }} ${{ date(trigger.time, 'Europe/Berlin') }} ${{ trigger.time }}"
      STATE: "${{ tasks.a.state }}"
      NESTED: '${{ "}}" + "${{" }}'
      CHOICE: "${{ has(tasks.a.outputs.rows) ? 'some' : 'none' }}"
  c: {needs: a, run: x}
`)
	in := Inputs{RunID: "r1", Attempt: 2, TriggerTime: time.Date(2026, 1, 2, 23, 30, 0, 0, time.UTC),
		Params: json.RawMessage(`{"day":"mon","n":5,"f":1e30,"o":null,"j":{"k":"<&>"}}`),
		Outputs: func(task string) (json.RawMessage, dag.TaskState) {
			return json.RawMessage(`{"rows":7,"all":[1,"x",null,{"y":1.5}],"big":3.0}`), dag.Succeeded
		}}
	got, err := w.Resolve(1, in)
	if err != nil {
		t.Fatal(err)
	}
	want := []KV{{"DAY", "mon"}, {"RUN", "shop/w/r1#2"}, {"SAME", "task"}, {"TEXT", "a 5 b 7."}, {"BIG", "7000000000"},
		{"F", "1e+30 3"}, {"BOOL", "true"}, {"LIST", `[1,"x",null,{"y":1.5}]`}, {"MAP", `{"a":{"k":"<&>"},"b":[1,2.5]}`},
		{"DATE", "2026-01-02 2026-01-03 2026-01-02T23:30:00Z"}, {"STATE", "succeeded"}, {"NESTED", "}}${{"}, {"CHOICE", "some"}}
	if !reflect.DeepEqual(got.Env, want) {
		t.Errorf("env\n%q\n%q", got.Env, want)
	}
	if got.Dir != "out/mon" || !reflect.DeepEqual(got.Run.Argv, []string{"echo", "hi"}) {
		t.Errorf("%+v", got)
	}
	if reads := w.ReadsOutputs(1); !reflect.DeepEqual(reads, []string{"a"}) {
		t.Errorf("reads %v", reads)
	}
	if reads := w.ReadsOutputs(2); len(reads) != 0 {
		t.Errorf("reads %v", reads)
	}
	in.Params = json.RawMessage(`{"day":"../../etc","n":5,"f":1.0,"o":null,"j":1}`)
	if _, err := w.Resolve(1, in); err == nil || !strings.Contains(err.Error(), `dir "out/../../etc" leads out`) {
		t.Errorf("said %v", err)
	}
	in.Params = json.RawMessage(`{"day":"mon","n":5,"f":1.0,"o":null,"j":1}`)
	in.Outputs = func(string) (json.RawMessage, dag.TaskState) { return nil, dag.Skipped }
	if _, err := w.Resolve(1, in); err == nil || !strings.Contains(err.Error(), `env TEXT: task "a" gave no output "rows"; it ended skipped`) {
		t.Errorf("said %v", err)
	}
	in.Outputs = func(string) (json.RawMessage, dag.TaskState) {
		return json.RawMessage(`{"rows":7,"all":"` + strings.Repeat("x", 70<<10) + `","big":1.0}`), dag.Succeeded
	}
	if _, err := w.Resolve(1, in); err == nil || !strings.Contains(err.Error(), "env LIST: the result is larger than 64.0 KiB") {
		t.Errorf("said %v", err)
	}
}

func TestCheckParams(t *testing.T) {
	w := must(t, `
name: w
params:
  day: {type: string, format: date, default: "${{ date(trigger.time) }}"}
  n: {type: int, default: 3}
  f: {type: float}
  b: {type: bool, default: false}
  j: {type: json, default: {a: 1}}
  o: {type: int, required: false}
  e: {enum: [red, green], default: red}
tasks: {a: {run: x, outputs: {rows: int, ok: bool, f: float, j: json}}}
`)
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for _, c := range []struct {
		given map[string]any
		want  string
	}{
		{map[string]any{"f": "1"}, `{"day":"2026-03-04","n":3,"f":1.0,"b":false,"j":{"a":1},"o":null,"e":"red"}`},
		{map[string]any{"f": 2.5, "n": "42", "b": "true", "j": `[1, 2]`, "o": json.Number("9"), "e": "green", "day": "2026-01-01"},
			`{"day":"2026-01-01","n":42,"f":2.5,"b":true,"j":[1,2],"o":9,"e":"green"}`},
		{map[string]any{"f": json.Number("1e3"), "n": 4.0, "b": true, "j": "text", "o": nil},
			`{"day":"2026-03-04","n":4,"f":1000.0,"b":true,"j":"text","o":null,"e":"red"}`},
	} {
		got, err := w.CheckParams(c.given, at)
		if err != nil || string(got) != c.want {
			t.Errorf("%v: %s %v, want %s", c.given, got, err, c.want)
		}
	}
	_, err := w.CheckParams(map[string]any{"dya": "x", "n": "four", "b": "yes", "e": "blue", "day": "tomorrow", "o": 1.5}, at)
	want := `there is no parameter "dya" (did you mean day?)
parameter day must be a date such as 2006-01-02, not "tomorrow"
parameter n must be a whole number, not "four"
parameter f is required: a number
parameter b must be true or false, not "yes"
parameter o must be a whole number, not 1.5
parameter e must be one of "red", "green", not "blue"`
	if err == nil || err.Error() != want {
		t.Errorf("said\n%v\nwant\n%s", err, want)
	}
	if es, ok := err.(ValueErrors); !ok || es[0].Name != "dya" {
		t.Errorf("%#v", err)
	}
	if _, err := w.CheckParams(map[string]any{"f": 1, "j": strings.Repeat("x", 300<<10)}, at); err == nil {
		t.Error("300 KiB of parameters pass")
	}
}

func FuzzExpression(f *testing.F) {
	for _, s := range []string{"always()", "params.a > 1", `tasks["a-b"].state == "x"`, "[1].map(x, x)", "has(params.x)", "1 / 0", "{'a': 1}.a", "params.exists(k, k == 'a')"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		c, err := CompileCondition(source)
		if err != nil {
			return
		}
		view := dag.View{Success: true, Params: []byte(`{"a":1,"b":"x"}`),
			Task: func(string) (dag.TaskState, []byte) { return dag.Succeeded, []byte(`{"v":[1,2]}`) }}
		one, err1 := c.Holds(view)
		two, err2 := c.Holds(view)
		if one != two || (err1 == nil) != (err2 == nil) {
			t.Fatalf("%v %v, then %v %v", one, err1, two, err2)
		}
	})
}
