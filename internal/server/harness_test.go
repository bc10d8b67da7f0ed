package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/people"
	"skein.dev/skein/internal/sealed"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
	"skein.dev/skein/internal/store/sqlite"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// executor lets every attempt succeed at once, or holds the attempt until the test ends it.
type executor struct {
	e    *engine.Engine
	auto bool
	// fails makes attempts fail that would succeed at once.
	fails atomic.Bool
	got   chan engine.Assignment // held attempts, in order

	mu   sync.Mutex // protects following fields
	held map[engine.Assignment]bool
}

func newExecutor(auto bool) *executor {
	return &executor{auto: auto, got: make(chan engine.Assignment, 10_000), held: map[engine.Assignment]bool{}}
}

func (x *executor) Start(as []engine.Assignment) {
	for _, a := range as {
		if x.auto && x.fails.Load() {
			x.report(a, dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, ExitCode: 1})
			continue
		}
		if x.auto {
			x.report(a, dag.Result{State: dag.AttemptSucceeded, Outputs: []byte(`{"rows":7}`)})
			continue
		}
		x.mu.Lock()
		x.held[a] = true
		x.mu.Unlock()
		x.got <- a
	}
}

func (x *executor) Cancel(cs []dag.Cancel) {
	for _, c := range cs {
		x.mu.Lock()
		var found engine.Assignment
		for a := range x.held {
			if a.Run == c.Run && a.Task == c.Task && a.Token == c.Token {
				found = a
			}
		}
		delete(x.held, found)
		x.mu.Unlock()
		if found.Token != 0 {
			x.report(found, dag.Result{State: dag.AttemptStopped, Signal: "SIGTERM"})
		}
	}
}

func (x *executor) Running(run dag.RunID, task dag.TaskID, token dag.Token) bool { return false }
func (x *executor) Live(run dag.RunID, task dag.TaskID, token dag.Token) bool    { return false }

// end ends a held attempt.
func (x *executor) end(a engine.Assignment, r dag.Result) {
	x.mu.Lock()
	delete(x.held, a)
	x.mu.Unlock()
	x.report(a, r)
}

func (x *executor) report(a engine.Assignment, r dag.Result) {
	r.Exited = r.State != dag.AttemptStopped
	r.Started, r.Finished = dag.Micro(time.Now()), dag.Micro(time.Now())
	x.e.Report(engine.Report{Run: a.Run, Task: a.Task, Token: a.Token, Result: r})
}

func succeeded() dag.Result { return dag.Result{State: dag.AttemptSucceeded} }

// logs are growing texts in memory.
type logs struct {
	mu   sync.Mutex // protects following fields
	text map[server.LogRef][]byte
	gone int64  // bytes at the beginning of each log that are deleted
	goes int64  // bytes that will be deleted at the next read
	bug  bool   // opening a log panics
	more string // added to each log when its size is read

	index map[server.LogRef][]byte // the indexes of the logs
	puts  int                      // indexes that were stored
}

func (l *logs) add(ref server.LogRef, s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text[ref] = append(l.text[ref], s...)
}

func (l *logs) Open(_ context.Context, ref server.LogRef) (server.LogReader, error) {
	ref.Index, ref.Handler = 0, 0 // the names in ref identify the log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bug {
		panic("a bug in the source of logs")
	}
	if l.text[ref] == nil {
		return nil, fs.ErrNotExist
	}
	return &logReader{l, ref}, nil
}

type logReader struct {
	l   *logs
	ref server.LogRef
}

func (r *logReader) ReadAt(p []byte, off int64) (int, error) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if r.l.gone = max(r.l.gone, r.l.goes); off < r.l.gone {
		return 0, fs.ErrNotExist
	}
	n := copy(p, r.l.text[r.ref][off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (r *logReader) Size() (int64, error) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	size := int64(len(r.l.text[r.ref]))
	r.l.text[r.ref] = append(r.l.text[r.ref], r.l.more...)
	return size, nil
}

func (r *logReader) First(at int64) int64 {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	return max(at, r.l.gone)
}

func (r *logReader) Close() error { return nil }

func (r *logReader) Index() ([]byte, error) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if r.l.index[r.ref] == nil {
		return nil, fs.ErrNotExist
	}
	return r.l.index[r.ref], nil
}

func (r *logReader) PutIndex(records []byte) error {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	r.l.index[r.ref] = records
	r.l.puts++
	return nil
}

// secrets holds the secrets of every namespace. The secret slow arrives when its context ends.
type secrets map[string]string

func (s secrets) Secret(ctx context.Context, _, name string) ([]byte, error) {
	if name == "slow" {
		<-ctx.Done()
	}
	if text, ok := s[name]; ok {
		return []byte(text), nil
	}
	return nil, errors.New("unknown secret " + name)
}

// bed is a node over a database that outlives the node.
type bed struct {
	away   dag.Micros // time since which the sources of the node are away; 0 if the node runs no sources
	t      *testing.T
	dir    string
	auto   bool
	exec   *executor
	frozen *frozen // if it is set before start, it is between the engine and the store
	engine *engine.Engine
	db     store.Store // the store that this life of the node has opened
	logs   *logs
	level  level
	said   *said // if it is set before start, it is the log of the server
	srv    *server.Server
	http   *httptest.Server
	client *skein.Client
	tokens *memory.Store
	spec   *spec
	stop   func()
	// signsIn gives the server sessions at its next start, and definer makes it define the inputs of tasks.
	signsIn  bool
	sessions *auth.Sessions
	definer  server.Definer

	violations []inspect.Violation
	clock      clock
	slotsStuck atomic.Int64 // how long the slot broker has been stuck, as it reports
}

// clock is a machine whose clock can be set forward.
type clock struct {
	host.Machine
	ahead atomic.Int64
}

func (c *clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// sourceOf returns the same state for every source of the node.
func (b *bed) sourceOf(store.TriggerKey) (int64, dag.Micros, string, bool) {
	return 7, b.away, "no route", b.away != 0
}

func newBed(t *testing.T, auto bool) *bed {
	t.Helper()
	b := &bed{t: t, dir: t.TempDir(), auto: auto, logs: &logs{text: map[server.LogRef][]byte{}, index: map[server.LogRef][]byte{}}}
	b.start()
	t.Cleanup(func() { b.stop() })
	return b
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (b *bed) start() {
	b.t.Helper()
	st := must(sqlite.Open(filepath.Join(b.dir, "skein.db")))
	b.db, b.exec = st, newExecutor(b.auto)
	var under store.Store = st
	if b.frozen != nil {
		b.frozen.Store, under = st, b.frozen
	}
	b.engine = must(engine.New(b.t.Context(), engine.Config{Store: under, Executor: b.exec, Slots: 4, Node: "node-1", Compile: new(workflow.Compiler).Condition, Planner: trigger.New(st), Rules: alert.Rules, QuotasEach: time.Hour, Host: &b.clock}))
	b.exec.e = b.engine
	b.tokens = memory.New(memory.Options{})
	if b.signsIn {
		b.sessions = auth.NewSessions(b.tokens)
	}
	var log *slog.Logger
	if b.said != nil {
		log = slog.New(slog.NewTextHandler(b.said, nil))
	}
	b.srv = must(server.New(server.Config{Log: log, SlotsStuckFor: func() time.Duration { return time.Duration(b.slotsStuck.Load()) }, Engine: b.engine, Logs: b.logs, Tokens: b.tokens, Access: b.tokens, Sessions: b.sessions, Definer: b.definer, Passwords: people.New(b.tokens), Classes: st, Alerts: st, Connections: st, GitSources: st, Git: b.gitSyncer, Events: st, Source: b.sourceOf, Connector: connector{}, Secrets: secrets{"hook": "s3cret"}, Sealed: &sealed.Book{Store: st, File: filepath.Join(b.dir, "access", "secret.key"), Own: true}, Version: "1.2.3", LogLevel: &b.level, Listen: "skein.example:8080", Protected: []string{b.dir},
		Node: server.Node{Name: "node-1", Roles: []string{"api"}}, Verify: func(context.Context) ([]inspect.Violation, error) { return b.violations, nil }}))
	b.http = httptest.NewUnstartedServer(nil)
	b.http.Config = b.srv.HTTP()
	b.http.Config.Handler = auth.AsLocal(b.http.Config.Handler)
	b.http.Start()
	b.client = must(skein.New(b.http.URL))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.engine.Run(ctx) }()
	<-b.engine.Ready()
	b.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Errorf("engine: %v", err)
		}
		b.client.Close()
		b.http.Close()
		if err := st.Close(); err != nil {
			b.t.Errorf("store: %v", err)
		}
	}
	if b.spec == nil {
		b.readSpec()
	}
}

// sharedSpec is the document of all servers of the tests, because reading it and compiling its schemas takes
// longer than the start of a server.
var sharedSpec struct {
	sync.Once
	*spec
}

func (b *bed) readSpec() {
	b.t.Helper()
	sharedSpec.Do(func() { sharedSpec.spec = readSpec(b.t, b.get(openAPI).body) })
	b.spec = sharedSpec.spec
}

const openAPI = "/api/v1/openapi.json"

func (b *bed) restart() {
	b.t.Helper()
	b.stop()
	b.start()
}

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request and checks the answer against the OpenAPI document.
func (b *bed) do(method, path, body string, header ...string) answer {
	b.t.Helper()
	req := must(http.NewRequestWithContext(b.t.Context(), method, b.http.URL+path, strings.NewReader(body)))
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := b.http.Client().Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	a := answer{resp.StatusCode, resp.Header, string(must(io.ReadAll(resp.Body)))}
	if b.spec != nil {
		b.spec.check(b.t, method, path, a)
	}
	return a
}

func (b *bed) get(path string, header ...string) answer {
	b.t.Helper()
	return b.do("GET", path, "", header...)
}

func (b *bed) post(path, body string, header ...string) answer {
	b.t.Helper()
	return b.do("POST", path, body, header...)
}

// want decodes an answer with a status into a T.
func want[T any](t *testing.T, a answer, status int) T {
	t.Helper()
	var v T
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	return v
}

func wantProblem(t *testing.T, a answer, status int, kind string) api.Problem {
	t.Helper()
	p := want[api.Problem](t, a, status)
	if p.Type != kind || p.Code != api.CodeOf(kind) || p.Status != status || p.Detail == "" || p.Title == "" || p.Instance == "" {
		t.Errorf("problem %+v, want %s", p, kind)
	}
	if ct := a.header.Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("content type %q", ct)
	}
	return p
}

const diamond = `
name: %s
description: four tasks
params:
  day: {type: string, default: monday}
  n: {type: int, default: 1}
tasks:
  a: {run: "true", outputs: {rows: int}}
  b: {needs: a, run: "true"}
  c: {needs: a, run: "true"}
  d: {needs: [b, c], run: "true"}
`

// apply applies the workflow name in the default namespace, and returns the result.
func (b *bed) apply(name string) api.Applied {
	b.t.Helper()
	a := b.do("PUT", "/api/v1/workflows/default/"+name, fmt.Sprintf(diamond, name), "Content-Type", "application/yaml")
	if a.status != 201 && a.status != 200 {
		b.t.Fatalf("apply: %d %s", a.status, a.body)
	}
	return want[api.Applied](b.t, a, a.status)
}

// run starts the workflow name and, if the executor is automatic, waits for the end of the run.
func (b *bed) run(name string) api.Run {
	b.t.Helper()
	if !b.auto {
		return want[api.Run](b.t, b.post("/api/v1/runs", `{"workflow":"`+name+`"}`), 202)
	}
	return want[api.Run](b.t, b.post("/api/v1/runs", `{"workflow":"`+name+`"}`, "Prefer", "wait=60"), 201)
}
