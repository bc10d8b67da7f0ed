package home_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/cluster"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/peer"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/api/worker/v1/workerv1connect"
)

// town is a group of nodes with engines, memberships and homes over one store in memory. They communicate
// over HTTP. They run no attempts themselves.
type town struct {
	testing.TB
	store *memory.Store
	nodes []*node
	logs  *paper
	files artifact.Folder
}

type node struct {
	name string
	e    *engine.Engine
	m    *cluster.Node
	h    *home.Home
	http *httptest.Server
	die  func()
}

// TestMain runs eight tests concurrently: nearly all of the time, they wait for a heartbeat of the node.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const (
	beat = 200 * time.Millisecond
	lag  = 20 * time.Second // more than any machine needs
)

func newTown(t testing.TB, nodes int, change ...func(*home.Config)) *town {
	tn := &town{TB: t, store: memory.New(memory.Options{Shards: 8}), logs: &paper{}, files: artifact.Folder{Path: t.TempDir()}}
	for i := range nodes {
		tn.nodes = append(tn.nodes, tn.node(fmt.Sprint("n", i+1), change...))
	}
	tn.until("every node owns its share", func() bool {
		for _, n := range tn.nodes {
			_, shards := n.m.View()
			own := 0
			for _, s := range shards {
				if s.Owner == n.e.Handler().ID {
					own++
				}
			}
			if own < 8/nodes {
				return false
			}
		}
		return true
	})
	return tn
}

// nothing is an executor without slots.
type nothing struct{}

func (nothing) Start([]engine.Assignment)                     {}
func (nothing) Cancel([]dag.Cancel)                           {}
func (nothing) Running(dag.RunID, dag.TaskID, dag.Token) bool { return false }
func (nothing) Live(dag.RunID, dag.TaskID, dag.Token) bool    { return false }
func (nothing) Left(dag.RunID)                                {}
func (nothing) Refused(err error) dag.Result {
	return dag.Result{State: dag.AttemptFailed, Message: err.Error()}
}
func (nothing) Files(context.Context, dag.RunID, dag.WorkflowID, int32) ([]*workerv1.File, error) {
	return nil, nil
}

func (nothing) Inputs(_ context.Context, run dag.RunID, t dag.TaskID) ([]artifact.Input, error) {
	return inputsOf(run, t)
}

func (nothing) ReadInput(_ context.Context, in *artifact.Input, offset int64) ([]byte, error) {
	return readInput(in, offset)
}

func (nothing) Job(_ context.Context, a *engine.Assignment, _ *store.Traits, _ bool) (*workerv1.Job, engine.Reading, error) {
	return &workerv1.Job{Namespace: "test", Workflow: "w", Task: a.Name, Argv: []string{"true"}, Artifacts: []string{"*"}}, engine.Reading{}, nil
}

func (nothing) Names(_ context.Context, _ dag.RunID, t dag.TaskID) (home.Names, error) {
	return home.Names{Namespace: "test", Workflow: "w", Task: fmt.Sprint("t", t), Artifacts: true}, nil
}

// paper keeps the logs of every known attempt in memory.
type paper struct {
	mu   sync.Mutex // protects following fields
	text map[logs.Ref]string
}

func (p *paper) Keep() int64 { return 0 }

func (p *paper) Append(_ context.Context, chunks []logs.Chunk) ([]int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.text == nil {
		p.text = map[logs.Ref]string{}
	}
	ends := make([]int64, len(chunks))
	for i, c := range chunks {
		p.text[c.Ref] += string(c.Data)
		ends[i] = int64(len(p.text[c.Ref]))
	}
	return ends, nil
}

// boot is the clock of all nodes.
func boot() time.Duration { return time.Since(began) + 1 }

var began = time.Now()

// made holds an engine for parts that are made before the engine.
type made struct{ *engine.Engine }

// senderHeader has the name of the node that sends a call. senderKey is its key of a context. The nodes of
// a town trust the header.
const senderHeader = "X-Test-Sender"

type senderKey struct{}

// node starts a node.
func (t *town) node(name string, change ...func(*home.Config)) *node {
	n := &node{name: name}
	mux := http.NewServeMux()
	n.http = httptest.NewServer(mux)
	h, err := t.store.Register(context.Background(), uuid.NewString(), name)
	if err != nil {
		t.Fatal(err)
	}
	made := &made{}
	calls := peer.NewCaller(http.DefaultTransport, "", func(r *http.Request, _ []byte) error { r.Header.Set(senderHeader, name); return nil })
	n.m = cluster.New(cluster.Config{Store: t.store, Owner: made, Boot: boot, Beat: beat, Lag: lag,
		Self: store.Member{Handler: h.ID, UUID: h.UUID, Name: name, Address: n.http.URL, Started: h.Started, Traits: store.Traits{Proves: true}}})
	cfg := home.Config{Directory: n.m, Engine: made, Store: t.store, Register: t.store.Register, Caller: calls, Jobs: nothing{}, Logs: t.logs, Executor: nothing{},
		Artifacts: &artifact.Keeper{Store: t.files, Limits: artifact.Limits{FileBytes: 10, RunBytes: 20, AttemptFiles: 2, RunFiles: 4}},
		Boot:      boot, Beat: beat, Lag: lag, Version: "v1", Format: 1}
	for _, c := range change {
		c(&cfg)
	}
	n.h = home.New(cfg)
	peers := peer.NewClient(calls, n.m, made, slog.New(slog.DiscardHandler))
	made.Engine, err = engine.New(context.Background(), engine.Config{Store: t.store, Executor: nothing{}, Node: name, Peers: peers, Market: n.h,
		Life: &engine.Life{Handler: h}, Compile: func(string) (dag.Condition, error) { return nil, errors.New("no conditions here") }})
	if err != nil {
		t.Fatal(err)
	}
	n.e = made.Engine
	mux.Handle(home.Prefix, home.Handler(n.h))
	between := http.NewServeMux()
	may := peer.NewSpeakers(n.m, func(ctx context.Context) string { name, _ := ctx.Value(senderKey{}).(string); return name }).Check
	n.h.HandlePeers(between, may)
	peer.Handle(between, n.m, n.e, n.h.Cancel, may)
	mux.Handle(peer.Prefix, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer.OnlyJSON(between).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), senderKey{}, r.Header.Get(senderHeader))))
	}))
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = n.e.Run(ctx) })
	<-n.e.Ready()
	wg.Go(func() { _ = n.m.Run(ctx) })
	wg.Go(func() { peers.Run(ctx) })
	wg.Go(func() { n.h.Run(ctx) })
	n.die = sync.OnceFunc(func() {
		stop()
		n.http.CloseClientConnections()
		wg.Wait()
		n.h.Reset()
		n.http.Close()
	})
	t.Cleanup(n.die)
	return n
}

// until waits for a condition. The duration does not matter.
func (t *town) until(what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// apply makes a workflow of independent tasks, one for each placement.
func (t *town) apply(name string, places ...dag.Place) store.Workflow {
	t.Helper()
	var spec dag.GraphSpec
	for i, p := range places {
		spec.Tasks = append(spec.Tasks, dag.TaskSpec{Name: fmt.Sprint("t", i), Policy: dag.Policy{Place: p, Priority: dag.Medium}})
	}
	g, err := dag.NewGraph(spec)
	if err != nil {
		t.Fatal(err)
	}
	var w store.Workflow
	t.somewhere("a workflow is applied", func(e *engine.Engine) (err error) {
		w, _, err = e.Apply(t.Context(), engine.Definition{Namespace: "test", Name: name, Graph: g.Pack(), Digest: g.Pack(), User: "ada"})
		return err
	})
	return w
}

// somewhere calls do at the node that can do it.
func (t *town) somewhere(what string, do func(e *engine.Engine) error) {
	t.Helper()
	t.until(what, func() bool {
		for _, n := range t.nodes {
			err := do(n.e)
			if err == nil {
				return true
			}
			if !errors.Is(err, errkind.ErrUnavailable) {
				t.Fatalf("%s: %v", what, err)
			}
		}
		return false
	})
}

func (t *town) submit(w store.Workflow) dag.RunID {
	t.Helper()
	id := engine.NewRunID()
	t.somewhere("a run is accepted", func(e *engine.Engine) error {
		_, err := e.Submit(t.Context(), engine.Submission{ID: id, Workflow: w, Priority: dag.Medium, Origin: dag.OriginAPI, User: "ada"})
		return err
	})
	return id
}

// rejectedIn reports whether the run's history has a rejected report.
func (t *town) rejectedIn(run dag.RunID) bool {
	t.Helper()
	events, err := t.nodes[0].e.Events(t.Context(), run, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(events, func(v inspect.EventView) bool {
		return slices.ContainsFunc(v.Records, func(r inspect.RecordView) bool { return r.Kind == dag.RecRejected })
	})
}

// hand is a worker whose every call is made by the test.
type hand struct {
	t             *town
	c             workerv1connect.WorkersClient
	uuid          string
	handler       int64
	lease         int64
	ack           int64
	running, done []*workerv1.Attempt
	starts        bool        // its reports request the jobs of the following attempts
	lost          func() bool // whether the answer to a report is lost; nil means never
	again         bool        // the answer to an earlier report was lost
}

// hand registers a worker with a node.
func (t *town) hand(n *node, name string, slots int32, groups ...string) *hand {
	t.Helper()
	h := &hand{t: t, c: workerv1connect.NewWorkersClient(http.DefaultClient, n.http.URL), uuid: uuid.NewString()}
	h.register(name, slots, groups...)
	return h
}

func (h *hand) register(name string, slots int32, groups ...string) {
	h.t.Helper()
	out, err := h.c.Register(h.t.Context(), &workerv1.RegisterRequest{Name: name, Uuid: h.uuid, Handler: h.handler, Slots: slots, Groups: groups, Running: h.running, Ended: h.done, Artifacts: true})
	if err != nil {
		h.t.Fatal(err)
	}
	h.handler, h.lease, h.ack = out.Handler, out.Lease, 0
}

func (h *hand) pollRequest() *workerv1.PollRequest {
	return &workerv1.PollRequest{Handler: h.handler, Lease: h.lease, Uuid: h.uuid, Ack: h.ack, Running: slices.Clone(h.running), Ended: slices.Clone(h.done), Again: h.again}
}

// poll polls once, and takes the attempts of the answer.
func (h *hand) poll() *workerv1.PollResponse {
	h.t.Helper()
	out, err := h.c.Poll(h.t.Context(), h.pollRequest())
	if err != nil {
		h.t.Fatal(err)
	}
	h.ack, h.again = out.Seq, false
	h.begin(out.Start)
	return out
}

func (h *hand) begin(jobs []*workerv1.Job) {
	for _, j := range jobs {
		if !slices.ContainsFunc(h.running, func(a *workerv1.Attempt) bool { return same(a, j.Attempt) }) {
			h.running = append(h.running, j.Attempt)
		}
	}
}

func same(a, b *workerv1.Attempt) bool {
	return a.Run == b.Run && a.Task == b.Task && a.Token == b.Token
}

// get polls until it has n attempts.
func (h *hand) get(n int) {
	h.t.Helper()
	h.t.until(fmt.Sprintf("a worker has %d attempts", n), func() bool { h.poll(); return len(h.running) >= n })
}

func (h *hand) request(results ...*workerv1.Result) *workerv1.ReportRequest {
	return &workerv1.ReportRequest{Handler: h.handler, Lease: h.lease, Uuid: h.uuid, Results: results, Starts: h.starts}
}

// report sends a report until there is a verdict.
func (h *hand) report(r *workerv1.Result) (v workerv1.Verdict) {
	h.t.Helper()
	h.t.until("there is a verdict", func() bool {
		out, err := h.c.Report(h.t.Context(), h.request(r))
		if err != nil {
			h.t.Fatal(err)
		}
		if len(out.Start) > 0 && h.lost != nil && h.lost() {
			h.again = true
		} else {
			h.begin(out.Start)
		}
		v = out.Verdicts[0]
		return v != workerv1.Verdict_VERDICT_UNAVAILABLE
	})
	return v
}

// end reports an attempt that it has as succeeded, and forgets it.
func (h *hand) end(a *workerv1.Attempt) workerv1.Verdict {
	h.t.Helper()
	v := h.report(good(a))
	h.running = slices.DeleteFunc(h.running, func(o *workerv1.Attempt) bool { return same(o, a) })
	return v
}

func good(a *workerv1.Attempt) *workerv1.Result {
	return &workerv1.Result{Attempt: a, State: "succeeded", Exited: true, FinishedMicros: 1}
}

// reason returns the code of a rejection.
func reason(err error) string {
	var e *connect.Error
	if !errors.As(err, &e) {
		return fmt.Sprint(err)
	}
	name, _, ok := strings.Cut(e.Message(), ":")
	if !ok || name != strings.ToUpper(name) {
		return e.Code().String()
	}
	return name
}
