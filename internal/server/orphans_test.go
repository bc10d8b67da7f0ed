package server_test

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// TestOrphansOfQuarantinedRuns: the handle of a quarantined run stays in the list of orphans until a person
// dismisses it, also after a restart of the node.
func TestOrphansOfQuarantinedRuns(t *testing.T) {
	var guilty atomic.Pointer[dag.RunID]
	b := &bed{t: t, dir: t.TempDir(), logs: &logs{text: map[server.LogRef][]byte{}}, frozen: &frozen{refuses: func(x *store.Batch) bool {
		id := guilty.Load()
		return id != nil && slices.ContainsFunc(x.AttemptUpdates, func(a dag.AttemptUpdate) bool { return a.Run == *id })
	}}}
	b.start()
	t.Cleanup(func() { b.stop() })
	g := must(dag.NewGraph(dag.GraphSpec{Tasks: []dag.TaskSpec{{Name: engine.ReleaseTask}}}))
	_, _, err := b.engine.Apply(t.Context(), engine.Definition{Namespace: engine.SystemNamespace, Name: engine.ReleaseName, Def: []byte("{}"), Graph: g.Pack(), Digest: g.Pack(), User: "skein"})
	if err != nil {
		t.Fatal(err)
	}
	if a := b.do("PUT", "/api/v1/workflows/default/w", `{"source":"name: w\ntasks: {a: {run: x, release: y}}\n"}`); a.status != http.StatusCreated {
		t.Fatalf("%d %s", a.status, a.body)
	}
	run := b.run("w")
	a := <-b.exec.got
	b.engine.Report(engine.Report{Run: a.Run, Task: a.Task, Token: a.Token, Started: 1, Handle: "job-7"})
	eventually(t, "the handle is stored", func() bool {
		all := must(b.db.Attempts(t.Context(), store.AttemptQuery{Run: a.Run, Outputs: true}))
		return len(all) == 1 && all[0].Outputs != nil
	})
	guilty.Store(&a.Run)
	b.exec.end(a, dag.Result{State: dag.AttemptFailed})
	listed := func() []api.Orphan {
		return want[api.List[api.Orphan]](t, b.get("/api/v1/orphans"), http.StatusOK).Items
	}
	eventually(t, "the orphan is listed", func() bool { return len(listed()) == 1 })
	b.restart()
	if o := listed(); len(o) != 1 || o[0].Run != run.ID || o[0].Handle != "job-7" || o[0].Task != "a" || o[0].RunState != "failed" || o[0].Why != engine.QuarantinedWhy {
		t.Fatalf("%+v", o)
	}
	guilty.Store(nil)
	if a := b.post("/api/v1/runs/"+run.ID+"/tasks/a:dismiss", `{"reason":"ended by hand"}`); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if o := listed(); len(o) != 0 {
		t.Errorf("after the dismissal: %+v", o)
	}
}
