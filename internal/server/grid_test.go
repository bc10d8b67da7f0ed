package server_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/dag"
	api "skein.dev/skein/sdk/api/v1"
)

// cells reads a column of a grid.
func cells(t *testing.T, g *api.Grid, r *api.GridRun) (states []string) {
	t.Helper()
	for b := r.Cells; len(b) > 0; {
		count, w := binary.Uvarint(b[1:])
		if w <= 0 || count == 0 {
			t.Fatalf("cells %v", r.Cells)
		}
		name := "none"
		if b[0] != 255 {
			name = g.States[b[0]]
		}
		states = append(states, slices.Repeat([]string{name}, int(count))...)
		b = b[1+w:]
	}
	if len(states) != g.Tasks {
		t.Fatalf("%d cells for %d tasks", len(states), g.Tasks)
	}
	return states
}

func TestGrid(t *testing.T) {
	b := newBed(t, true)
	b.apply("shape")
	first := b.run("shape")
	// The next version lacks task c, and has a new task at the beginning.
	text := strings.Replace(strings.Replace(fmt.Sprintf(diamond, "shape"), "  c: {needs: a, run: \"true\"}\n", "", 1), "[b, c]", "[b, z]", 1)
	text = strings.Replace(text, "tasks:\n", "tasks:\n  z: {run: \"true\"}\n", 1)
	if a := b.do("PUT", "/api/v1/workflows/default/shape", text, "Content-Type", "application/yaml"); a.status != 200 {
		t.Fatalf("apply: %d %s", a.status, a.body)
	}
	second := b.run("shape")
	path := "/api/v1/workflows/default/shape/grid"
	g := want[api.Grid](t, b.get(path), 200)
	if g.Version != 2 || g.Tasks != 4 || g.Next != nil || len(g.Runs) != 2 || g.Runs[0].ID != second.ID || g.Runs[1].ID != first.ID {
		t.Fatalf("grid %+v", g)
	}
	all := []string{"succeeded", "succeeded", "succeeded", "succeeded"}
	if got := cells(t, &g, &g.Runs[0]); !slices.Equal(got, all) {
		t.Errorf("second run: %v", got)
	}
	if got := cells(t, &g, &g.Runs[1]); !slices.Equal(got, []string{"none", "succeeded", "succeeded", "succeeded"}) {
		t.Errorf("first run by the tasks of version 2: %v", got)
	}
	old := want[api.Grid](t, b.get(path+"?version=1"), 200)
	if got := cells(t, &old, &old.Runs[0]); !slices.Equal(got, []string{"succeeded", "succeeded", "none", "succeeded"}) {
		t.Errorf("second run by the tasks of version 1: %v", got)
	}
	page := want[api.Grid](t, b.get(path+"?runs=1"), 200)
	if page.Next == nil || len(page.Runs) != 1 {
		t.Fatalf("first page %+v", page)
	}
	if page = want[api.Grid](t, b.get(path+"?runs=1&cursor="+*page.Next), 200); len(page.Runs) != 1 || page.Runs[0].ID != first.ID {
		t.Errorf("second page %+v", page)
	}
	wantProblem(t, b.get(path+"?cursor=xx"), 422, api.ProblemInvalid)
	wantProblem(t, b.get(path+"?version=9"), 404, api.ProblemNotFound)
}

func TestTimeline(t *testing.T) {
	b := newBed(t, false)
	b.apply("shape")
	run := b.run("shape")
	path := "/api/v1/runs/" + run.ID + "/timeline"
	a := <-b.exec.got
	open := want[api.Timeline](t, b.get(path), 200)
	if !slices.Equal(open.Task, []int32{0}) || open.Finished[0] != -1 || open.Ready[0] < 0 || open.Ready[1] != -1 || open.Nodes[open.Node[0]] != "node-1" {
		t.Errorf("while a runs: %+v", open)
	}
	b.exec.end(a, succeeded())
	one, two := <-b.exec.got, <-b.exec.got // the attempts of b and c
	b.exec.end(one, succeeded())
	b.exec.end(two, succeeded())
	d := <-b.exec.got
	b.exec.end(d, dag.Result{State: dag.AttemptFailed, ExitCode: 3})
	if r := want[api.Run](t, b.get("/api/v1/runs/"+run.ID, "Prefer", "wait=60"), 200); r.State != "failed" {
		t.Fatalf("the run is %s", r.State)
	}
	l := want[api.Timeline](t, b.get(path), 200)
	if !slices.Equal(l.Task, []int32{0, 1, 2, 3}) || l.States[l.Outcome[3]] != "failed" || l.State != "failed" {
		t.Errorf("after the end: %+v", l)
	}
	if len(l.Path) != 3 || l.Path[0] != 0 || l.Path[2] != 3 {
		t.Errorf("critical path %v", l.Path)
	}
	for i := range l.Task {
		if l.Ready[l.Task[i]] < 0 || l.Finished[i] < l.Started[i] || l.Started[i] < 0 {
			t.Errorf("attempt %d: ready %d, started %d, finished %d", i, l.Ready[l.Task[i]], l.Started[i], l.Finished[i])
		}
	}
	wantProblem(t, b.get("/api/v1/runs/0190a0b0-1234-7abc-8def-0123456789ab/timeline"), 404, api.ProblemNotFound)
}
