package skein_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	skein "skein.dev/skein/sdk"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/api/worker/v1/workerv1connect"
)

// desk plays the home node of one worker.
type desk struct {
	workerv1connect.UnimplementedWorkersHandler
	t      *testing.T
	jobs   chan *workerv1.Job // jobs that the worker gets by polling
	next   chan *workerv1.Job // jobs that the worker gets in answers to reports
	stops  chan *workerv1.Stop
	told   chan *workerv1.Result
	left   chan struct{}
	drains chan struct{} // closed when the worker reports that it drains

	mu         sync.Mutex // protects following fields
	lease      int64
	registered []*workerv1.RegisterRequest
	refuse     int  // number of reports to answer with UNAVAILABLE
	stale      bool // the attempts in the worker's polls are not its own
	fence      bool // the next Poll finds an ended lease, and the next Register an ended handler
	log        strings.Builder
	draining   bool
	lose       int  // number of answers to reports to lose
	again      bool // the worker has reported that it missed an answer
}

func newDesk(t *testing.T) *desk {
	return &desk{t: t, jobs: make(chan *workerv1.Job, 10), next: make(chan *workerv1.Job, 10), stops: make(chan *workerv1.Stop, 10), told: make(chan *workerv1.Result, 10),
		left: make(chan struct{}), drains: make(chan struct{})}
}

func (d *desk) Register(_ context.Context, in *workerv1.RegisterRequest) (*workerv1.RegisterResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fence && in.Handler != 0 {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("FENCED: gone"))
	}
	d.registered = append(d.registered, in)
	d.fence = false
	d.lease++
	return &workerv1.RegisterResponse{Handler: d.lease, Lease: d.lease, PollMillis: 100, LagMillis: 60_000, Logs: true}, nil
}

func (d *desk) Poll(ctx context.Context, in *workerv1.PollRequest) (*workerv1.PollResponse, error) {
	d.mu.Lock()
	gone := d.fence || in.Lease != d.lease
	d.again = d.again || in.Again
	if in.Draining && !d.draining {
		d.draining = true
		close(d.drains)
	}
	d.mu.Unlock()
	if gone {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("NOT_ATTACHED: register"))
	}
	out := &workerv1.PollResponse{}
	select {
	case j := <-d.jobs:
		out.Start = append(out.Start, j, j) // the worker must start it only once
	case s := <-d.stops:
		out.Stop = append(out.Stop, s)
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
	}
	return out, nil
}

func (d *desk) Report(_ context.Context, in *workerv1.ReportRequest) (*workerv1.ReportResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := &workerv1.ReportResponse{}
	for _, r := range in.Results {
		v := workerv1.Verdict_VERDICT_ACCEPTED
		switch {
		case d.refuse > 0:
			d.refuse--
			v = workerv1.Verdict_VERDICT_UNAVAILABLE
		case r.Running && d.stale:
			v = workerv1.Verdict_VERDICT_STALE
		case r.State == "lost": // the answer to a job that was sent again after its end
			v = workerv1.Verdict_VERDICT_STALE
		default:
			d.told <- r
		}
		out.Verdicts = append(out.Verdicts, v)
	}
	if d.lose > 0 {
		d.lose--
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("the connection broke"))
	}
	if in.Starts && len(d.next) > 0 {
		j := <-d.next
		out.Start = append(out.Start, j, j)
	}
	return out, nil
}

func (d *desk) PushLogs(_ context.Context, in *workerv1.PushLogsRequest) (*workerv1.PushLogsResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := &workerv1.PushLogsResponse{}
	for _, c := range in.Chunks {
		d.log.Write(c.Data)
		out.Ends = append(out.Ends, c.Offset+int64(len(c.Data)))
	}
	return out, nil
}

func (d *desk) Leave(context.Context, *workerv1.LeaveRequest) (*workerv1.LeaveResponse, error) {
	close(d.left)
	return &workerv1.LeaveResponse{}, nil
}

// over carries calls to the desk without a socket.
type over struct{ h http.Handler }

func (o over) transport() http.RoundTripper { return skein.TransportOf(o.h) }

// begin runs a worker at the desk. The returned function ends the worker and waits for that.
func (d *desk) begin(register func(*skein.Worker)) func() {
	d.t.Helper()
	_, h := workerv1connect.NewWorkersHandler(d)
	w := skein.NewWorker("http://localhost", skein.WorkerOptions{Name: "w", Slots: 2, Drain: time.Minute,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Transport: over{h}.transport()})
	register(w)
	ctx, cancel := context.WithCancel(d.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() {
		d.t.Helper()
		cancel()
		if err := <-done; err != nil {
			d.t.Error(err)
		}
		<-d.left
	}
}

const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func job(token int64, input string) *workerv1.Job {
	return &workerv1.Job{Attempt: &workerv1.Attempt{Run: "r", Task: 1, Token: token}, Task: "t", Kind: "k", Input: []byte(input), IdempotencyKey: "r/t",
		Traceparent: trace}
}

// TestResultsAreSaidUntilTaken checks that the result of each attempt is reported until a node has accepted
// it, and not again afterwards, and that the worker does not leave before that.
func TestResultsAreSaidUntilTaken(t *testing.T) {
	d := newDesk(t)
	d.refuse = 3
	calls := 0
	begun, open := make(chan struct{}), make(chan struct{})
	end := d.begin(func(w *skein.Worker) {
		skein.Handle(w, "k", func(ctx context.Context, task *skein.Task, in struct{ N int }) (map[string]int, error) {
			calls++
			if task.Traceparent != trace {
				t.Errorf("the trace context is %q", task.Traceparent)
			}
			close(begun)
			<-open
			return map[string]int{"n": in.N + task.Token}, ctx.Err()
		})
	})
	d.jobs <- job(3, `{"n": 4}`)
	<-begun
	ended := make(chan struct{})
	go func() { end(); close(ended) }()
	<-d.drains // the worker must end, and waits for its task function
	close(open)
	r := <-d.told
	if r.State != "succeeded" || string(r.Outputs) != `{"n":7}` || r.Attempt.Token != 3 {
		t.Errorf("%v", r)
	}
	<-ended
	if calls != 1 || len(d.registered) != 1 || len(d.registered[0].Kinds) != 1 || d.registered[0].Kinds[0] != "k" {
		t.Errorf("%d calls, registered %v", calls, d.registered)
	}
}

// TestAnswersBringWhatFollows checks that the answer to a report brings the next jobs. A worker that misses
// the answer says so, and repeats its result.
func TestAnswersBringWhatFollows(t *testing.T) {
	d := newDesk(t)
	d.lose = 1
	calls := 0
	end := d.begin(func(w *skein.Worker) {
		// The calls do not run concurrently, because there is only one slot.
		skein.Handle(w, "k", func(context.Context, *skein.Task, struct{}) (struct{}, error) { calls++; return struct{}{}, nil })
	})
	for token := range int64(3) {
		d.next <- job(token+2, `{}`)
	}
	d.jobs <- job(1, `{}`)
	for _, token := range []int64{1, 1, 2, 3, 4} {
		if r := <-d.told; r.Attempt.Token != token || r.State != "succeeded" {
			t.Errorf("it said %v", r)
		}
	}
	end()
	if calls != 4 || !d.again {
		t.Errorf("%d calls; it said that it missed an answer: %v", calls, d.again)
	}
}

// TestFenced checks that a fenced worker ends its task functions, discards their results, and registers with
// another handler.
func TestFenced(t *testing.T) {
	d := newDesk(t)
	begun, why := make(chan struct{}), make(chan error, 1)
	end := d.begin(func(w *skein.Worker) {
		skein.Handle(w, "k", func(ctx context.Context, _ *skein.Task, in struct{ Last bool }) (struct{}, error) {
			if in.Last {
				return struct{}{}, nil
			}
			close(begun)
			<-ctx.Done()
			why <- context.Cause(ctx)
			return struct{}{}, nil
		})
	})
	d.jobs <- job(1, `{}`)
	<-begun
	d.mu.Lock()
	d.fence = true
	d.mu.Unlock()
	if err := <-why; !errors.Is(err, skein.ErrFenced) {
		t.Errorf("the context ended with %v", err)
	}
	d.jobs <- job(2, `{"last": true}`)
	if r := <-d.told; r.Attempt.Token != 2 || r.Outputs != nil {
		t.Errorf("%v", r)
	}
	end()
	if n := len(d.registered); n != 2 || d.registered[1].Handler != 0 || d.registered[0].Uuid == d.registered[1].Uuid || len(d.registered[1].Running) != 0 {
		t.Errorf("registered %v", d.registered)
	}
}

// TestTakenAway checks that an attempt that was taken from the worker is ended and not reported.
func TestTakenAway(t *testing.T) {
	d := newDesk(t)
	d.stale = true
	why := make(chan error, 1)
	end := d.begin(func(w *skein.Worker) {
		skein.Handle(w, "k", func(ctx context.Context, _ *skein.Task, _ struct{}) (struct{}, error) {
			<-ctx.Done()
			why <- context.Cause(ctx)
			return struct{}{}, ctx.Err()
		})
	})
	d.jobs <- job(1, `{}`)
	if err := <-why; !errors.Is(err, skein.ErrFenced) {
		t.Errorf("the context ended with %v", err)
	}
	end()
	if len(d.told) != 0 {
		t.Errorf("it said %v", <-d.told)
	}
}

// TestEndsOfHandlers checks the ways in which a task function can end, and the reports about them.
func TestEndsOfHandlers(t *testing.T) {
	d := newDesk(t)
	end := d.begin(func(w *skein.Worker) {
		skein.Handle(w, "k", func(ctx context.Context, task *skein.Task, in struct{ Do string }) (any, error) {
			switch in.Do {
			case "number":
				return 5, nil
			case "stop":
				d.stops <- &workerv1.Stop{Attempt: &workerv1.Attempt{Run: "r", Task: 1, Token: int64(task.Token)}}
				<-ctx.Done()
				return nil, task.Progress(1, 2, "")
			case "timeout":
				<-ctx.Done()
				return nil, nil
			case "panic":
				panic(errors.New("oh"))
			case "goexit":
				runtime.Goexit()
			case "text":
				return map[string]any{"id": "x"}, nil
			case "print":
				task.Logger().Info("hello", "n", 1)
				return nil, errors.Join(task.Progress(1, 3, "a\nb"), task.Progress(2, 3, "too soon"), task.Progress(3, 3, "c"))
			}
			return nil, errors.New("not now\x00\xff")
		})
	})
	for i, c := range []struct{ do, state, cause, message string }{
		{"number", "failed", "output", "JSON object"}, {"stop", "stopped", "stopped", ""}, {"timeout", "failed", "timeout", "1ms"},
		{"panic", "failed", "panic", "panic: oh"}, {"goexit", "failed", "panic", "ended its goroutine"}, {"text", "failed", "output", `"id" must be an int`}, {"print", "failed", "output", `"id" is declared`},
		{"", "failed", "error", "not now\ufffd\ufffd"}, {"x\", \"y\": \"", "failed", "permanent", "unknown field"},
	} {
		j := job(int64(i+1), `{"do": "`+c.do+`"}`)
		if c.do == "timeout" {
			j.TimeoutMillis = 1
		}
		if c.do == "text" || c.do == "print" {
			j.Outputs = map[string]string{"id": "int"}
		}
		d.jobs <- j
		r := <-d.told
		for r.Running {
			r = <-d.told
		}
		if r.State != c.state || r.Cause != c.cause || !strings.Contains(r.Message, c.message) || r.TimedOut != (c.do == "timeout") || r.StartedMicros > r.FinishedMicros {
			t.Errorf("%s: %v", c.do, r)
		}
	}
	end()
	text := d.log.String()
	if !strings.Contains(text, `msg=hello n=1`) || !strings.Contains(text, "progress 1/3 a b\nprogress 3/3 c\n") || !strings.Contains(text, "panic: oh\n\ngoroutine") {
		t.Errorf("the log: %s", text)
	}
}

// TestWorkersThatCannotBe checks that Run at once returns an error that only a person can correct.
func TestWorkersThatCannotBe(t *testing.T) {
	none := func(context.Context, *skein.Task, struct{}) (struct{}, error) { return struct{}{}, nil }
	for want, make := range map[string]func() *skein.Worker{
		"has no task functions": func() *skein.Worker { return skein.NewWorker("localhost", skein.WorkerOptions{}) },
		"ftp://x": func() *skein.Worker {
			w := skein.NewWorker("localhost,ftp://x", skein.WorkerOptions{})
			skein.Handle(w, "k", none)
			return w
		},
		"two task functions": func() *skein.Worker {
			w := skein.NewWorker("localhost", skein.WorkerOptions{})
			skein.Handle(w, "k", none)
			skein.Handle(w, "k", none)
			return w
		},
		`kind "a b"`: func() *skein.Worker {
			w := skein.NewWorker("localhost", skein.WorkerOptions{})
			skein.Handle(w, "a b", none)
			return w
		},
		"outputs have names": func() *skein.Worker {
			w := skein.NewWorker("localhost", skein.WorkerOptions{})
			skein.Handle(w, "k", func(context.Context, *skein.Task, struct{}) (string, error) { return "", nil })
			return w
		},
		"ALONE": func() *skein.Worker {
			_, h := workerv1connect.NewWorkersHandler(alone{})
			w := skein.NewWorker("http://localhost", skein.WorkerOptions{Transport: over{h}.transport(), Log: slog.New(slog.DiscardHandler)})
			skein.Handle(w, "k", none)
			return w
		},
	} {
		if err := make().Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

type alone struct {
	workerv1connect.UnimplementedWorkersHandler
}

func (alone) Register(context.Context, *workerv1.RegisterRequest) (*workerv1.RegisterResponse, error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("ALONE: not one of a cluster"))
}

// TestSecretsAreMasked checks that log and message show no secret of an attempt, even one that is written in
// parts. Outputs that contain a secret fail the attempt.
func TestSecretsAreMasked(t *testing.T) {
	d := newDesk(t)
	end := d.begin(func(w *skein.Worker) {
		skein.Handle(w, "k", func(_ context.Context, task *skein.Task, in struct{ Key, How string }) (any, error) {
			_, _ = task.Write([]byte("it is hunter"))
			_, _ = task.Write([]byte("2-long and hunter"))
			switch in.How {
			case "fail":
				return nil, errors.New("refused: " + in.Key)
			case "panic":
				panic(in.Key)
			}
			return map[string]string{"it": "a " + in.Key}, nil
		})
	})
	for i, c := range []struct{ how, cause, says string }{{"leak", "secret", ""}, {"fail", "error", "refused: ***"}, {"panic", "panic", "panic: ***"}} {
		j := job(int64(i+1), `{"key": "hunter2-long", "how": "`+c.how+`"}`)
		j.Secrets = []string{"hunter2-long"}
		d.jobs <- j
		if r := <-d.told; r.State != "failed" || r.Cause != c.cause || c.says != "" && r.Message != c.says || r.Outputs != nil {
			t.Errorf("%s: %v", c.how, r)
		}
	}
	end()
	if !d.registered[0].Masks {
		t.Error("the worker does not say that it masks")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if text := d.log.String(); strings.Count(text, "it is *** and hunter") < 3 || strings.Contains(text, "hunter2") {
		t.Errorf("the log is %q", text)
	}
}
