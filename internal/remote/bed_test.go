package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/worker"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/api/worker/v1/workerv1connect"
	"skein.dev/skein/sdk/shared/session"
)

// TestMain also runs the keeper, because a worker starts its own program as its keeper.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "keeper" {
		os.Exit(worker.KeeperMain(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// patience bounds the wait for a condition. Nothing depends on its length.
const patience = 30 * time.Second

// scripted is a home whose answers a test sets. In everything else it behaves as a correct home.
type scripted struct {
	workerv1connect.UnimplementedWorkersHandler
	t   *testing.T
	url string
	srv *httptest.Server

	mu       sync.Mutex // protects following fields
	register func(n int, in *workerv1.RegisterRequest) error
	poll     func(in *workerv1.PollRequest) error
	verdict  func(n int, r *workerv1.Result) (workerv1.Verdict, error) // answers the nth report of an attempt
	raw      func(path string, w http.ResponseWriter) bool             // answers in place of everything, unless it returns false
	nodes    []string
	polling  time.Duration // the polling interval that workers get
	start    []*workerv1.Job
	next     []*workerv1.Job // the next answers to reports bring these jobs
	again    int             // number of polls which said that an answer had not arrived
	stop     []*workerv1.Stop
	read     []*workerv1.LogRead
	sent     *workerv1.PollResponse // the last answer that was not empty
	leases   int64
	seq      int64
	// The following fields record the received calls.
	registers []*workerv1.RegisterRequest
	last      *workerv1.PollRequest
	results   map[session.Name][]*workerv1.Result   // only ends, and no reports that an attempt runs
	given     map[string][]*workerv1.GiveLogRequest // pieces of logs, by ticket
	left      int
	tokens    map[string]bool
}

func newHome(t *testing.T, tls bool) *scripted {
	h := &scripted{t: t, results: map[session.Name][]*workerv1.Result{}, given: map[string][]*workerv1.GiveLogRequest{}, tokens: map[string]bool{}, polling: 100 * time.Millisecond}
	path, handler := workerv1connect.NewWorkersHandler(h)
	mux := http.NewServeMux()
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		raw := h.raw
		h.tokens[r.Header.Get("Authorization")] = true
		h.mu.Unlock()
		if raw == nil || !raw(strings.TrimPrefix(r.URL.Path, path), w) {
			handler.ServeHTTP(w, r)
		}
	})
	h.srv = httptest.NewUnstartedServer(mux)
	h.srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	if tls {
		h.srv.StartTLS()
	} else {
		h.srv.Start()
	}
	h.url = h.srv.URL
	t.Cleanup(h.gone)
	return h
}

// gone ends the home at once, in the middle of its work.
func (h *scripted) gone() {
	h.srv.CloseClientConnections()
	h.srv.Close()
}

// do changes the script of the home.
func (h *scripted) do(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

func no(code connect.Code, why string) error { return connect.NewError(code, errors.New(why)) }

func (h *scripted) Register(_ context.Context, in *workerv1.RegisterRequest) (*workerv1.RegisterResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.registers = append(h.registers, in)
	if h.register != nil {
		if err := h.register(len(h.registers), in); err != nil {
			return nil, err
		}
	}
	h.leases++
	handler := in.Handler
	if handler == 0 {
		handler = 100 + h.leases
	}
	return &workerv1.RegisterResponse{Handler: handler, Lease: h.leases, PollMillis: h.polling.Milliseconds(), LagMillis: 60_000, Nodes: h.nodes}, nil
}

func (h *scripted) Poll(ctx context.Context, in *workerv1.PollRequest) (*workerv1.PollResponse, error) {
	end := time.NewTimer(h.polling)
	defer end.Stop()
	for {
		h.mu.Lock()
		if h.last = in; in.Again {
			h.again++
			in.Again = false
		}
		if h.poll != nil {
			if err := h.poll(in); err != nil {
				h.mu.Unlock()
				return nil, err
			}
		}
		if in.Lease != h.leases {
			h.mu.Unlock()
			return nil, no(connect.CodeFailedPrecondition, "NOT_ATTACHED: register")
		}
		if h.sent != nil && in.Ack != h.sent.Seq { // the answer did not arrive, because the worker has hung up meanwhile
			h.start, h.stop = append(h.missing(in), h.start...), append(h.sent.Stop, h.stop...)
			h.read = append(h.sent.Read, h.read...)
		}
		h.sent = nil
		if len(h.start)+len(h.stop)+len(h.read) > 0 {
			h.seq++
			out := &workerv1.PollResponse{Seq: h.seq, Start: h.start, Stop: h.stop, Read: h.read, Nodes: h.nodes}
			h.sent, h.start, h.stop, h.read = out, nil, nil, nil
			h.mu.Unlock()
			return out, nil
		}
		h.mu.Unlock()
		select {
		case <-end.C:
			return &workerv1.PollResponse{Seq: h.seq}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond): // the test may have changed the script
		}
	}
}

// missing returns the jobs of the last answer that the worker does not know.
func (h *scripted) missing(in *workerv1.PollRequest) (jobs []*workerv1.Job) {
	for _, j := range h.sent.Start {
		same := func(a *workerv1.Attempt) bool { return session.NameOf(a) == session.NameOf(j.Attempt) }
		if len(h.said(j)) == 0 && !slices.ContainsFunc(in.Running, same) && !slices.ContainsFunc(in.Ended, same) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

func (h *scripted) Report(_ context.Context, in *workerv1.ReportRequest) (*workerv1.ReportResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := &workerv1.ReportResponse{}
	for _, r := range in.Results {
		v := workerv1.Verdict_VERDICT_ACCEPTED
		if !r.Running {
			name := session.NameOf(r.Attempt)
			h.results[name] = append(h.results[name], r)
			if h.verdict != nil {
				var err error
				if v, err = h.verdict(len(h.results[name]), r); err != nil {
					return nil, err
				}
			}
		}
		// This verdict means that the answer has fewer verdicts than results.
		if v != workerv1.Verdict_VERDICT_UNSPECIFIED {
			out.Verdicts = append(out.Verdicts, v)
		}
	}
	if in.Starts {
		out.Start, h.next = h.next, nil
	}
	return out, nil
}

func (h *scripted) Leave(context.Context, *workerv1.LeaveRequest) (*workerv1.LeaveResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left++
	return &workerv1.LeaveResponse{}, nil
}

// give makes the worker begin jobs.
func (h *scripted) give(jobs ...*workerv1.Job) { h.do(func() { h.start = append(h.start, jobs...) }) }

// until waits for a condition, such as a call that the home has received.
func (h *scripted) until(what string, is func() bool) {
	h.t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		h.mu.Lock()
		ok := is()
		h.mu.Unlock()
		if ok {
			return
		}
		if time.Since(began) > patience {
			h.t.Fatalf("still not: %s", what)
		}
	}
}

// said returns the reported ends of a job.
func (h *scripted) said(j *workerv1.Job) []*workerv1.Result {
	return h.results[session.NameOf(j.Attempt)]
}

// ends waits for the end of a job and returns it.
func (h *scripted) ends(j *workerv1.Job) (r *workerv1.Result) {
	h.t.Helper()
	h.until("the end of "+j.Task, func() bool {
		all := h.said(j)
		if len(all) > 0 {
			r = all[len(all)-1]
		}
		return r != nil
	})
	return r
}

// has waits until the worker reports that it has, and runs, exactly these attempts.
func (h *scripted) has(running ...*workerv1.Job) {
	h.t.Helper()
	h.until(fmt.Sprintf("it runs %d attempts", len(running)), func() bool {
		return h.last != nil && len(h.last.Running) == len(running) && !slices.ContainsFunc(running, func(j *workerv1.Job) bool {
			return !slices.ContainsFunc(h.last.Running, func(a *workerv1.Attempt) bool { return session.NameOf(a) == session.NameOf(j.Attempt) })
		})
	})
}

// shell returns a job that runs a script.
func shell(task, script string) *workerv1.Job {
	return &workerv1.Job{Attempt: &workerv1.Attempt{Run: uuid.Must(uuid.NewV7()).String(), Token: 1}, Namespace: "test", Workflow: "w", Task: task,
		Argv: []string{"sh", "-c", script}, KillGraceMillis: 200}
}

// bench is a running worker.
type bench struct {
	*Worker
	t     *testing.T
	stop  context.CancelFunc
	hurry chan struct{}
	ended chan error
	once  sync.Once
	log   *said
	lock  *os.File // the lock of the data folder
}

// said is a log that a test reads while a worker writes it.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// made makes a worker that does nothing yet.
func made(t *testing.T, data string, servers []string, change ...func(*Config)) *bench {
	t.Helper()
	b := &bench{t: t, hurry: make(chan struct{}), ended: make(chan error, 1), log: &said{}}
	cfg := Config{Servers: servers, Name: "w1", Slots: 4, Data: data, Lease: time.Minute, Drain: time.Minute, Version: "v1", Log: slog.New(slog.NewTextHandler(b.log, nil))}
	for _, c := range change {
		c(&cfg)
	}
	var err error
	cfg.Lock = locks(t, data)
	b.lock = cfg.Lock
	if b.Worker, err = New(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return b
}

// locks locks a data folder. A child that another test forks just now has a copy of the former lock until it calls exec,
// so a taken lock is tried again.
func locks(t *testing.T, data string) *os.File {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(data, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return file
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Since(began) > patience {
			t.Fatalf("lock %s: %v", data, err)
		}
	}
}

// works makes a worker, and lets it run until the end of the test, or until over is called.
func works(t *testing.T, data string, servers []string, change ...func(*Config)) *bench {
	t.Helper()
	b := made(t, data, servers, change...)
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	go func() { b.ended <- b.Run(ctx, b.hurry) }()
	t.Cleanup(func() {
		b.over(true)
		if t.Failed() {
			t.Logf("the worker said:\n%s", b.log)
		}
	})
	return b
}

// over ends the worker, at once or in order, and returns the error of its run.
func (b *bench) over(now bool) (err error) {
	b.once.Do(func() {
		if now {
			close(b.hurry)
		}
		b.stop()
		err = <-b.ended
		_ = b.lock.Close()
	})
	return err
}

// dies ends the worker as kill -9 of its process does: its keeper continues, and the home is not notified.
func (b *bench) dies() {
	b.work.Leave()
	b.over(true)
}

// exists returns a function that reports whether a job has produced a file.
func exists(dir, name string) func() bool {
	return func() bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
}

// GiveLog accepts every piece of a log.
func (h *scripted) GiveLog(_ context.Context, in *workerv1.GiveLogRequest) (*workerv1.GiveLogResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.given[in.Ticket] = append(h.given[in.Ticket], in)
	return &workerv1.GiveLogResponse{}, nil
}
