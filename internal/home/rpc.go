package home

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	workerv1 "skein.dev/skein/api/worker/v1"
	"skein.dev/skein/api/worker/v1/workerv1connect"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/store"
)

// Bounds of a call.
const (
	callBytesMax = 32 << 20
	nameMax      = 100 // bytes of a name, a group, a label
	traitsMax    = 100 // groups, and labels
	slotsMax     = 10_000
	resultsMax   = 1000 // of one report
	attemptsMax  = 2 * slotsMax
)

// Prefix is where the protocol is answered.
const Prefix = "/" + workerv1connect.WorkersName + "/"

// Handler answers workers; a nil home says that there is none.
func Handler(h *Home) http.Handler {
	_, handler := workerv1connect.NewWorkersHandler(&desk{h}, connect.WithReadMaxBytes(callBytesMax))
	return handler
}

// desk is the protocol over a home.
type desk struct{ h *Home }

func no(code connect.Code, reason, format string, args ...any) error {
	return connect.NewError(code, fmt.Errorf("%s: %s", reason, fmt.Sprintf(format, args...)))
}

// Register implements the protocol.
func (d *desk) Register(ctx context.Context, in *workerv1.RegisterRequest) (*workerv1.RegisterResponse, error) {
	h := d.h
	if h == nil {
		return nil, no(connect.CodeUnimplemented, "ALONE", "this node is not one of a cluster: workers need a database that several nodes can share, --db postgres://…")
	}
	if err := checkRegister(in); err != nil {
		h.Stats.Malformed.Add(1)
		return nil, err
	}
	m := store.Member{Handler: dag.HandlerID(in.Handler), UUID: in.Uuid, Name: in.Name, Worker: true, Version: in.Version, Format: h.cfg.Format,
		State: store.MemberActive, Slots: in.Slots, Busy: int32(len(in.Running)), Home: h.self(), Lease: 1,
		Traits: store.Traits{Groups: in.Groups, Labels: in.Labels}}
	if err := h.attach(ctx, &m); err != nil {
		return nil, err
	}
	w := newWorker(m)
	out := &workerv1.RegisterResponse{Handler: int64(m.Handler), Lease: m.Lease, PollMillis: h.cfg.Beat.Milliseconds(),
		LagMillis: h.cfg.Lag.Milliseconds(), Nodes: h.nodes(), Logs: h.cfg.Logs != nil}
	if out.Logs {
		out.LogsKeep = h.cfg.Logs.Keep()
	}
	for _, a := range in.Running {
		k, err := keyOfWire(a)
		if err != nil {
			return nil, no(connect.CodeInvalidArgument, "MALFORMED", "%v", err)
		}
		holds, err := h.eng.Holds(ctx, m.Handler, k.run, k.task, k.token)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, err
		case err == nil && !holds:
			out.Revoked = append(out.Revoked, a)
		}
		w.running[k] = &holding{}
		w.used++
	}
	h.mu.Lock()
	if old := h.workers[m.Handler]; old != nil {
		h.detach(old)
	}
	h.workers[m.Handler] = w
	h.serve()
	h.mu.Unlock()
	h.Stats.Registered.Add(1)
	h.log.Info("a worker is attached", "worker", m.Name, "slots", m.Slots, "lease", m.Lease, "running", len(in.Running))
	h.dir.Wake()
	h.poke()
	return out, nil
}

// attach writes the row of a worker: a new one, or another home in the one that it has.
func (h *Home) attach(ctx context.Context, m *store.Member) error {
	if m.Handler != 0 {
		lease, err := h.cfg.Store.Attach(ctx, *m)
		switch {
		case err != nil:
			return connect.NewError(connect.CodeUnavailable, err)
		case lease == 0:
			h.Stats.Fenced.Add(1)
			return no(connect.CodeFailedPrecondition, "FENCED", "handler %d is listed no more: what it had was given to others", m.Handler)
		}
		m.Lease = lease
		return nil
	}
	members, _, err := h.cfg.Store.Members(ctx)
	if err != nil {
		return connect.NewError(connect.CodeUnavailable, err)
	}
	for i := range members {
		if members[i].Name == m.Name && !members[i].Worker {
			return no(connect.CodeAlreadyExists, "NAME_TAKEN", "a node has the name %s; give the worker another: --name", m.Name)
		}
	}
	reg, err := h.cfg.Register(ctx, m.UUID, m.Name)
	if err == nil {
		m.Handler = reg.ID
		err = h.cfg.Store.Join(ctx, *m)
	}
	if err != nil {
		return connect.NewError(connect.CodeUnavailable, err)
	}
	return nil
}

func checkRegister(in *workerv1.RegisterRequest) error {
	bad := func(format string, args ...any) error {
		return no(connect.CodeInvalidArgument, "MALFORMED", format, args...)
	}
	plain := func(s string) bool {
		return s != "" && len(s) <= nameMax && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || !unicode.IsPrint(r) })
	}
	switch _, err := uuid.Parse(in.Uuid); {
	case err != nil:
		return bad("uuid %q is none", in.Uuid)
	case !plain(in.Name):
		return bad("name %q: want 1 to %d printable characters without spaces", in.Name, nameMax)
	case in.Slots < 1 || in.Slots > slotsMax:
		return bad("%d slots: want 1 to %d", in.Slots, slotsMax)
	case len(in.Groups) > traitsMax || len(in.Labels) > traitsMax:
		return bad("more than %d groups or labels", traitsMax)
	case len(in.Running) > attemptsMax || len(in.Ended) > attemptsMax:
		return bad("more than %d attempts", attemptsMax)
	case len(in.Version) > nameMax || !utf8.ValidString(in.Version):
		return bad("version: want at most %d bytes", nameMax)
	}
	for _, g := range in.Groups {
		if !plain(g) {
			return bad("group %q: want 1 to %d printable characters without spaces", g, nameMax)
		}
	}
	for k, v := range in.Labels {
		if !plain(k) || v != "" && !plain(v) || strings.Contains(k, "=") {
			return bad("label %q: want NAME=VALUE of printable characters without spaces", k+"="+v)
		}
	}
	return nil
}

// nodes are the addresses where a worker can register.
func (h *Home) nodes() []string {
	members, _ := h.dir.View()
	all := []string{}
	for i := range members {
		if !members[i].Worker && members[i].Address != "" {
			all = append(all, members[i].Address)
		}
	}
	return all
}

// attached finds the worker that calls.
func (h *Home) attached(handler, lease int64) (*worker, error) {
	if h == nil {
		return nil, no(connect.CodeFailedPrecondition, "NOT_ATTACHED", "this node has no workers")
	}
	w := h.workers[dag.HandlerID(handler)]
	if w == nil || w.member.Lease != lease {
		h.Stats.NotAttached.Add(1)
		return nil, no(connect.CodeFailedPrecondition, "NOT_ATTACHED", "handler %d is not attached here under lease %d; register", handler, lease)
	}
	return w, nil
}

// Poll implements the protocol.
func (d *desk) Poll(ctx context.Context, in *workerv1.PollRequest) (*workerv1.PollResponse, error) {
	h := d.h
	has := map[key]bool{}
	for _, list := range [][]*workerv1.Attempt{in.Running, in.Ended} {
		for _, a := range list {
			k, err := keyOfWire(a)
			if err != nil || len(has) > attemptsMax {
				return nil, no(connect.CodeInvalidArgument, "MALFORMED", "the attempts that it has: %v", err)
			}
			has[k] = true
		}
	}
	end := time.NewTimer(d.pollMax())
	defer end.Stop()
	w, mine, err := d.arrive(in, has)
	if err != nil {
		return nil, err
	}
	for {
		out, err := d.news(w, in.Lease, mine)
		if out != nil || err != nil {
			return out, err
		}
		select {
		case <-w.wake:
		case <-end.C:
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.answer(w), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (d *desk) pollMax() time.Duration {
	if d.h == nil {
		return 0
	}
	return d.h.cfg.Beat
}

// arrive takes what a poll says.
func (d *desk) arrive(in *workerv1.PollRequest, has map[key]bool) (w *worker, mine int64, err error) {
	h := d.h
	if h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
	}
	if w, err = h.attached(in.Handler, in.Lease); err != nil {
		return nil, 0, err
	}
	w.heard = true
	w.polls++
	w.poke() // the poll before it ends
	if w.draining = in.Draining; w.draining {
		h.dir.Wake()
	}
	for k := range has {
		if w.out[k] != nil {
			delete(w.out, k) // it has arrived
		}
	}
	w.stops = slices.DeleteFunc(w.stops, func(s stop) bool { return s.seq != 0 && s.seq <= in.Ack })
	h.serve()
	return w, w.polls, nil
}

// news is an answer, if there is something to say; polls that are not the newest end.
func (d *desk) news(w *worker, lease, mine int64) (*workerv1.PollResponse, error) {
	h := d.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := h.attached(int64(w.member.Handler), lease); err != nil {
		return nil, err
	}
	if w.polls != mine {
		w.poke() // the newest one's turn
		return &workerv1.PollResponse{Seq: w.seq}, nil
	}
	if len(w.out) == 0 && !slices.ContainsFunc(w.stops, func(s stop) bool { return s.seq == 0 }) {
		return nil, nil
	}
	return h.answer(w), nil
}

// answer is all that a worker is to know.
func (h *Home) answer(w *worker) *workerv1.PollResponse {
	w.seq++
	out := &workerv1.PollResponse{Seq: w.seq, Nodes: h.nodes()}
	for _, job := range w.out {
		out.Start = append(out.Start, job)
	}
	for i := range w.stops {
		s := &w.stops[i]
		s.seq = w.seq
		out.Stop = append(out.Stop, &workerv1.Stop{Attempt: wireAttempt(s.key), Kill: s.kill})
	}
	return out
}

// Report implements the protocol.
func (d *desk) Report(ctx context.Context, in *workerv1.ReportRequest) (*workerv1.ReportResponse, error) {
	h := d.h
	if len(in.Results) > resultsMax {
		return nil, no(connect.CodeInvalidArgument, "MALFORMED", "more than %d results", resultsMax)
	}
	if h == nil {
		return nil, no(connect.CodeFailedPrecondition, "NOT_ATTACHED", "this node has no workers")
	}
	h.mu.Lock()
	w, err := h.attached(in.Handler, in.Lease)
	h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	out := &workerv1.ReportResponse{Verdicts: make([]workerv1.Verdict, len(in.Results))}
	var wg sync.WaitGroup
	for i, r := range in.Results {
		wg.Go(func() { out.Verdicts[i] = d.result(ctx, w, r) })
	}
	wg.Wait()
	return out, nil
}

func (d *desk) result(ctx context.Context, w *worker, r *workerv1.Result) workerv1.Verdict {
	k, rep, err := reportOf(r)
	if err != nil {
		d.h.Stats.Malformed.Add(1)
		d.h.log.Warn("a worker reports what makes no sense", "worker", w.member.Name, "err", err)
		return workerv1.Verdict_VERDICT_MALFORMED
	}
	v := d.h.hear(ctx, w, k, rep)
	if v == workerv1.Verdict_VERDICT_STALE {
		d.h.Stats.Stale.Add(1)
		d.h.log.Warn("a worker reports an attempt that is not its own (any more)", "worker", w.member.Name, "run", k.run.String(), "task", k.task, "token", k.token)
	}
	return v
}

// Files implements the protocol.
func (d *desk) Files(ctx context.Context, in *workerv1.FilesRequest) (*workerv1.FilesResponse, error) {
	h := d.h
	k, err := keyOfWire(in.Attempt)
	if err != nil {
		return nil, no(connect.CodeInvalidArgument, "MALFORMED", "%v", err)
	}
	if h == nil {
		return nil, no(connect.CodeFailedPrecondition, "NOT_ATTACHED", "this node has no workers")
	}
	h.mu.Lock()
	w, err := h.attached(in.Handler, in.Lease)
	var x *holding
	if err == nil {
		if x = w.running[k]; x == nil {
			err = no(connect.CodeFailedPrecondition, "STALE", "handler %d does not have that attempt", in.Handler)
		}
	}
	h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	wf, version := x.Workflow, x.Version
	if !x.known {
		row, err := h.eng.RunRow(ctx, k.run)
		if err != nil {
			return nil, connect.NewError(connect.CodeUnavailable, err)
		}
		wf, version = row.Workflow, row.Version
	}
	files, err := h.cfg.Jobs.Files(ctx, wf, version)
	if err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	return &workerv1.FilesResponse{Files: files}, nil
}

// chunksMax bounds the chunks of one call.
const chunksMax = 10_000

// PushLogs implements the protocol. A worker may go on printing for an attempt that was taken
// from it: each token has a log of its own, so that harms nobody.
func (d *desk) PushLogs(ctx context.Context, in *workerv1.PushLogsRequest) (*workerv1.PushLogsResponse, error) {
	h := d.h
	if h == nil || h.cfg.Logs == nil {
		return nil, no(connect.CodeFailedPrecondition, "NO_LOGS", "this node keeps no logs of workers")
	}
	h.mu.Lock()
	_, err := h.attached(in.Handler, in.Lease)
	h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if len(in.Chunks) > chunksMax {
		return nil, no(connect.CodeInvalidArgument, "MALFORMED", "more than %d chunks", chunksMax)
	}
	chunks := make([]logs.Chunk, len(in.Chunks))
	for i, c := range in.Chunks {
		k, err := keyOfWire(c.Attempt)
		if err != nil || c.Offset < 0 {
			return nil, no(connect.CodeInvalidArgument, "MALFORMED", "chunk %d at %d: %v", i, c.Offset, err)
		}
		chunks[i] = logs.Chunk{Ref: logs.Ref{Namespace: c.Namespace, Workflow: c.Workflow, Run: k.run, Task: k.task, Name: c.Task, Token: k.token},
			Offset: c.Offset, Data: c.Data, Cut: c.Cut}
	}
	ends, err := h.cfg.Logs.Append(ctx, chunks)
	if err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	return &workerv1.PushLogsResponse{Ends: ends}, nil
}

// Leave implements the protocol.
func (d *desk) Leave(ctx context.Context, in *workerv1.LeaveRequest) (*workerv1.LeaveResponse, error) {
	h := d.h
	if h == nil {
		return nil, no(connect.CodeFailedPrecondition, "NOT_ATTACHED", "this node has no workers")
	}
	h.mu.Lock()
	w, err := h.attached(in.Handler, in.Lease)
	if err == nil {
		h.detach(w)
	}
	h.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := h.cfg.Store.Leave(ctx, w.member.Handler); err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	h.dir.Wake()
	return &workerv1.LeaveResponse{}, nil
}

var errWire = errors.New("no attempt: want run, task ≥ 0 and token ≥ 1")

func keyOfWire(a *workerv1.Attempt) (key, error) {
	if a == nil || a.Task < 0 || a.Token < 1 {
		return key{}, errWire
	}
	run, err := dag.ParseRunID(a.Run)
	if err != nil {
		return key{}, err
	}
	return key{run, dag.TaskID(a.Task), dag.Token(a.Token)}, nil
}

func wireAttempt(k key) *workerv1.Attempt {
	return &workerv1.Attempt{Run: k.run.String(), Task: int32(k.task), Token: int32(k.token)}
}
