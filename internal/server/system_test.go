package server_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/workflow"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

const hourly = `
namespace: %s
name: %s
triggers:
  - {name: hourly, every: 1h}
tasks:
  a: {run: "true"}
`

func (b *bed) applyBuiltIn(task string) {
	b.t.Helper()
	applyBuiltIn(b.t, b.engine, task)
}

// applyBuiltIn makes the workflow that a node makes by itself, with one task.
func applyBuiltIn(t testing.TB, e *engine.Engine, task string) {
	t.Helper()
	source := strings.Replace(fmt.Sprintf(hourly, "default", "recovery"), `{run: "true"}`, task, 1)
	ws, faults := workflow.Parse([]byte(source), workflow.Options{})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	ws[0].Namespace = engine.SystemNamespace
	d := engine.Definition{Namespace: engine.SystemNamespace, Name: engine.RecoveryName, Source: []byte(hourly), Digest: make([]byte, 32),
		Graph: must(ws[0].Graph(0)).Pack(), Def: must(json.Marshal(ws[0])), User: "skein"}
	if _, _, err := e.Apply(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// TestBuiltInIsNotCounted: the state of a node and streams of events leave out the program's own runs unless asked.
func TestBuiltInIsNotCounted(t *testing.T) {
	b := newBed(t, false)
	b.applyBuiltIn("{wait: 10m}")
	b.put("mine", fmt.Sprintf(hourly, "default", "mine"))
	b.engine.Drain() // so that no run ends
	plain := must(b.client.Watch(t.Context(), skein.WatchQuery{}))
	defer plain.Close()
	whole := must(b.client.Watch(t.Context(), skein.WatchQuery{System: true}))
	defer whole.Close()
	named := must(b.client.Watch(t.Context(), skein.WatchQuery{Workflows: []string{"system/recovery"}}))
	defer named.Close()
	for _, name := range []string{"system/recovery", "default/mine"} {
		want[api.Run](t, b.post("/api/v1/runs", `{"workflow":"`+name+`"}`), 202)
	}
	seen := func(w *skein.Watcher) string {
		for c, err := range w.Changes() {
			if err != nil {
				t.Fatal(err)
			}
			return c.Workflow
		}
		return ""
	}
	for what, c := range map[string]struct {
		w    *skein.Watcher
		want string
	}{"all": {plain, "mine"}, "all with system": {whole, "system/recovery"}, "the workflow": {named, "system/recovery"}} {
		if got := seen(c.w); got != c.want {
			t.Errorf("a stream of %s begins with %s, want %s", what, got, c.want)
		}
	}
	for _, c := range []struct {
		opts []skein.CallOption
		runs int
	}{{nil, 1}, {[]skein.CallOption{skein.WithSystem()}, 2}} {
		eventually(t, fmt.Sprint(c.runs, " runs are counted"), func() bool {
			n := 0
			for _, of := range must(b.client.Status(t.Context(), c.opts...)).Runs {
				n += of
			}
			return n == c.runs
		})
	}
}

// TestBuiltInIsHidden: lists leave out the workflows and runs that come with the program, unless the request
// asks for them with system, by their namespace or by their name.
func TestBuiltInIsHidden(t *testing.T) {
	b := newBed(t, true)
	b.applyBuiltIn(`{run: "true"}`)
	want[api.Applied](t, b.do("PUT", "/api/v1/workflows/default/mine", fmt.Sprintf(hourly, "default", "mine"), "Content-Type", "application/yaml"), 201)
	for _, name := range []string{"default/mine", "system/recovery"} {
		want[api.Run](t, b.post("/api/v1/runs", `{"workflow":"`+name+`"}`, "Prefer", "wait=60"), 201)
	}
	runs := func(path string) (names []string) {
		for _, r := range want[api.List[api.Run]](t, b.get(path), 200).Items {
			names = append(names, r.Workflow)
		}
		return names
	}
	workflows := func(path string) (names []string) {
		for _, w := range want[api.List[api.Workflow]](t, b.get(path), 200).Items {
			names = append(names, w.Workflow)
		}
		return names
	}
	schedules := func(path string) (names []string) {
		for _, s := range want[api.List[api.Schedule]](t, b.get(path), 200).Items {
			names = append(names, s.Workflow)
		}
		return names
	}
	next := func(path string) (names []string) {
		for _, i := range want[api.NextFires](t, b.get(path), 200).Items {
			names = append(names, i.Workflow)
		}
		return names
	}
	total := func(path string) (names []string) {
		for range want[api.List[api.Run]](t, b.get(path), 200).Total.N {
			names = append(names, "")
		}
		return names
	}
	for _, c := range []struct {
		path       string
		get        func(string) []string
		plain, all int
		space      string // the parameter that names a namespace
	}{
		{"/api/v1/runs?limit=9", runs, 1, 2, "ns"},
		{"/api/v1/runs?limit=1&count=true", total, 1, 2, "ns"},
		{"/api/v1/users/local/runs?limit=9", runs, 1, 2, "ns"},
		{"/api/v1/workflows?limit=9", workflows, 1, 2, "namespace"},
		{"/api/v1/schedules?limit=9", schedules, 1, 2, "namespace"},
		{"/api/v1/schedules/next?n=9", next, 9, 9, "namespace"},
	} {
		if got := c.get(c.path); slices.Contains(got, "system/recovery") || len(got) != c.plain {
			t.Errorf("%s: %q", c.path, got)
		}
		if got := c.get(c.path + "&system=true"); len(got) != c.all || got[0] != "" && !slices.Contains(got, "system/recovery") {
			t.Errorf("%s with system: %q", c.path, got)
		}
		if c.space != "" {
			if got := c.get(c.path + "&" + c.space + "=system"); len(got) == 0 || got[0] != "" && got[0] != "system/recovery" {
				t.Errorf("%s of the namespace: %q", c.path, got)
			}
		}
		if strings.HasPrefix(c.path, "/api/v1/workflows") {
			continue // this list has no filter by name
		}
		if got := c.get(c.path + "&workflow=system/recovery"); len(got) == 0 || got[0] != "" && got[0] != "system/recovery" {
			t.Errorf("%s of the workflow: %q", c.path, got)
		}
	}
}
