package server_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/server"
	api "skein.dev/skein/sdk/api/v1"
)

// TestHeavyCallsShareWeights: a node that is as busy as its bounds allow refuses every heavy call and every
// large answer, with the time of the next try, and accepts light ones. Each route that accepts a large body,
// or that can add values to its answer, has a line here.
func TestHeavyCallsShareWeights(t *testing.T) {
	b := newBed(t, false)
	b.put("w", fmt.Sprintf(diamond, "w"))
	b.put("wide", "name: wide\ntasks:\n  a: {run: \"true\", outputs: {text: string}}\n  b: {run: \"true\", outputs: {text: string}}\n")
	run := b.run("wide")
	for range 2 {
		b.exec.end(<-b.exec.got, dag.Result{State: dag.AttemptSucceeded, Outputs: []byte(`{"text":"` + strings.Repeat("x", 60_000) + `"}`)})
	}
	eventually(t, "the run ends", func() bool { return b.ended(run.ID) })
	source := fmt.Sprintf(diamond, "w")
	yaml := []string{"Content-Type", "application/yaml"}
	past := `{"workflow":"w","instants":["2026-01-01T00:00:00Z"],`
	soon := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	type call struct {
		method, path, body string
		header             []string
		weighs             string // "" for a call that has no weight
	}
	const heavy, answers = "heavy", "answers"
	calls := []call{
		{"POST", "/api/v1/validate", source, yaml, heavy},
		{"PUT", "/api/v1/workflows/default/w", source, yaml, heavy},
		{"POST", "/api/v1/schedules:simulate", `{"to":"` + soon + `"}`, nil, heavy},
		{"POST", "/api/v1/backfills", past + `"dry_run":true}`, nil, heavy},
		{"POST", "/api/v1/backfills", past + `"only":"missing"}`, nil, heavy},
		{"POST", "/api/v1/backfills", past + `"parallel":1}`, nil, heavy},
		{"GET", "/api/v1/runs?include=params", "", nil, answers},
		{"GET", "/api/v1/users/ada/runs?include=params", "", nil, answers},
		{"GET", "/api/v1/runs/" + run.ID + "/tasks", "", nil, answers},
		{"GET", "/api/v1/runs/" + run.ID + "?include=tasks", "", nil, answers},
		{"GET", "/api/v1/workflows/default/w/versions/1", "", nil, answers},
		{"GET", "/api/v1/workflows/default/w/versions/1?include=files", "", nil, answers},
		{"GET", "/api/v1/runs", "", nil, ""},
		{"GET", "/api/v1/runs/" + run.ID, "", nil, ""},
		{"GET", "/api/v1/runs/" + run.ID + "/tasks?limit=1", "", nil, ""},
		{"POST", "/api/v1/runs", `{"workflow":"w"}`, nil, ""},
	}
	listed := []string{
		"POST /api/v1/runs:batch",        // has its own bound
		"POST /api/v1/hooks/{ns}/{name}", // has the bound of webhooks
	}
	ask := func(full string, wants func(c *call, a answer)) {
		end := server.Fill(b.srv, full == answers)
		defer end()
		for i := range calls {
			c := &calls[i]
			wants(c, b.do(c.method, c.path, c.body, c.header...))
		}
	}
	for i := range calls {
		listed = append(listed, server.Pattern(b.srv, httptest.NewRequest(calls[i].method, calls[i].path, nil)))
	}
	for _, full := range []string{heavy, answers} {
		ask(full, func(c *call, a answer) {
			switch {
			case c.weighs == full && (a.status != 429 || a.header.Get("Retry-After") == ""):
				t.Errorf("%s %s of a busy node: status %d, Retry-After %q", c.method, c.path, a.status, a.header.Get("Retry-After"))
			case c.weighs == full:
				wantProblem(t, a, 429, api.ProblemBusy)
			case a.status == 429:
				t.Errorf("%s %s waits for calls that are %s: %s", c.method, c.path, full, a.body)
			case a.status >= 300:
				t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
			}
		})
	}
	for _, pattern := range append(server.LargeBodies(b.srv), adding(t, b)...) {
		if !slices.Contains(listed, pattern) {
			t.Errorf("%s has no line here", pattern)
		}
	}
}

// adding returns the routes whose answers hold values or sources if the request asks for them.
func adding(t *testing.T, b *bed) (patterns []string) {
	t.Helper()
	type parameter struct {
		Name   string `json:"name"`
		Schema struct {
			Enum  []string                `json:"enum"`
			Items struct{ Enum []string } `json:"items"`
		} `json:"schema"`
	}
	var doc struct {
		Paths map[string]map[string]struct{ Parameters []parameter }
	}
	if err := json.Unmarshal([]byte(b.get(openAPI).body), &doc); err != nil {
		t.Fatal(err)
	}
	for path, ops := range doc.Paths {
		for method, op := range ops {
			for _, p := range op.Parameters {
				for _, what := range append(p.Schema.Enum, p.Schema.Items.Enum...) {
					if p.Name == "include" && slices.Contains([]string{"params", "files", "tasks", "outputs", "source"}, what) {
						patterns = append(patterns, strings.ToUpper(method)+" "+path)
					}
				}
			}
		}
	}
	if len(patterns) < 4 {
		t.Errorf("only %v add something", patterns)
	}
	return patterns
}
