package server_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	api "skein.dev/skein/api/v1"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/workflow"
)

const hourly = `
namespace: %s
name: %s
triggers:
  - {name: hourly, every: 1h}
tasks:
  a: {run: "true"}
`

// applyBuiltIn makes the workflow that a node makes by itself.
func (b *bed) applyBuiltIn() {
	b.t.Helper()
	ws, faults := workflow.Parse(fmt.Appendf(nil, hourly, "default", "recovery"), workflow.Options{})
	if len(faults) > 0 {
		b.t.Fatal(faults)
	}
	ws[0].Namespace = engine.SystemNamespace
	d := engine.Definition{Namespace: engine.SystemNamespace, Name: engine.RecoveryName, Source: []byte(hourly), Digest: make([]byte, 32),
		Graph: must(ws[0].Graph(0)).Pack(), Def: must(json.Marshal(ws[0])), User: "skein"}
	if _, _, err := b.engine.Apply(b.t.Context(), d); err != nil {
		b.t.Fatal(err)
	}
}

// TestBuiltInIsHidden: lists leave out what comes with the program unless it is asked for, by system, by its
// namespace or by its name.
func TestBuiltInIsHidden(t *testing.T) {
	b := newBed(t, true)
	b.applyBuiltIn()
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
			continue // it has no filter by name
		}
		if got := c.get(c.path + "&workflow=system/recovery"); len(got) == 0 || got[0] != "" && got[0] != "system/recovery" {
			t.Errorf("%s of the workflow: %q", c.path, got)
		}
	}
}
