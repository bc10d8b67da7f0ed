package server_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/monitor"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// far plays nodes that never answer, and a cluster that accepts every run for them.
type far struct {
	*memory.Store
	e     *engine.Engine
	woken int
	watch *monitor.Monitor
	says  map[string]monitor.Report // the reports of nodes that answer their peers, by name
	early atomic.Bool               // a node of an earlier version uses the database, too
}

func (f *far) Info(ctx context.Context) (store.Info, error) {
	is, err := f.Store.Info(ctx)
	if f.early.Load() {
		is.Known = is.Format + 1
	}
	return is, err
}

func (*far) Alive(dag.HandlerID) bool                  { return true }
func (*far) Pending(engine.AttemptID) bool             { return false }
func (*far) Report(engine.Report)                      {}
func (*far) Cancel(dag.HandlerID, []dag.Cancel)        {}
func (*far) Nudge(dag.ShardID)                         {}
func (*far) Confirm(dag.HandlerID, []engine.AttemptID) {}
func (f *far) Wake()                                   { f.woken++ }
func (f *far) Submit(ctx context.Context, _ dag.ShardID, s engine.Submission) (engine.Accepted, error) {
	return f.e.Deposit(ctx, s)
}

// newTown starts node-1, which owns all 4 shards. node-2 and node-3 exist only as rows.
func newTown(t *testing.T) (*bed, *far) {
	t.Helper()
	f := &far{Store: memory.New(memory.Options{Shards: 4})}
	b := &bed{t: t, dir: t.TempDir(), db: f, auto: true, exec: newExecutor(true), logs: &logs{text: map[server.LogRef][]byte{}}}
	b.engine = must(engine.New(t.Context(), engine.Config{Store: f, Peers: f, Executor: b.exec, Slots: 4, Node: "node-1",
		Compile: new(workflow.Compiler).Condition, Planner: trigger.New(f.Store)}))
	b.exec.e, f.e = b.engine, b.engine
	b.level.is = "info"
	f.watch, f.says = newWatch(f), map[string]monitor.Report{}
	b.srv = must(server.New(server.Config{Engine: b.engine, Cluster: f, Monitor: f.watch, Logs: b.logs, Tokens: memory.New(memory.Options{}), Classes: memory.New(memory.Options{}), GitSources: f, Git: b.gitSyncer, Version: "1.2.3", LogLevel: &b.level,
		Node: server.Node{Name: "node-1", Roles: []string{"api", "scheduler"}}}))
	b.http = httptest.NewServer(auth.AsLocal(b.srv.Handler()))
	b.client = must(skein.New(b.http.URL))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.engine.Run(ctx) }()
	<-b.engine.Ready()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("engine: %v", err)
		}
		b.client.Close()
		b.http.Close()
	})
	h := b.engine.Handler()
	f.join(t, store.Member{Handler: h.ID, UUID: h.UUID, Name: "node-1", Address: "http://one", Version: "1.2.3", Slots: 4})
	for _, name := range []string{"node-3", "node-2"} {
		h := must(f.Register(t.Context(), "0190000"+name[5:]+"-0000-7000-8000-000000000000", name))
		f.join(t, store.Member{Handler: h.ID, UUID: h.UUID, Name: name, Address: "http://" + name, Version: "1.2.4", Slots: 8, Busy: 3})
	}
	b.own(0, 1, 2, 3)
	b.readSpec()
	return b, f
}

func (f *far) join(t *testing.T, m store.Member) {
	t.Helper()
	m.State = store.MemberActive
	if err := f.Join(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func (b *bed) own(shards ...dag.ShardID) {
	b.t.Helper()
	if got, err := b.engine.Own(b.t.Context(), shards); err != nil || !slices.Equal(got, shards) {
		b.t.Fatalf("owns %v, want %v: %v", got, shards, err)
	}
}

func TestMembers(t *testing.T) {
	b, f := newTown(t)
	nodes := want[api.List[api.Node]](t, b.get("/api/v1/nodes"), 200).Items
	if len(nodes) != 3 || nodes[0].Name != "node-1" || nodes[1].Name != "node-2" || nodes[2].Name != "node-3" {
		t.Fatalf("%+v", nodes)
	}
	one, two := nodes[0], nodes[1]
	if one.Shards.Owned != 4 || !slices.Equal(one.Shards.List, []int32{0, 1, 2, 3}) || one.State != "active" || one.Slots != (api.Slots{Total: 4}) ||
		one.SeenAt == nil || one.Lag < 0 || one.Roles[1] != "scheduler" || *one.Address != "http://one" || one.StartedAt.IsZero() {
		t.Errorf("%+v", one)
	}
	if two.Shards.Owned != 0 || two.Version != "1.2.4" || two.Slots != (api.Slots{Total: 8, Busy: 3}) {
		t.Errorf("%+v", two)
	}
	if n := want[api.Node](t, b.get("/api/v1/nodes/node-2"), 200); n.Name != "node-2" {
		t.Errorf("%+v", n)
	}
	wantProblem(t, b.get("/api/v1/nodes/node-9"), 404, api.ProblemNotFound)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, b.get("/api/v1/nodes"), 503, api.ProblemUnavailable)
	wantProblem(t, b.post("/api/v1/nodes/node-2:cordon", ""), 503, api.ProblemUnavailable)
	wantProblem(t, b.post("/api/v1/admin/scheduler:stop", ""), 503, api.ProblemUnavailable)
}

func TestCordon(t *testing.T) {
	b, f := newTown(t)
	node := func(verb string) api.Node {
		t.Helper()
		return want[api.Node](t, b.post("/api/v1/nodes/node-2:"+verb, ""), 202)
	}
	for range 2 {
		if n := node("cordon"); n.State != "cordoned" || !n.Cordoned {
			t.Errorf("%+v", n)
		}
	}
	if f.woken != 1 {
		t.Errorf("woken %d times by one change", f.woken)
	}
	if o := must(f.Orders(t.Context())); len(o) != 1 || o[0].Actor == "" {
		t.Errorf("orders %+v", o)
	}
	if n := node("drain"); n.State != "cordoned" {
		t.Errorf("%+v", n)
	}
	members, _, _ := f.Members(t.Context())
	m := members[slices.IndexFunc(members, func(m store.Member) bool { return m.Name == "node-2" })]
	m.State = store.MemberDrained
	must(f.Renew(t.Context(), m))
	if n := want[api.Node](t, b.get("/api/v1/nodes/node-2"), 200); n.State != "drained" || !n.Cordoned {
		t.Errorf("%+v", n)
	}
	wantProblem(t, b.post("/api/v1/shards/1:move", `{"node":"node-2"}`), 409, api.ProblemConflict)
	if n := node("uncordon"); n.State != "active" || n.Cordoned {
		t.Errorf("%+v", n)
	}
	node("uncordon")
	// The order stays although the node ends, and can be withdrawn while the node is away.
	node("cordon")
	if err := f.Leave(t.Context(), m.Handler); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, b.post("/api/v1/nodes/node-2:cordon", ""), 404, api.ProblemNotFound)
	if n := node("uncordon"); n.State != "absent" {
		t.Errorf("%+v", n)
	}
	wantProblem(t, b.post("/api/v1/nodes/node-2:uncordon", ""), 404, api.ProblemNotFound)
	wantProblem(t, b.post("/api/v1/nodes/a%00b:uncordon", ""), 404, api.ProblemNotFound)
	wantProblem(t, b.post("/api/v1/nodes/%ff:uncordon", ""), 404, api.ProblemNotFound)
	wantProblem(t, b.post("/api/v1/nodes/node-1:dance", ""), 404, api.ProblemNotFound)
}

func TestMove(t *testing.T) {
	b, f := newTown(t)
	w := b.apply("w")
	of := must(f.Workflow(t.Context(), w.Namespace, "w"))
	sh := want[api.Shard](t, b.post("/api/v1/workflows/default/w:move", `{"node":"node-3"}`), 202)
	if sh.ID != int32(of.Shard) || *sh.MovedTo != "node-3" || *sh.Owner != "node-1" || sh.Workflows != 1 {
		t.Errorf("%+v", sh)
	}
	if n := want[api.Node](t, b.get("/api/v1/nodes/node-3"), 200); !slices.Equal(n.Shards.Moved, []int32{sh.ID}) {
		t.Errorf("%+v", n)
	}
	if sh := want[api.Shard](t, b.post(fmt.Sprintf("/api/v1/shards/%d:move", of.Shard), `{"node":"-"}`), 202); sh.MovedTo != nil {
		t.Errorf("%+v", sh)
	}
	for path, status := range map[string]int{"/shards/4:move": 404, "/shards/-1:move": 422, "/shards/x:move": 422, "/workflows/default/x:move": 404} {
		if a := b.post("/api/v1"+path, `{"node":"node-3"}`); a.status != status {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	wantProblem(t, b.post("/api/v1/shards/1:move", `{"node":"node-9"}`), 404, api.ProblemNotFound)
	wantProblem(t, b.post("/api/v1/shards/1:move", `{}`), 422, api.ProblemInvalid)
}

func TestScheduler(t *testing.T) {
	b, f := newTown(t)
	post := func(what string) api.Scheduler {
		t.Helper()
		return want[api.Scheduler](t, b.post("/api/v1/admin/scheduler:"+what, "", api.HeaderClaimedBy, "ada"), 202)
	}
	if s := post("stop?node=node-2"); s.Stopped || !slices.Equal(s.Nodes, []string{"node-2"}) {
		t.Errorf("%+v", s)
	}
	if n := want[api.Node](t, b.get("/api/v1/nodes/node-2"), 200); n.State != "stopped" || !n.Stopped || n.Cordoned {
		t.Errorf("%+v", n)
	}
	if s := post("start?node=node-2"); s.Stopped || len(s.Nodes) != 0 {
		t.Errorf("%+v", s)
	}
	post("stop?node=node-3")
	for range 2 {
		if s := post("stop"); !s.Stopped || *s.User != "local (ada)" || s.StoppedAt.IsZero() {
			t.Errorf("%+v", s)
		}
	}
	for _, n := range want[api.List[api.Node]](t, b.get("/api/v1/nodes"), 200).Items {
		if n.State != "stopped" {
			t.Errorf("%+v", n)
		}
	}
	wantProblem(t, b.post("/api/v1/admin/scheduler:start?node=node-3", ""), 409, api.ProblemConflict)
	wantProblem(t, b.post("/api/v1/admin/scheduler:stop?node=node-9", ""), 404, api.ProblemNotFound)
	if s := post("start"); s.Stopped || len(s.Nodes) != 0 || s.User != nil {
		t.Errorf("%+v", s)
	}
	if s := want[api.Scheduler](t, b.get("/api/v1/admin/scheduler"), 200); s.Stopped || len(s.Nodes) != 0 {
		t.Errorf("%+v", s)
	}
	if o := must(f.Orders(t.Context())); len(o) != 0 {
		t.Errorf("orders %+v", o)
	}
}

// TestPlanOfAnEarlierOwner: a plan with values goes to the owner of the source. It is refused while a node of
// an earlier version may be the owner, because that node would plan with the stored values.
func TestPlanOfAnEarlierOwner(t *testing.T) {
	b, f := newTown(t)
	const at, values = "/api/v1/git-sources/shop/flows", `{"url":"https://git.example.com/flows.git"}`
	want[api.GitSource](t, b.do("PUT", at, values, "Content-Type", "application/json"), 200)
	b.own()
	for _, early := range []bool{false, true} {
		f.early.Store(early)
		a := b.post(at+":plan", values)
		if passed := strings.HasPrefix(a.header.Get("X-Skein-Elsewhere"), "shard "); passed == early {
			t.Errorf("with a node of an earlier version %t: passed on %t: %d %s", early, passed, a.status, a.body)
		}
		if early {
			wantProblem(t, a, 409, api.ProblemConflict)
		}
	}
}

// TestStartWithoutOwner: a run on a shard without an owner is accepted once, and continues when the shard has
// an owner.
func TestStartWithoutOwner(t *testing.T) {
	b, _ := newTown(t)
	b.apply("w")
	b.own()
	start := func(status int, body string, header ...string) api.Run {
		t.Helper()
		return want[api.Run](t, b.post("/api/v1/runs", body, header...), status)
	}
	one := start(202, `{"workflow":"w","params":{"n":3}}`)
	if one.State != "submitted" || fmt.Sprint(one.Params["n"]) != "3" {
		t.Errorf("%+v", one)
	}
	keyed := start(202, `{"workflow":"w","idempotency_key":"k"}`)
	if again := start(200, `{"workflow":"w","idempotency_key":"k"}`); again.ID != keyed.ID {
		t.Errorf("under the same key %s and %s", keyed.ID, again.ID)
	}
	wantProblem(t, b.post("/api/v1/runs", `{"workflow":"w","idempotency_key":"k","priority":"high"}`), 409, api.ProblemIdempotency)
	wantProblem(t, b.post("/api/v1/runs", `{"workflow":"w","params":{"n":"x"}}`), 422, api.ProblemInvalidParams)
	waited := start(202, `{"workflow":"w"}`, "Prefer", "wait=1")
	if waited.State != "submitted" {
		t.Errorf("%+v", waited)
	}
	a := b.post("/api/v1/runs/"+one.ID+":stop", "")
	if a.status != 503 || !strings.HasPrefix(a.header.Get("X-Skein-Elsewhere"), "shard ") {
		t.Errorf("a verb has to go to an owner: %d %s", a.status, a.body)
	}
	b.own(0, 1, 2, 3)
	for _, id := range []string{one.ID, keyed.ID, waited.ID} {
		if run := want[api.Run](t, b.get("/api/v1/runs/"+id, "Prefer", "wait=60"), 200); run.State != "succeeded" {
			t.Errorf("%+v", run)
		}
	}
}

// level is the last change of a log level, and its caller.
type level struct{ is, by string }

func (l *level) Level() string             { return l.is }
func (l *level) SetLevel(level, by string) { l.is, l.by = level, by }

// TestLogLevel: a node changes the level of its own log. A call that names another node is passed on to that
// node. The answer to a call that names a worker says what to do.
func TestLogLevel(t *testing.T) {
	b, f := newTown(t)
	f.join(t, store.Member{Handler: must(f.Register(t.Context(), "01900009-0000-7000-8000-000000000000", "w1")).ID, Name: "w1", Worker: true})
	if l := want[api.LogLevel](t, b.get("/api/v1/nodes/node-1/log-level"), 200); l.Node != "node-1" || l.Level != "info" {
		t.Errorf("%+v", l)
	}
	if l := want[api.LogLevel](t, b.post("/api/v1/nodes/node-1:log-level", `{"level":"debug"}`), 200); l.Level != "debug" || b.level.is != "debug" {
		t.Errorf("%+v, %+v", l, b.level)
	}
	for _, a := range []answer{b.get("/api/v1/nodes/node-2/log-level"), b.post("/api/v1/nodes/node-2:log-level", `{"level":"warn"}`)} {
		if a.status != 503 || !strings.HasPrefix(a.header.Get("X-Skein-Elsewhere"), "handler ") {
			t.Errorf("%d %v", a.status, a.header)
		}
	}
	wantProblem(t, b.post("/api/v1/nodes/w1:log-level", `{"level":"warn"}`), 409, api.ProblemConflict)
	wantProblem(t, b.post("/api/v1/nodes/node-9:log-level", `{"level":"warn"}`), 404, api.ProblemNotFound)
	wantProblem(t, b.post("/api/v1/nodes/node-1:log-level", `{"level":"loud"}`), 422, api.ProblemInvalid)
	if b.level.is != "debug" {
		t.Errorf("the level is %s", b.level.is)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, b.get("/api/v1/nodes/node-1/log-level"), 503, api.ProblemUnavailable)
}

// TestAlone: a node without a cluster is the only one in the list, and refuses orders.
func TestAlone(t *testing.T) {
	b := newBed(t, true)
	b.apply("w")
	n := want[api.List[api.Node]](t, b.get("/api/v1/nodes"), 200).Items[0]
	if n.State != "running" || n.Shards.Owned != 1 || n.SeenAt != nil || n.Lag != 0 || n.Cordoned || n.Stopped ||
		n.OrdersRefused == nil || !strings.Contains(*n.OrdersRefused, "alone") {
		t.Errorf("%+v", n)
	}
	want[api.Node](t, b.get("/api/v1/nodes/node-1"), 200)
	if l := want[api.LogLevel](t, b.post("/api/v1/nodes/node-1:log-level", `{"level":"warn"}`), 200); l.Level != "warn" || b.level.is != "warn" {
		t.Errorf("%+v, %+v", l, b.level)
	}
	wantProblem(t, b.get("/api/v1/nodes/node-2/log-level"), 404, api.ProblemNotFound)
	for _, path := range []string{"/nodes/node-1:cordon", "/nodes/node-1:uncordon", "/nodes/node-1:drain", "/admin/scheduler:stop", "/admin/scheduler:start"} {
		wantProblem(t, b.post("/api/v1"+path, ""), 409, api.ProblemConflict)
	}
	for _, path := range []string{"/shards/0:move", "/workflows/default/w:move"} {
		wantProblem(t, b.post("/api/v1"+path, `{"node":"node-1"}`), 409, api.ProblemConflict)
	}
	if s := want[api.Scheduler](t, b.get("/api/v1/admin/scheduler"), 200); s.Stopped {
		t.Errorf("%+v", s)
	}
}

// TestHandlersAreNamedPublicly shows the public name of a handler wherever an answer names one, and never its uuid:
// the uuid proves to a node that a call is a worker's.
func TestHandlersAreNamedPublicly(t *testing.T) {
	held, ended := newBed(t, false), newBed(t, true)
	for _, b := range []*bed{held, ended} {
		b.apply("flow")
	}
	run, over := held.run("flow"), ended.run("flow")
	<-held.exec.got
	town, _ := newTown(t)
	id := held.engine.Handler().UUID
	for _, c := range []struct {
		b     *bed
		path  string
		names bool
	}{
		{held, "/nodes", true},
		{held, "/runs?include=tasks", false},
		{held, "/runs/" + run.ID, true},
		{held, "/runs/" + run.ID + "/tasks", true},
		{held, "/runs/" + run.ID + "/tasks/a", true},
		{held, "/runs/" + run.ID + "/tasks/a/explain", true},
		{held, "/runs/" + run.ID + "/explain", true},
		{held, "/runs/" + run.ID + "/timeline", false},
		{held, "/runs/" + run.ID + "/events", false},
		{ended, "/runs/" + over.ID, true},
		{ended, "/runs/" + over.ID + "/tasks", true},
		{ended, "/runs/" + over.ID + "/tasks/a", true},
		{town, "/nodes", true},
	} {
		is, body := c.b.engine.Handler().UUID, string(c.b.get("/api/v1"+c.path).body)
		if strings.Contains(body, is) || strings.Contains(body, "01900002-0000") {
			t.Errorf("%s shows the uuid of a handler: %s", c.path, body)
		}
		if c.names && !strings.Contains(body, store.PublicID(is)) {
			t.Errorf("%s does not name the handler: %s", c.path, body)
		}
	}
	if store.PublicID("") != "" || len(store.PublicID(id)) != len(id) {
		t.Errorf("the public name of %s is %s", id, store.PublicID(id))
	}
}
