package server_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	api "skein.dev/skein/api/v1"
)

// TestStartAnswersAsAccepted starts workflows whose runs stand still once they are accepted: what the start
// answers, which nothing reads from the store, is what is read there afterwards.
func TestStartAnswersAsAccepted(t *testing.T) {
	b := newBed(t, false)
	for name, source := range map[string]string{
		"running": `tasks: {a: {run: "true"}, b: {needs: a, run: "true"}}`,
		"ended":   `tasks: {a: {run: "true", if: "false"}, b: {needs: a, run: "true"}}`,
		"failed":  "params: {n: {type: int, default: 0}}\ntasks: {a: {run: \"true\", if: \"1 / params.n == 1\"}}",
		"gated":   "max_concurrent_runs: 1\ntasks: {a: {run: \"true\"}}",
		"locked":  "locks: [one]\ntasks: {a: {run: \"true\"}}",
		"urgent":  "priority: high\nparams: {n: {type: int, default: 7}}\ntasks: {a: {run: \"true\"}}",
	} {
		t.Run(name, func(t *testing.T) {
			a := b.do("PUT", "/api/v1/workflows/default/"+name, "name: "+name+"\n"+source, "Content-Type", "application/yaml")
			if a.status != 201 {
				t.Fatalf("apply: %d %s", a.status, a.body)
			}
			first := want[api.Run](t, b.post("/api/v1/runs", `{"workflow":"`+name+`"}`), 202)
			for deadline := time.Now().Add(time.Minute); first.SplitAt == nil; { // the graph is read beside the shard
				if time.Now().After(deadline) {
					t.Fatalf("it is not split: %+v", first)
				}
				first = want[api.Run](t, b.get("/api/v1/runs/"+first.ID), 200)
			}
			for i := range 2 {
				started := b.post("/api/v1/runs", fmt.Sprintf(`{"workflow":%q,"idempotency_key":"k%d"}`, name, i))
				run := want[api.Run](t, started, 202)
				var was, is any
				if err := json.Unmarshal([]byte(started.body), &was); err != nil {
					t.Fatal(err)
				}
				read := b.get("/api/v1/runs/" + run.ID)
				if err := json.Unmarshal([]byte(read.body), &is); err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(was, is) {
					t.Errorf("the start answered\n%s\nand then there is\n%s", started.body, read.body)
				}
			}
		})
	}
}

// TestStartSeesEveryChange starts a workflow right after each change of it: the node keeps workflows for
// starts, and a kept one that is out of date is never used.
func TestStartSeesEveryChange(t *testing.T) {
	b, _ := newTown(t)
	start := func(status int) answer {
		t.Helper()
		a := b.post("/api/v1/runs", `{"workflow":"w"}`)
		if a.status != status {
			t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
		}
		return a
	}
	version := func(want int32) {
		t.Helper()
		var run api.Run
		if err := json.Unmarshal([]byte(start(202).body), &run); err != nil || run.Version != want {
			t.Errorf("version %d, want %d: %v", run.Version, want, err)
		}
	}
	apply := func(command string) {
		t.Helper()
		a := b.do("PUT", "/api/v1/workflows/default/w", `{name: w, tasks: {a: {run: "`+command+`"}}}`, "Content-Type", "application/yaml")
		if a.status/100 != 2 {
			t.Fatalf("apply: %d %s", a.status, a.body)
		}
	}
	start(404)
	for round := range 3 {
		apply(fmt.Sprint("echo ", round))
		version(1)
		version(1)
		apply("true")
		version(2)
		b.post("/api/v1/workflows/default/w:rollback", `{"version":1}`)
		version(1)
		b.post("/api/v1/workflows/default/w:pause", "")
		start(409)
		b.post("/api/v1/workflows/default/w:resume", "")
		version(1)
		b.own()
		version(1)
		b.own(0, 1, 2, 3)
		version(1)
		if a := b.do("DELETE", "/api/v1/workflows/default/w", ""); a.status/100 != 2 {
			t.Fatalf("delete: %d %s", a.status, a.body)
		}
		start(404)
	}
}
