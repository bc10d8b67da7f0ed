package home

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	workerv1 "skein.dev/skein/api/worker/v1"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// Paths of the calls between nodes about slots.
const (
	PeerPrefix  = "/internal/v1/slots/"
	AskPath     = PeerPrefix + "ask"
	GrantPath   = PeerPrefix + "grant"
	DeliverPath = PeerPrefix + "deliver"
	ReportPath  = PeerPrefix + "report"
)

// word is a worker's report on its way to the owner of its run, with the slots of that home that
// the owner has been lent: the next task can be ready in the transaction that settles this one.
type word struct {
	Handler dag.HandlerID
	Report  engine.Report
	Lent    *lent
}

// heard is the owner's answer.
type heard struct {
	Verdict dag.Verdict
	Lent    bool // the slots have been taken note of
}

// hear brings a report to the owner of its run and waits until it is durable.
func (h *Home) hear(ctx context.Context, w *worker, k key, r engine.Report) workerv1.Verdict {
	owner, known, err := h.owner(ctx, w, k)
	switch {
	case errors.Is(err, engine.ErrNotFound):
		return workerv1.Verdict_VERDICT_STALE
	case err != nil || !known:
		return workerv1.Verdict_VERDICT_UNAVAILABLE
	}
	self := h.self()
	var l *lent
	h.mu.Lock()
	w.full = w.full || !w.local && r.Lost == dag.LostNoRoom // until its next poll says otherwise
	if r.Started == 0 {                                     // it never came to wait for a slot, or to begin
		w.waiting = slices.DeleteFunc(w.waiting, func(x *holding) bool { return keyOf(&x.Assignment) == k })
	}
	if x := w.running[k]; r.Started == 0 && w.out != nil && x != nil { // it is over where it ran
		delete(w.running, k)
		delete(w.out, k)
		w.ended.add(k)
		w.endUpload(k)
		delete(w.inputs, k)
		w.names.ended(k, time.Now())
		if x.asked {
			h.cfg.Jobs.Left(k.run)
		}
		n := x.Place.Need()
		h.freed(w, owner.Handler, n)
		if a := w.accounts[loan{owner.Handler, n}]; a != nil && a.granted != a.told {
			l = &lent{Home: self, Owner: owner.Handler, Granted: []total{{w.member.Handler, w.epoch(), a.granted, n}}}
		}
	}
	h.mu.Unlock()
	out, err := h.bring(ctx, owner, word{w.member.Handler, r, l})
	if err != nil {
		h.poke() // what was lent is told all the same
		return workerv1.Verdict_VERDICT_UNAVAILABLE
	}
	if out.Lent {
		h.mu.Lock()
		if a := w.accounts[loan{owner.Handler, l.Granted[0].Need}]; a != nil {
			a.told = max(a.told, l.Granted[0].N)
		}
		h.mu.Unlock()
	}
	return wireVerdict(out.Verdict)
}

// owner finds who has a run now.
func (h *Home) owner(ctx context.Context, w *worker, k key) (store.Member, bool, error) {
	h.mu.Lock()
	x := w.running[k]
	h.mu.Unlock()
	var shard dag.ShardID
	if x != nil && x.known {
		shard = x.Shard
	} else {
		row, err := h.eng.RunRow(ctx, k.run)
		if err != nil {
			return store.Member{}, false, err
		}
		shard = row.Shard
	}
	m, ok := h.dir.OwnerOf(shard)
	return m, ok, nil
}

func (h *Home) bring(ctx context.Context, owner store.Member, x word) (out heard, err error) {
	if owner.Handler == h.self() {
		return h.Heard(ctx, &x)
	}
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	err = h.cfg.Caller.Call(ctx, owner, ReportPath, &x, &out)
	return out, err
}

// Heard is the owner's side: first the slot, so that the transaction finds it, then the report.
func (h *Home) Heard(ctx context.Context, x *word) (out heard, err error) {
	out.Lent = x.Lent != nil && x.Lent.Owner == h.self() && h.grant(x.Lent)
	out.Verdict, err = h.eng.Hear(ctx, x.Handler, x.Report)
	return out, err
}

// PeerHandler takes the calls of other nodes.
func (h *Home) PeerHandler() http.Handler {
	mux := http.NewServeMux()
	take(mux, AskPath, func(_ context.Context, a *ask) (any, error) { h.Ask(a); return nil, nil })
	take(mux, GrantPath, func(_ context.Context, l *lent) (any, error) { return nil, h.Granted(l) })
	take(mux, DeliverPath, func(_ context.Context, d *delivery) (any, error) { return nil, h.Deliver(d) })
	take(mux, ReportPath, func(ctx context.Context, x *word) (any, error) {
		out, err := h.Heard(ctx, x)
		return out, err
	})
	return mux
}

// peerBytesMax bounds a call between nodes, in bytes.
const peerBytesMax = 32 << 20

func take[T any](mux *http.ServeMux, path string, do func(context.Context, *T) (any, error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		in := new(T)
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, peerBytesMax)).Decode(in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		out, err := do(r.Context(), in)
		var moved *engine.Elsewhere
		switch {
		case errors.As(err, &moved):
			http.Error(w, err.Error(), http.StatusMisdirectedRequest)
		case ErrAway(err):
			http.Error(w, err.Error(), http.StatusConflict)
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case out != nil:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(out) // who asked has gone
		}
	})
}

var states = map[string]dag.AttemptState{"succeeded": dag.AttemptSucceeded, "failed": dag.AttemptFailed, "stopped": dag.AttemptStopped}

// stateLost: nothing is known of the end of an attempt, and it runs no more.
const stateLost = "lost"

// reportOf reads a result.
func reportOf(r *workerv1.Result) (key, engine.Report, error) {
	k, err := keyOfWire(r.GetAttempt())
	if err != nil {
		return k, engine.Report{}, err
	}
	rep := engine.Report{Run: k.run, Task: k.task, Token: k.token}
	if r.Running {
		rep.Started = max(dag.Micros(r.StartedMicros), 1)
		return k, rep, nil
	}
	state, ok := states[r.State]
	switch {
	case r.State == stateLost:
		rep.Lost = cmp.Or(r.Cause, "its worker lost it")
		return k, rep, nil
	case !ok:
		return k, rep, fmt.Errorf("state %q: want succeeded, failed, stopped or lost", r.State)
	case len(r.Outputs) > 0 && !isObject(r.Outputs):
		return k, rep, errors.New("outputs are no JSON object")
	}
	rep.Result = dag.Result{State: state, Cause: dag.Cause(r.Cause), Exited: r.Exited, ExitCode: r.ExitCode, Signal: r.Signal, Message: r.Message,
		TimedOut: r.TimedOut, Outputs: r.Outputs, Started: dag.Micros(r.StartedMicros), Finished: dag.Micros(r.FinishedMicros)}
	return k, rep, nil
}

func isObject(b []byte) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(b, &m) == nil && m != nil
}

func wireVerdict(v dag.Verdict) workerv1.Verdict {
	switch v {
	case dag.Accepted:
		return workerv1.Verdict_VERDICT_ACCEPTED
	case dag.Duplicate:
		return workerv1.Verdict_VERDICT_DUPLICATE
	case dag.RunEnded:
		return workerv1.Verdict_VERDICT_RUN_ENDED
	}
	return workerv1.Verdict_VERDICT_STALE // also of a task that the run does not have
}
