// Package server is the gateway: REST, events and logs over an engine. It decides nothing:
// it reads requests, asks the engine, and writes what the wire types of api/v1 say.
//
// Reading order: server.go (what it needs, how a request passes), routes.go (every route),
// problem.go (error kind → status, the one table), then a file per noun.
package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// Config says what a server serves. Engine, Logs, Tokens and Classes are required.
type Config struct {
	Engine *engine.Engine
	Logs   LogSource
	// Secrets are what calls to webhooks are signed with; nil: there are none, no call is
	// taken.
	Secrets Secrets

	Artifacts ArtifactSource // nil: there are none

	Tokens  store.Tokens  // the rights to call
	Classes store.Classes // the resource classes
	// Verify recounts every invariant from what is stored.
	Verify func(context.Context) ([]engine.Violation, error)

	// Remote finds the node of the cluster that has the files of what a handler ran, if that is
	// another one that is there; nil: there is no other.
	Remote func(ctx context.Context, h dag.HandlerID) (dag.HandlerID, bool)
	// Holder finds another node that has what an attempt left behind, when that cannot be known by
	// who ran it; nil: there is no other.
	Holder func(ctx context.Context, ref LogRef) (dag.HandlerID, bool)
	// Neighbours are the other nodes, for streams of events; nil: there are none.
	Neighbours Neighbours
	// Cluster is the one that the node is in; nil: it is alone.
	Cluster Cluster

	LogLevel LogLevel // nil: the process has no log
	// Retention returns the retention of runs whose workflow has none; nil: there is none.
	Retention func() workflow.Retention

	TasksMax int    // of one workflow; 0: dag.TasksMax
	Version  string // of the program
	Node     Node
	Leaving  func() bool // whether the process is about to end, and only waits for what runs; nil: it never is
	// Listen is the address that people reach the server by. Requests for another host are
	// refused, except for those of loopback.
	Listen string
	// UI is the web page; nil: there is none.
	UI *UI
	// SlotsStuckFor is for how long the broker of slots has been late with a round; nil: there is none.
	SlotsStuckFor func() time.Duration
	// AnyHost: requests come under any name, because each has shown a token before it is here.
	AnyHost bool
	// Metrics are more numbers for /metrics.
	Metrics []metric.Source
	Log     *slog.Logger
}

// Node is what the process says of itself.
type Node struct {
	Name    string
	Roles   []string
	Started time.Time
}

// Secrets finds secrets by their names.
type Secrets interface {
	Secret(ctx context.Context, namespace, name string) ([]byte, error)
}

// LogRef names the log of one attempt.
type LogRef struct {
	Namespace, Workflow string
	Run                 dag.RunID
	Task                string
	Index               dag.TaskID // of the task
	Attempt             dag.Token
	Handler             dag.HandlerID // that has, or had, the attempt; 0: nobody yet, or it is not asked for
}

// LogSource finds logs. An attempt that has written nothing (yet) is fs.ErrNotExist.
type LogSource interface {
	Open(ctx context.Context, ref LogRef) (LogReader, error)
}

// LogReader reads a log that may still grow.
type LogReader interface {
	io.ReaderAt
	io.Closer
	// Size is where the log ends now.
	Size() (int64, error)
	// First is where reading can begin that was to begin at an offset: there, or at the first byte that is kept.
	// It may take seconds to find out.
	First(at int64) int64
}

// Bounds of a request.
const (
	jsonBytesMax  = 1 << 20
	applyBytesMax = 32 << 20
	// backfillBytesMax has room for dag.InstantsMax instants.
	backfillBytesMax = 8 << 20
	hooksMax         = 64 // calls to webhooks that are looked at, or wait for their commit, at a time
	headerBytesMax   = 64 << 10
	depthMax         = 100 // of JSON
	headerTimeout    = 10 * time.Second
	idleTimeout      = 2 * time.Minute
	writeTimeout     = 30 * time.Second // of one write of a stream
	waitMax          = 5 * time.Minute  // Prefer: wait
	readMax          = 10 * time.Second // of one read of the store
	answerBytesMax   = 8 << 20          // of a list: a page ends before it and goes on with next
	pageDefault      = 100
	pageMax          = 1000
	tasksInRunMax    = 1000
)

// Server is the gateway of one node.
type Server struct {
	cfg     Config
	log     *slog.Logger
	builtin systemWorkflow
	engine  *engine.Engine
	defs    definitions
	runs    runNames
	layouts *layouts
	metrics *metrics
	mux     *http.ServeMux
	adapter *adapter
	access  access.Routes // those that have a handler
	api     huma.API
	guard   guard
	hooks   places

	toldMu sync.Mutex           // protects told
	told   map[string]time.Time // what the log was told of webhooks, and when

	heavy   weights
	bulks   places
	batches places

	recounts places
	zips     places // of answers that are compressed
	page     *page
	through  http.Handler // by which verbs on single runs find who has them
}

// New makes a server.
func New(cfg Config) (*Server, error) {
	if cfg.Engine == nil || cfg.Logs == nil || cfg.Tokens == nil || cfg.Classes == nil {
		return nil, errors.New("server: Engine, Logs, Tokens and Classes are required")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Artifacts == nil {
		cfg.Artifacts = noArtifacts{}
	}
	if cfg.TasksMax == 0 {
		cfg.TasksMax = dag.TasksMax
	}
	if cfg.Retention == nil {
		cfg.Retention = func() workflow.Retention { return workflow.Retention{} }
	}
	s := &Server{cfg: cfg, log: cfg.Log, engine: cfg.Engine, mux: http.NewServeMux(), guard: newGuard(cfg.Listen),
		layouts: newLayouts(), hooks: make(places, hooksMax), told: map[string]time.Time{}}
	s.bulks, s.batches = make(places, bulksMax), make(places, batchesMax)
	s.recounts, s.zips = make(places, 1), zips()
	s.through = s.Handler()
	s.guard.any = cfg.AnyHost
	var err error
	if s.page, err = newPage(cfg.UI); err != nil {
		return nil, err
	}
	s.metrics = newMetrics(&cfg)
	s.adapter = newAdapter(s)
	s.api = huma.NewAPI(s.humaConfig(), s.adapter)
	s.routes()
	if err := s.plain(); err != nil {
		return nil, err
	}
	return s, s.access.Err(func(of access.Of) bool { return of != access.OfWorker && of != access.OfNode })
}

// Forget drops the definitions that a server has read. Call it when the database has gone back: another
// version can get the number of a lost one.
func Forget(s *Server) { s.defs.forget() }

// Handler answers requests. It may be used without a socket.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// Through has verbs on several runs reach each of them by h: what passes on, to the node that has
// it, the requests that the server's own handler does not answer. It is called before the first request.
func (s *Server) Through(h http.Handler) { s.through = h }

// HTTP gives a server with the bounds that the handler relies on. Streams set their own
// deadline for each write, so there is none for the whole answer.
func (s *Server) HTTP() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true) // gRPC of workers
	return &http.Server{
		Handler:           s.Handler(),
		Protocols:         protocols,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytesMax,
		// It would wait for the body of OPTIONS *, past all handlers.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
}

// serve is what every request passes: who may ask, what it is, how it went.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	zip := s.zipping(w, r)
	rec := &recorder{ResponseWriter: zip}
	defer func() {
		if p := recover(); p != nil {
			s.recovered(rec, r, p)
		}
		zip.end()
		s.metrics.request(r, rec.status, time.Since(began))
	}()
	auth.SetHeaders(rec.Header(), r)
	if f := s.guard.check(r); f != nil {
		f.write(rec, r)
		return
	}
	user, f := s.user(r)
	if f != nil {
		f.write(rec, r)
		return
	}
	ctx := context.WithValue(r.Context(), userKey{}, user)
	ctx = context.WithValue(ctx, controllerKey{}, http.NewResponseController(rec))
	if isBulk(r) {
		ctx = context.WithValue(ctx, requestKey{}, r)
	}
	if s.page.takes(r) {
		r.Pattern = "GET /" // for the metrics
		s.page.ServeHTTP(rec, r)
		return
	}
	r2 := r.WithContext(ctx)
	unrouted, pattern := s.mux.Handler(r2)
	if pattern == "" {
		s.unrouted(rec, r2, unrouted)
		return
	}
	if f := plainHeaders(r2, s.adapter.bodies[pattern] > 0); f != nil {
		f.write(rec, r2)
		return
	}
	s.mux.ServeHTTP(rec, r2)
	r.Pattern = r2.Pattern // for the metrics
}

// unrouted answers what no route takes; the mux knows whether only the method is wrong.
func (s *Server) unrouted(w http.ResponseWriter, r *http.Request, h http.Handler) {
	probe := &recorder{ResponseWriter: discard{http.Header{}}}
	h.ServeHTTP(probe, r)
	f := notFound("there is nothing at %s; GET %s lists what there is", r.URL.Path, openAPIPath)
	if allow := probe.Header().Get("Allow"); probe.status == http.StatusMethodNotAllowed {
		f = methodNotAllowed(r.Method, allow)
	}
	f.write(w, r)
}

// recovered answers a panic, unless the answer has begun: then the connection is cut.
func (s *Server) recovered(rec *recorder, r *http.Request, p any) {
	if p == http.ErrAbortHandler {
		panic(p)
	}
	s.log.Error("a request panicked", "code", "request_panicked", "method", r.Method, "path", r.URL.Path, "err", p, "stack", stack())
	if rec.status != 0 {
		panic(http.ErrAbortHandler)
	}
	internal().write(rec, r)
}

// recorder remembers the status.
type recorder struct {
	http.ResponseWriter
	status int
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach flushing and deadlines.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// discard is an answer that nobody reads.
type discard struct{ h http.Header }

func (d discard) Header() http.Header       { return d.h }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}
