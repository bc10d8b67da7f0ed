package home

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/logs"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/api/worker/v1/workerv1connect"
)

// Bounds of a call.
const (
	CallBytesMax = 32 << 20 // bound of one call of a worker
	nameMax      = 100      // the length of a name, a group or a label in bytes
	slotsMax     = 10_000
	resultsMax   = 1000 // bound of one report
	attemptsMax  = 2 * slotsMax
)

// WorkersDefault is the default bound of the workers of a cluster.
const WorkersDefault = 10_000

// TraitsMax bounds the groups, the labels and the kinds of a worker.
const TraitsMax = 100

// Prefix is the path of the protocol.
const Prefix = "/" + workerv1connect.WorkersName + "/"

// desk implements the protocol of workers for a home. The workers themselves are in desk.go.
type desk struct{ h *Home }

// Poll implements the protocol.
func (d *desk) Poll(ctx context.Context, in *workerv1.PollRequest) (*workerv1.PollResponse, error) {
	h := d.h
	if len(in.Running)+len(in.Ended) > attemptsMax {
		return nil, h.malformed("more than %d attempts", attemptsMax)
	}
	has := make(map[key]*workerv1.Attempt, len(in.Running)+len(in.Ended))
	for i, a := range slices.Concat(in.Ended, in.Running) {
		k, err := keyOfWire(a)
		if err != nil {
			return nil, h.malformed("the attempts that it has: %v", err)
		}
		if has[k] = nil; i >= len(in.Ended) {
			has[k] = a
		}
	}
	end := time.NewTimer(h.cfg.Beat)
	defer end.Stop()
	at := h.cfg.Boot()
	w, mine, early, err := d.arrive(ctx, in, has, at)
	if err != nil {
		return nil, err
	}
	if early {
		end.Reset(earlyAgain)
	}
	for {
		out, err := d.news(w, in, mine, at)
		if out != nil || err != nil {
			return out, err
		}
		select {
		case <-w.wake:
		case <-end.C:
			return d.last(w, mine, at), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// arrive records the attempts of a poll, and which of them run. If nothing can be confirmed about a worker
// for long, arrive detaches the worker. It then still has time to find a home that can reach the store.
func (d *desk) arrive(ctx context.Context, in *workerv1.PollRequest, has map[key]*workerv1.Attempt, at time.Duration) (w *worker, mine int64, early bool, err error) {
	h := d.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if err = ctx.Err(); err != nil { // the worker polls again, or has already done so
		return nil, 0, false, err
	}
	if w, err = h.attached(in); err != nil {
		return nil, 0, false, err
	}
	if by := h.behind(w, at); by > h.usual() {
		return nil, 0, false, connect.NewError(connect.CodeUnavailable, fmt.Errorf("this node cannot reach its store: for %s the store has not confirmed that this worker is still a member; ask another node",
			(by+h.usual()).Round(time.Millisecond)))
	}
	w.heard = true
	w.polls++
	w.poke() // the previous poll ends
	w.full = in.Full
	if w.draining = in.Draining; w.draining {
		h.wakeSoon()
	}
	w.said = has
	w.arrived(has, in.Again)
	h.compare(w, has, in.Ack)
	early = w.heeded(in.Ack)
	w.reread(in.Ack)
	h.relist(w)
	h.offer(w)
	return w, w.polls, early, nil
}

// earlyAgain is the pause after which a worker must poll again, if an attempt that it must end was still on
// its way.
const earlyAgain = 50 * time.Millisecond

// news returns an answer if there is something to send. It ends a poll that is not the newest one of its
// worker.
func (d *desk) news(w *worker, in caller, mine int64, at time.Duration) (*workerv1.PollResponse, error) {
	h := d.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := h.attached(in); err != nil {
		return nil, err
	}
	if w.polls != mine {
		w.poke() // replaces the earlier poll, which then ends
		return &workerv1.PollResponse{Seq: w.seq, BehindMillis: millisUp(h.behind(w, at))}, nil
	}
	if len(w.ready) == 0 && !w.unasked() && !slices.ContainsFunc(w.stops, func(s stop) bool { return s.seq == 0 }) {
		return nil, nil
	}
	return h.answer(w, at), nil
}

// last returns the answer to a poll that has waited for long enough. Answers to reports also contain
// attempts. Such an answer may not have reached the worker, so the answer to the poll contains its attempts
// again.
func (d *desk) last(w *worker, mine int64, at time.Duration) *workerv1.PollResponse {
	h := d.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.polls != mine { // a newer poll is waiting, and attempts in the answer to this one might never be read
		return &workerv1.PollResponse{Seq: w.seq, BehindMillis: millisUp(h.behind(w, at))}
	}
	for k := range w.out {
		w.offer(k)
	}
	return h.answer(w, at)
}

// millisUp converts to milliseconds and rounds up.
func millisUp(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }

// answer returns the answer to a poll that arrived at an instant.
func (h *Home) answer(w *worker, at time.Duration) *workerv1.PollResponse {
	w.seq++
	out := &workerv1.PollResponse{Seq: w.seq, Nodes: h.there().addresses, BehindMillis: millisUp(h.behind(w, at))}
	out.Start, out.Read = h.errands(w, false), w.wanted()
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
		return nil, h.malformed("more than %d results", resultsMax)
	}
	w, err := h.find(in)
	if err != nil {
		return nil, err
	}
	out := &workerv1.ReportResponse{Verdicts: make([]workerv1.Verdict, len(in.Results))}
	words := make([]spoken, 0, len(in.Results))
	for i, r := range in.Results {
		k, rep, err := reportOf(r)
		if err != nil {
			h.Stats.rejected[Malformed].Add(1)
			h.log.Warn("a worker sent an invalid report", "code", "worker_report_invalid", "worker", w.member.Name, "err", err)
			out.Verdicts[i] = workerv1.Verdict_VERDICT_MALFORMED
			continue
		}
		words = append(words, spoken{at: i, key: k, report: rep})
	}
	h.countLogs(w, words)
	takes := h.hearAll(ctx, w, words, in.Starts)
	if takes {
		out.Start = h.take(w)
	}
	for i := range words {
		x := &words[i]
		out.Verdicts[x.at] = x.verdict
		h.took(w, x)
		switch x.verdict {
		case workerv1.Verdict_VERDICT_STALE:
			h.Stats.rejected[Stale].Add(1)
			h.log.Warn("a worker reported an attempt that it does not hold", "code", "worker_report_stale", "worker", w.member.Name, "run", x.key.run.String(), "task", x.key.task, "token", x.key.token)
		case workerv1.Verdict_VERDICT_RUN_ENDED:
			h.Stats.rejected[RunEnded].Add(1)
		}
	}
	return out, nil
}

// Files implements the protocol.
func (d *desk) Files(ctx context.Context, in *workerv1.FilesRequest) (*workerv1.FilesResponse, error) {
	h := d.h
	k, err := keyOfWire(in.Attempt)
	if err != nil {
		return nil, h.malformed("%v", err)
	}
	w, err := h.find(in)
	if err != nil {
		return nil, err
	}
	x, err := h.affirm(ctx, w, k)
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
	files, err := h.cfg.Jobs.Files(ctx, k.run, wf, version)
	if err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	return &workerv1.FilesResponse{Files: files}, nil
}

// chunksMax bounds the chunks of one call.
const chunksMax = 10_000

// PushLogs implements the protocol. A worker may continue to print for an attempt that it no longer holds.
// Each token has its own log, so this does no harm. The home decides where the log is stored, and ignores
// names from the worker.
func (d *desk) PushLogs(ctx context.Context, in *workerv1.PushLogsRequest) (*workerv1.PushLogsResponse, error) {
	h := d.h
	w, err := h.find(in)
	switch {
	case err != nil:
		return nil, err
	case h.cfg.Logs == nil:
		return nil, h.no(connect.CodeFailedPrecondition, NoLogs, "this node keeps no logs of workers")
	case len(in.Chunks) > chunksMax:
		return nil, h.malformed("more than %d chunks", chunksMax)
	}
	out := &workerv1.PushLogsResponse{Ends: make([]int64, len(in.Chunks))}
	var chunks []logs.Chunk
	var at []int // indices into in.Chunks
	for i, c := range in.Chunks {
		k, err := keyOfWire(c.Attempt)
		if err != nil || c.Offset < 0 {
			return nil, h.malformed("chunk %d at %d: %v", i, c.Offset, err)
		}
		n, own, err := h.named(ctx, w, k)
		switch {
		case err != nil:
			return nil, connect.NewError(connect.CodeUnavailable, err)
		case !own:
			h.Stats.rejected[Stale].Add(1)
			out.Ends[i] = -1
			continue
		}
		chunks, at = append(chunks, logs.Chunk{Ref: logs.Ref{Namespace: n.Namespace, Workflow: n.Workflow, Run: k.run, Task: k.task, Name: n.Task, Token: k.token},
			Offset: c.Offset, Data: c.Data, Cut: c.Cut}), append(at, i)
	}
	if len(chunks) == 0 {
		return out, nil
	}
	ends, err := h.cfg.Logs.Append(ctx, chunks)
	if err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, end := range ends {
		out.Ends[at[i]] = end
		ref := &chunks[i].Ref
		if x := w.running[key{ref.Run, ref.Task, ref.Token}]; x != nil {
			x.logged = max(x.logged, end)
		}
	}
	return out, nil
}

// countLogs corrects the length of a log in reports of a worker. If the worker states less than the bytes
// that have arrived, the number of arrived bytes is used.
func (h *Home) countLogs(w *worker, words []spoken) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range words {
		if x := w.running[words[i].key]; x != nil {
			res := &words[i].report.Result
			res.Logged = max(res.Logged, x.logged)
		}
	}
}

// Leave implements the protocol.
func (d *desk) Leave(ctx context.Context, in *workerv1.LeaveRequest) (*workerv1.LeaveResponse, error) {
	h := d.h
	h.mu.Lock()
	w, err := h.attached(in)
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
	h.wakeSoon()
	return &workerv1.LeaveResponse{}, nil
}

var errWire = errors.New("the message names no attempt: it needs run, task ≥ 0 and token ≥ 1")

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
	return &workerv1.Attempt{Run: k.run.String(), Task: int32(k.task), Token: int64(k.token)}
}
