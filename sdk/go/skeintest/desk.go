package skeintest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/api/worker/v1/workerv1connect"
)

const (
	// poll bounds how long a call waits for news. lag is the silence after which a worker is declared dead.
	poll, lag = 5 * time.Second, time.Minute
	// shortLag is the lag of a worker that the test cuts off.
	shortLag = 400 * time.Millisecond
	// logMax bounds the bytes of an attempt's log.
	logMax = 64 << 20
)

// desk plays the home node of a worker with one attempt.
type desk struct {
	workerv1connect.UnimplementedWorkersHandler
	job  *workerv1.Job
	over chan struct{} // closed when the attempt has a result

	mu       sync.Mutex // protects following fields
	news     chan struct{}
	lease    int64
	given    bool
	stopping bool
	fenced   bool // the worker was declared dead
	cut      bool // calls get no answer until the attempt has ended
	cutting  bool // the next registration gets a short lag, and then the worker is cut off
	result   *workerv1.Result
	written  strings.Builder
}

func newDesk(job *workerv1.Job) *desk {
	return &desk{job: job, over: make(chan struct{}), news: make(chan struct{})}
}

// tell wakes all waiting goroutines. The caller holds d.mu.
func (d *desk) tell() {
	close(d.news)
	d.news = make(chan struct{})
}

func (d *desk) change(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
	d.tell()
}

func (d *desk) stop()   { d.change(func() { d.stopping = true }) }
func (d *desk) fence()  { d.change(func() { d.fenced = true }) }
func (d *desk) cutOff() { d.change(func() { d.cutting = true }) }

// end stores the result of the attempt. Only the first result counts. The caller holds d.mu.
func (d *desk) end(r *workerv1.Result) {
	if d.result == nil {
		d.result = r
		close(d.over)
	}
}

// log returns the log, and a channel that is closed when the log grows.
func (d *desk) log() (string, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.written.String(), d.news
}

// outcome returns the result of an attempt whose worker has ended. An attempt without a result is lost.
func (d *desk) outcome() *Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.result
	if r == nil {
		r = &workerv1.Result{State: Lost, Message: "its worker has ended"}
	}
	return &Result{State: r.State, Cause: r.Cause, Message: r.Message, Outputs: r.Outputs, Log: d.written.String(),
		Retried: r.State == Lost || r.State == Failed && r.Cause != "permanent"}
}

func refuse(code connect.Code, text string) error { return connect.NewError(code, errors.New(text)) }

var errAway = refuse(connect.CodeUnavailable, "the node does not answer")

func (d *desk) has(list []*workerv1.Attempt) bool {
	return slices.ContainsFunc(list, func(a *workerv1.Attempt) bool { return a.GetToken() == d.job.Attempt.Token })
}

// Register implements the protocol of workers.
func (d *desk) Register(_ context.Context, in *workerv1.RegisterRequest) (*workerv1.RegisterResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.cut && !d.has(in.Ended):
		return nil, errAway
	case d.fenced && in.Handler != 0:
		return nil, refuse(connect.CodeFailedPrecondition, "FENCED: the worker counts as dead")
	case d.fenced: // the task function has returned
		d.end(&workerv1.Result{State: Lost, Message: "the attempt was taken from its worker"})
		return nil, errAway
	}
	d.cut = false
	d.lease++
	out := &workerv1.RegisterResponse{Handler: 1, Lease: d.lease, PollMillis: poll.Milliseconds(), LagMillis: lag.Milliseconds(), Logs: true}
	if d.cutting {
		out.LagMillis, d.cutting, d.cut = shortLag.Milliseconds(), false, true
	}
	return out, nil
}

// gone returns an error if the lease of a call has ended. The caller holds d.mu.
func (d *desk) gone(lease int64) error {
	switch {
	case d.cut:
		return errAway
	case d.fenced, d.cutting, lease != d.lease:
		return refuse(connect.CodeFailedPrecondition, "NOT_ATTACHED: register")
	}
	return nil
}

// Poll implements the protocol of workers.
func (d *desk) Poll(ctx context.Context, in *workerv1.PollRequest) (*workerv1.PollResponse, error) {
	end := time.NewTimer(poll)
	defer end.Stop()
	for {
		d.mu.Lock()
		err, out, news := d.gone(in.Lease), &workerv1.PollResponse{}, d.news
		switch {
		case err != nil:
		case d.given && d.stopping:
			d.stopping = false
			out.Stop = []*workerv1.Stop{{Attempt: d.job.Attempt}}
		case !d.given && !in.Draining:
			d.given = true
			out.Start = []*workerv1.Job{d.job}
		}
		d.mu.Unlock()
		if err != nil || len(out.Stop)+len(out.Start) > 0 {
			return out, err
		}
		select {
		case <-news:
		case <-end.C:
			return out, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Report implements the protocol of workers.
func (d *desk) Report(_ context.Context, in *workerv1.ReportRequest) (*workerv1.ReportResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.gone(in.Lease); err != nil {
		return nil, err
	}
	out := &workerv1.ReportResponse{}
	for _, r := range in.Results {
		out.Verdicts = append(out.Verdicts, workerv1.Verdict_VERDICT_ACCEPTED)
		if !r.Running {
			d.end(r)
		}
	}
	return out, nil
}

// PushLogs implements the protocol of workers.
func (d *desk) PushLogs(_ context.Context, in *workerv1.PushLogsRequest) (*workerv1.PushLogsResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.gone(in.Lease); err != nil {
		return nil, err
	}
	out := &workerv1.PushLogsResponse{}
	for _, c := range in.Chunks {
		if d.written.Len() < logMax {
			d.written.Write(c.Data)
		}
		out.Ends = append(out.Ends, c.Offset+int64(len(c.Data)))
	}
	d.tell()
	return out, nil
}

// Leave implements the protocol of workers.
func (d *desk) Leave(context.Context, *workerv1.LeaveRequest) (*workerv1.LeaveResponse, error) {
	return &workerv1.LeaveResponse{}, nil
}

// inProcess carries calls to the desk without a socket.
type inProcess struct{ to http.Handler }

func (d *desk) transport() http.RoundTripper {
	_, h := workerv1connect.NewWorkersHandler(d)
	return inProcess{h}
}

// RoundTrip implements http.RoundTripper.
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	out := httptest.NewRecorder()
	p.to.ServeHTTP(out, in)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	resp := out.Result()
	resp.Request = r
	return resp, nil
}
