// Package server is the gateway: REST, events and logs over an engine. It decides nothing: it reads requests,
// asks the engine, and answers with the wire types of api/v1.
//
// Reading order: server.go (the parts of a server, and how a request passes through them), routes.go (every
// route), problem.go (one table from kinds of errors to statuses), then one file for each noun.
package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/authority"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/identity"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/monitor"
	"skein.dev/skein/internal/people"
	"skein.dev/skein/internal/sealed"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// Config holds the parts of a server. Engine, Logs, Tokens and Classes are required.
type Config struct {
	Engine *engine.Engine
	Logs   LogSource
	// Secrets has the secrets of webhooks. If it is nil, there are none, and every call of a webhook is
	// refused.
	Secrets Secrets
	// Sealed has the secrets that tasks use.
	Sealed *sealed.Book
	// Authority is the internal certificate authority. It is nil if there is no authority.
	Authority *authority.Authority

	// Gateway wraps the server's own handler. It passes a request that this node cannot answer on to the node
	// that can. Verbs on several runs also reach each run through the Gateway. If it is nil, the own handler
	// answers everything.
	Gateway func(own http.Handler) http.Handler

	Artifacts ArtifactSource // nil if there are no artifacts
	Definer   Definer        // nil if the process runs no tasks

	Tokens store.Tokens // the credentials of callers
	Access store.Access // principals, roles and bindings
	// Passwords checks and hashes the passwords of people.
	Passwords *people.Passwords
	// Sessions holds the sessions of people who have signed in at this node. If it is nil, people cannot sign
	// in.
	Sessions *auth.Sessions
	// Providers are the identity providers by which people sign in.
	Providers []*identity.Provider
	// Directory checks names and passwords of people without a local account. It is nil if there is none.
	Directory *identity.Directory
	// PublicURL is the address by which browsers reach the server, without the base path. If it is "", the
	// host of each request is used, provided that the server knows it as its own.
	PublicURL string
	Classes   store.Classes // the resource classes
	// Verify checks every invariant from the rows.
	Verify func(context.Context) ([]inspect.Violation, error)

	// Remote finds the node of the cluster that has the files of a handler's attempts. It returns false if no
	// other present node has them. It is nil if there is no other node.
	Remote func(ctx context.Context, h dag.HandlerID) (dag.HandlerID, bool)
	// Holder finds another node that has the artifacts of an attempt, if the handler that ran the attempt
	// does not tell. It is nil if there is no other node.
	Holder func(ctx context.Context, ref LogRef) (dag.HandlerID, bool)
	// Neighbours gives streams of events access to the other nodes. It is nil if there are none.
	Neighbours Neighbours
	// Workers lists the members that a node without a cluster knows: itself and its workers. It is nil if the
	// node is in a cluster, or the process only reads.
	Workers func() []store.Member
	// Cluster is the cluster of the node. It is nil if the node is alone.
	Cluster Cluster

	LogLevel LogLevel // nil if the process has no log
	// Retention returns the retention of runs whose workflow has none. It is nil if there is none.
	Retention func() workflow.Retention

	Protected []string // files and folders of the node that triggers must not watch

	TasksMax int // the largest number of tasks of a workflow; 0 means dag.TasksMax
	// Input checks the input of a task with a kind. It is nil if the input is not checked.
	Input   func(kind string, with json.RawMessage) error
	Version string // the version of the program
	Node    Node
	// Leaving reports whether the process is ending and only waits for running attempts. It is nil if the process
	// never does that.
	Leaving func() bool
	// Listen is the address of the server. Requests for another host are refused, except for loopback hosts.
	Listen string
	// UI is the web page. It is nil if there is none.
	UI *UI
	// SlotsStuckFor returns by how much the slot broker is late with a round. It is nil if there is no
	// broker.
	SlotsStuckFor func() time.Duration
	// AnyHost allows requests under any host name, because the token of each request was checked before.
	AnyHost bool
	// Auditor is the audit log of the node, and Audits is the store of its rows. If Auditor is nil, calls are
	// not audited.
	Auditor   Auditor
	Audits    store.AuditLog
	AuditKeep func() time.Duration // the age after which rows are deleted; 0 means never
	// Alerts is the store of channels, incidents and notices. It is nil if there are no alerts.
	Alerts store.Alerts
	// Notifier sends test messages. It is nil if the process sends none.
	Notifier Notifier
	// Monitor knows which other nodes this node can reach. It is nil if the process watches no nodes.
	Monitor *monitor.Monitor
	// Connections is the store of the connections of tasks. It is nil if there are none. Connector tests a
	// connection. It is nil if the process tests none.
	Connections store.Connections
	Connector   Connector
	// GitSources is the store of git sources. It is nil if there are none. Git returns the part that reads
	// their repositories. It is nil if the process reads none.
	GitSources store.GitSources
	Git        func() GitSyncer
	Source     SourceState // nil if the process runs no sources
	// Events stores the events that are sent. It is nil if none are accepted.
	Events EventLog
	// Metrics are further sources for /metrics.
	Metrics []metric.Source
	Log     *slog.Logger
}

// Node describes the process.
type Node struct {
	Name    string
	Roles   []string
	Started time.Time
}

// Secrets finds secrets by their names.
type Secrets interface {
	Secret(ctx context.Context, namespace, name string) ([]byte, error)
}

// LogRef identifies the log of one attempt.
type LogRef struct {
	Namespace, Workflow string
	Run                 dag.RunID
	Task                string
	Index               dag.TaskID // the index of the task
	Attempt             dag.Token
	// Handler is the handler that has or had the attempt. It is 0 if there is none yet, or if it is not needed.
	Handler dag.HandlerID
}

// LogSource finds logs. If an attempt has not written anything, the error is fs.ErrNotExist.
type LogSource interface {
	Open(ctx context.Context, ref LogRef) (LogReader, error)
}

// LogReader reads a log, which may still grow.
type LogReader interface {
	io.ReaderAt
	io.Closer
	// Size returns the present end of the log.
	Size() (int64, error)
	// First returns the offset at which a read from an offset can begin: that offset, or the first byte after
	// it that is kept. It may take seconds.
	First(at int64) int64
}

// Bounds of a request.
const (
	jsonBytesMax  = 1 << 20
	applyBytesMax = 32 << 20
	// backfillBytesMax is large enough for dag.InstantsMax instants.
	backfillBytesMax = 8 << 20
	hooksMax         = 64 // concurrent calls of webhooks that are being checked or wait for their commit
	headerBytesMax   = 64 << 10
	depthMax         = 100 // nesting of JSON
	headerTimeout    = 10 * time.Second
	idleTimeout      = 2 * time.Minute
	writeTimeout     = 30 * time.Second // the timeout of one write of a stream
	waitMax          = 5 * time.Minute  // Prefer: wait
	readMax          = 10 * time.Second // the timeout of one read of the store
	answerBytesMax   = 8 << 20          // the bound of a list: a page ends before it, and next continues the list
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
	fans    fans
	layouts *layouts

	lastStart lastStart
	quick     atomic.Int64 // the number of starts that were answered without huma

	metrics *metrics
	mux     *http.ServeMux
	adapter *adapter
	access  access.Routes // the routes that have a handler
	api     huma.API
	guard   guard
	hooks   places

	toldMu sync.Mutex           // protects told
	told   map[string]time.Time // the times of log messages about webhooks, by message

	heavy   weights
	reads   weights // bounds the answers with sources, parameters or outputs, until their clients have read them
	bulks   places
	batches places

	recounts places
	searches places
	indexes  *logIndexes
	zips     places // bounds the answers that are compressed at the same time
	page     *page
	handler  http.Handler // serve behind the gateway; verbs on several runs reach each run through it
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
	s.fans.s = s
	s.bulks, s.batches = make(places, bulksMax), make(places, batchesMax)
	s.recounts, s.zips, s.searches = make(places, 1), zips(), make(places, searchesMax)
	s.indexes = newLogIndexes()
	s.handler = http.HandlerFunc(s.serve)
	if cfg.Gateway != nil {
		s.handler = cfg.Gateway(s.handler)
	}
	s.guard.any = cfg.AnyHost
	var err error
	if s.page, err = newPage(cfg.UI); err != nil {
		return nil, err
	}
	s.metrics = newMetrics(&cfg)
	s.adapter = newAdapter(s)
	s.api = huma.NewAPI(s.humaConfig(), s.adapter)
	s.routes()
	s.plain()
	return s, s.access.Err(func(of access.Of) bool { return of != access.OfWorker && of != access.OfNode })
}

// Forget drops the definitions that a server has cached. It must be called when the database has gone back,
// because another version may then get the number of a lost one.
func Forget(s *Server) { s.defs.forget() }

// Handler answers requests, behind the gateway if there is one. It may be used without a socket.
func (s *Server) Handler() http.Handler { return s.handler }

// HTTP returns an http.Server with the bounds that the handler relies on. There is no deadline for a whole
// answer, because streams set a deadline for each write.
func (s *Server) HTTP() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true) // workers use gRPC
	return &http.Server{
		Handler:           s.Handler(),
		Protocols:         protocols,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytesMax,
		// The default handler would read the body of OPTIONS * and would call no handler of this package.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
}

// serve handles every request: it checks the caller, finds the route, and records the result.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	zip := s.zipping(w, r)
	rec := &recorder{ResponseWriter: zip, header: r.Header}
	defer rec.end()
	defer func() {
		if p := recover(); p != nil {
			s.recovered(rec, r, p)
		}
		zip.end()
		countRefused(s, r, rec)
		countValues(s, r, rec)
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
	rec.user = user
	ctx := context.WithValue(r.Context(), userKey{}, user)
	ctx = context.WithValue(ctx, recorderKey{}, rec)
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

// unrouted answers requests without a route. The mux knows whether only the method is wrong.
func (s *Server) unrouted(w http.ResponseWriter, r *http.Request, h http.Handler) {
	probe := &recorder{ResponseWriter: discard{http.Header{}}}
	h.ServeHTTP(probe, r)
	f := notFound("there is nothing at %s; GET %s lists what there is", r.URL.Path, openAPIPath)
	if allow := probe.Header().Get("Allow"); probe.status == http.StatusMethodNotAllowed {
		f = methodNotAllowed(r.Method, allow)
	}
	f.write(w, r)
}

// recovered answers after a panic. If the answer has begun, it closes the connection.
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
	status  int
	header  http.Header  // the header of the request
	user    string       // the caller
	hidden  bool         // the caller must not learn whether the object exists
	refused *store.Audit // the namespace and detail of the audit row of a refused call; nil if not noted
	values  []string     // the namespaces of whose runs the answer has values
	began   func()       // if it is set, it is called when an answer without an error begins
	written func()       // if it is set, it is called when the answer has been written
}

func (w *recorder) end() {
	if w.written != nil {
		w.written()
	}
}

func (w *recorder) begin(status int) {
	if w.status = status; w.began != nil && status < 300 {
		w.began()
	}
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.begin(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach flushing and deadlines.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// discard is a response writer that drops the answer.
type discard struct{ h http.Header }

func (d discard) Header() http.Header       { return d.h }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}
