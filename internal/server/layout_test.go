package server_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/dag"
	api "skein.dev/skein/sdk/api/v1"
)

const (
	layoutType = "application/vnd.skein.layout"
	statesType = "application/vnd.skein.states"
)

func TestLayoutRoutes(t *testing.T) {
	b := newBed(t, true)
	b.apply("shape")
	run := b.run("shape")
	path := "/api/v1/workflows/default/shape/layout"
	a := b.get(path)
	l := want[api.Layout](t, a, 200)
	if l.Columns != 3 || len(l.Nodes) != 4 || !slices.Equal(l.Edges, [][2]int32{{0, 1}, {0, 2}, {1, 3}, {2, 3}}) {
		t.Errorf("layout %+v", l)
	}
	if d := l.Nodes[3]; d.Name != "d" || d.Kind != "work" || d.X != 2*l.ColumnWidth {
		t.Errorf("node %+v", d)
	}
	if again := b.get(path, "If-None-Match", a.header.Get("ETag")); again.status != 304 || again.body != "" {
		t.Errorf("the same layout again: %d %s", again.status, again.body)
	}
	if a := b.get(path + "?version=9"); a.status != 404 {
		t.Errorf("version 9: %d", a.status)
	}
	packed := b.get("/api/v1/runs/"+run.ID+"/layout", "Accept", layoutType)
	if packed.header.Get("Content-Type") != layoutType || !strings.HasPrefix(packed.body, "SKL1") || !strings.Contains(packed.body, "foreach\x00") {
		t.Errorf("packed %v %q", packed.header, packed.body)
	}
	// The two forms have different tags.
	if a := b.get("/api/v1/runs/"+run.ID+"/layout", "If-None-Match", packed.header.Get("ETag")); a.status != 200 {
		t.Errorf("JSON by the tag of the packed form: %d", a.status)
	}
	wantProblem(t, b.get("/api/v1/runs/0190a0b0-1234-7abc-8def-0123456789ab/states"), 404, api.ProblemNotFound)
	wantProblem(t, b.get("/api/v1/runs/0190a0b0-1234-7abc-8def-0123456789ab/layout"), 404, api.ProblemNotFound)
}

func TestStatesOfARun(t *testing.T) {
	b := newBed(t, false)
	b.apply("shape")
	run := b.run("shape")
	first := <-b.exec.got // task a is held, so the other tasks are pending
	path := "/api/v1/runs/" + run.ID + "/states"
	s := want[api.TaskStates](t, b.get(path), 200)
	if s.Tasks != 4 || s.State != "running" || len(s.States) != 2 || s.States[1] != (api.StateSpan{State: "pending", Count: 3}) {
		t.Errorf("states %+v", s)
	}
	b.exec.end(first, dag.Result{State: dag.AttemptFailed, ExitCode: 1})
	if r := want[api.Run](t, b.get("/api/v1/runs/"+run.ID, "Prefer", "wait=60"), 200); r.State != "failed" {
		t.Fatalf("the run is %s", r.State)
	}
	a := b.get(path, "Accept", statesType)
	names, spans := unpackStates(t, a.body)
	if got := [][2]string{{names[spans[0][0]], ""}, {names[spans[1][0]], ""}}; got[0][0] != "failed" || got[1][0] != "upstream_failed" || spans[1][1] != 3 {
		t.Errorf("states %v %v", names, spans)
	}
	if again := b.get(path, "Accept", statesType, "If-None-Match", a.header.Get("ETag")); again.status != 304 {
		t.Errorf("the same states again: %d", again.status)
	}
}

// unpackStates reads the packed form as its description says.
func unpackStates(t *testing.T, body string) (names []string, spans [][2]int) {
	t.Helper()
	b := []byte(body)
	if !strings.HasPrefix(body, "SKS1") || len(b) < 9 {
		t.Fatalf("packed states %q", body)
	}
	tasks, n := int(binary.LittleEndian.Uint32(b[4:])), int(b[8])
	parts := strings.SplitN(string(b[9:]), "\x00", n+1)
	names, b = parts[:n], []byte(parts[n])
	for told := 0; told < tasks; {
		count, w := binary.Uvarint(b[1:])
		if w <= 0 || count == 0 {
			t.Fatalf("packed states %q", body)
		}
		spans = append(spans, [2]int{int(b[0]), int(count)})
		told, b = told+int(count), b[1+w:]
	}
	return names, spans
}
