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

// A wait for an event or a condition is drawn as the wait that its author wrote.
func TestLayoutKindsOfWaits(t *testing.T) {
	b := newBed(t, true)
	b.put("waits", "name: waits\ntasks:\n  a: {wait: {event: {type: paid}}}\n  b: {wait: {condition: 'true'}}\n  c: {wait: 1s}\n  d: {dependent: {workflow: shape}}\n")
	var kinds []string
	for _, n := range want[api.Layout](t, b.get("/api/v1/workflows/default/waits/layout"), 200).Nodes {
		kinds = append(kinds, n.Kind)
	}
	if !slices.Equal(kinds, []string{"wait", "wait", "wait", "dependent"}) {
		t.Errorf("kinds %q", kinds)
	}
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

// TestLayoutViews: a graph is drawn folded, with groups that are open, and joined with another version.
func TestLayoutViews(t *testing.T) {
	b := newBed(t, true)
	file := func(tasks string) string { return "name: views\ntasks:\n" + tasks }
	b.put("views", file("  s: {approval: {}}\n  a: {needs: s, run: 'true'}\n  b: {needs: a, run: 'true'}\n  c: {needs: b, run: 'true'}\n  e: {needs: c, approval: {}}\n"))
	b.put("views", file("  s: {approval: {}}\n  a: {needs: s, run: 'false'}\n  b: {needs: a, run: 'true'}\n  d: {needs: b, run: 'true'}\n  e: {needs: [d, a], approval: {}}\n"))
	const path = "/api/v1/workflows/default/views/layout"
	nodes := func(l api.Layout) (all []string) {
		for _, n := range l.Nodes {
			all = append(all, fmt.Sprintf("%s %s %v%s", n.Kind, n.Name, n.Tasks, n.Change))
		}
		return all
	}
	folded := want[api.Layout](t, b.get(path+"?version=1&fold=true"), 200)
	if got := nodes(folded); !slices.Equal(got, []string{"approval s [0]", "chain a → … → c [1 2 3]", "approval e [4]"}) || len(folded.Edges) != 2 {
		t.Errorf("folded: %q, edges %v", got, folded.Edges)
	}
	if got := nodes(want[api.Layout](t, b.get(path+"?version=1&fold=true&open=chain:a"), 200)); len(got) != 5 {
		t.Errorf("an open chain: %q", got)
	}
	both := want[api.Layout](t, b.get(path+"?against=1"), 200)
	if got := nodes(both); !slices.Equal(got, []string{"approval s [0]same", "work a [1]changed", "work b [2]same", "work d [3]added", "approval e [4]changed", "work c []removed"}) {
		t.Errorf("compared: %q", got)
	}
	var edges []string
	for i, e := range both.Edges {
		edges = append(edges, fmt.Sprint(e, both.EdgeChanges[i]))
	}
	if !slices.Equal(edges, []string{"[0 1]same", "[1 2]same", "[2 3]added", "[3 4]added", "[1 4]added", "[5 4]removed", "[2 5]removed"}) {
		t.Errorf("edges: %q", edges)
	}
	packed := b.get(path+"?against=1", "Accept", layoutType)
	if packed.status != 200 || !strings.HasPrefix(packed.body, "SKL1") {
		t.Fatalf("packed: %d", packed.status)
	}
	// The packed form ends with the tasks that each node stands for, followed by the changes of 6 nodes and 7
	// edges.
	changes := "C\x00\x03\x00\x01\x03\x02\x00\x00\x01\x01\x01\x02\x02"
	if !strings.HasSuffix(packed.body, changes) || !strings.Contains(packed.body, "M\x01\x00\x01\x02\x01\x02\x01\x02\x01\x02\x00"+changes) {
		t.Errorf("packed: %q", packed.body)
	}
	if a := b.get(path+"?against=1", "Accept", layoutType, "If-None-Match", packed.header.Get("ETag")); a.status != 304 {
		t.Errorf("the same drawing again: %d", a.status)
	}
	wantProblem(t, b.get(path+"?against=1&fold=true"), 422, api.ProblemInvalid)
	wantProblem(t, b.get(path+"?against=9"), 404, api.ProblemNotFound)

	run := want[api.Run](t, b.post("/api/v1/runs", `{"workflow":"views","version":1}`), 202)
	ofRun := want[api.Layout](t, b.get("/api/v1/runs/"+run.ID+"/layout?against=2"), 200)
	if got := nodes(ofRun); !slices.Contains(got, "work c [3]added") || !slices.Contains(got, "work d []removed") {
		t.Errorf("a run against the newest version: %q", got)
	}
}
