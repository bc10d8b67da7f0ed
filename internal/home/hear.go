package home

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// Paths of the calls between nodes about slots.
const (
	PeerPrefix  = "/internal/v1/slots/"
	AskPath     = PeerPrefix + "ask"
	GrantPath   = PeerPrefix + "grant"
	DeliverPath = PeerPrefix + "deliver"
	ReportPath  = PeerPrefix + "report"
	MissingPath = PeerPrefix + "missing"
	LogPath     = PeerPrefix + "log"
)

// word is a worker's report on its way to the owner of its run. It also has the total of that home's slots
// that were lent to the owner, because the next task may become ready in the transaction that settles this
// report.
type word struct {
	Handler dag.HandlerID
	Report  engine.Report
	Lent    *lent
}

// heard is the answer of the owner to a word.
type heard struct {
	Verdict dag.Verdict
	Lent    bool // the owner has noted the slots
}

// spoken is a report of a worker, with its verdict.
type spoken struct {
	at      int // index among the reports of the call
	key     key
	report  engine.Report
	verdict workerv1.Verdict
}

// hearAll delivers reports to the owners of their runs, and waits until they are durable. takes reports
// whether the caller must also take the attempts that this node has meanwhile assigned to the worker.
func (h *Home) hearAll(ctx context.Context, w *worker, words []spoken, starts bool) (takes bool) {
	mine := h.mine(w, words)
	if len(mine) == len(words) && len(words) > 0 {
		return h.hearHere(ctx, w, mine, starts)
	}
	var wg sync.WaitGroup
	if len(mine) > 0 {
		wg.Go(func() { h.hearHere(ctx, w, mine, false) })
	}
	for i := range words {
		if x := &words[i]; !slices.Contains(mine, x) {
			wg.Go(func() { x.verdict = h.hear(ctx, w, x.key, x.report) })
		}
	}
	wg.Wait()
	return false
}

// mine returns the reports for this node's engine: their attempts are known here, and this node owns their
// shards.
func (h *Home) mine(w *worker, words []spoken) []*spoken {
	self := h.self()
	own := map[dag.ShardID]bool{}
	mine := make([]*spoken, 0, len(words))
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range words {
		x := w.running[words[i].key]
		if x == nil || !x.known {
			continue
		}
		is, known := own[x.Shard]
		if !known {
			m, ok := h.dir.OwnerOf(x.Shard)
			is = ok && m.Handler == self
			own[x.Shard] = is
		}
		if is {
			mine = append(mine, &words[i])
		}
	}
	return mine
}

// hearHere passes reports to this node's own engine in one call, together with the slots that they free.
func (h *Home) hearHere(ctx context.Context, w *worker, words []*spoken, starts bool) (takes bool) {
	reports := make([]engine.Report, len(words))
	h.mu.Lock()
	self := h.self()
	for i, x := range words {
		reports[i] = x.report
		h.over(w, x.key, &x.report, self)
	}
	if l := h.due(w, self); l != nil && h.granted(l) {
		w.told(l)
	}
	h.mu.Unlock()
	verdicts, done, gone := make([]workerv1.Verdict, len(words)), make(chan struct{}), false
	h.listen(w.member.Handler, reports, func(i int, v dag.Verdict, err error) {
		if verdicts[i] = wireVerdict(v); err != nil {
			verdicts[i] = workerv1.Verdict_VERDICT_UNAVAILABLE
		}
	}, func() { // the engine calls this while h.mu is held
		if takes = starts && !gone; takes {
			w.takers++
		}
		close(done)
	})
	select {
	case <-done:
	case <-ctx.Done(): // if the worker repeats the call, it gets the result
		h.mu.Lock()
		select {
		case <-done:
		default:
			gone = true
		}
		h.mu.Unlock()
	}
	for i, x := range words {
		if x.verdict = workerv1.Verdict_VERDICT_UNAVAILABLE; !gone {
			x.verdict = verdicts[i]
		}
	}
	return takes && !gone
}

// listen passes reports of a worker to this node's engine. For each report the engine calls the functions
// heard and then over, while h.mu is held. Afterwards the engine returns the slots that it does not need.
func (h *Home) listen(id dag.HandlerID, reports []engine.Report, heard func(i int, v dag.Verdict, err error), over func()) {
	h.mu.Lock()
	h.purse.expect(id, len(reports))
	h.mu.Unlock()
	left := len(reports)
	each := func(i int, v dag.Verdict, err error) { // all calls are on one goroutine
		heard(i, v, err)
		if left--; left > 0 {
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.purse.expect(id, -len(reports))
		over()
	}
	if err := h.eng.HearAll(id, reports, each); err != nil {
		for i := range reports {
			each(i, 0, err)
		}
	}
}

// over records that an attempt of a worker has ended. The caller must hold h.mu. The slot stays with the
// owner of the run, or is lent to another owner.
func (h *Home) over(w *worker, k key, r *engine.Report, owner dag.HandlerID) {
	if !w.local && r.Lost == dag.LostNoRoom { // the worker's disk counts as full until its next poll says otherwise
		w.full = true
		h.relist(w)
	}
	if r.Started != 0 {
		return
	}
	if len(w.waiting) > 0 { // the attempt was still waiting, for a slot or for its job
		w.waiting = slices.DeleteFunc(w.waiting, func(x *holding) bool { return keyOf(&x.Assignment) == k })
		h.relist(w)
	}
	x := w.running[k]
	if x == nil || w.out == nil {
		return
	}
	x.unneeded()
	delete(w.running, k)
	delete(w.out, k)
	w.ended.add(k)
	w.endUpload(k)
	delete(w.inputs, k)
	w.names.ended(k, time.Now())
	if x.asked {
		h.cfg.Jobs.Left(k.run)
	}
	h.freed(w, owner, x.Place.Need())
}

// took records that the owner has taken the report of an end, with any verdict. Such a report is not sent
// again.
func (h *Home) took(w *worker, x *spoken) {
	if x.report.Started != 0 || x.verdict == workerv1.Verdict_VERDICT_UNAVAILABLE {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	w.settled.add(x.key)
	if d := w.echoes[x.key]; d != nil {
		delete(w.echoes, x.key)
		h.accept(w, d)
	}
}

// due returns the grants of a worker's slots that their owner does not know yet. It returns nil if there are
// none. The caller must hold h.mu.
func (h *Home) due(w *worker, owner dag.HandlerID) (l *lent) {
	for at, a := range w.accounts {
		if at.owner != owner || a.granted == a.told {
			continue
		}
		if l == nil {
			l = &lent{Home: h.self(), Owner: owner}
		}
		l.Granted = append(l.Granted, total{w.member.Handler, w.epoch(), a.granted, at.need})
	}
	return l
}

// told records that an owner knows about slots that it was granted. The caller must hold h.mu.
func (w *worker) told(l *lent) {
	for i := range l.Granted {
		if a := w.accounts[loan{l.Owner, l.Granted[i].Need}]; a != nil {
			a.told = max(a.told, l.Granted[i].N)
		}
	}
}

// hear forwards a report to the owner of its run, and waits until the report is durable.
func (h *Home) hear(ctx context.Context, w *worker, k key, r engine.Report) workerv1.Verdict {
	owner, known, err := h.owner(ctx, w, k)
	switch {
	case errors.Is(err, errkind.ErrNotFound):
		return workerv1.Verdict_VERDICT_STALE
	case err != nil || !known:
		return workerv1.Verdict_VERDICT_UNAVAILABLE
	}
	h.mu.Lock()
	h.over(w, k, &r, owner.Handler)
	l := h.due(w, owner.Handler)
	h.mu.Unlock()
	out, err := h.bring(ctx, owner, word{w.member.Handler, r, l})
	if err != nil {
		h.poke() // another message informs the owner about its slots
		return workerv1.Verdict_VERDICT_UNAVAILABLE
	}
	if out.Lent {
		h.mu.Lock()
		w.told(l)
		h.mu.Unlock()
	}
	return wireVerdict(out.Verdict)
}

// owner returns the present owner of a run.
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

// Heard processes a word at the owner. It notes the slot before the report, so that the transaction of the
// report can use the slot.
func (h *Home) Heard(ctx context.Context, x *word) (out heard, err error) {
	h.mu.Lock()
	out.Lent = x.Lent != nil && x.Lent.Owner == h.self() && h.granted(x.Lent)
	h.mu.Unlock()
	type end struct {
		v   dag.Verdict
		err error
	}
	told := make(chan end, 1)
	h.listen(x.Handler, []engine.Report{x.Report}, func(_ int, v dag.Verdict, err error) { told <- end{v, err} }, func() {})
	select {
	case is := <-told:
		out.Verdict, err = is.v, is.err
	case <-ctx.Done(): // the report may still be written; if the call is repeated, it gets the result
		err = fmt.Errorf("%w: no answer yet: %w", errkind.ErrUnavailable, ctx.Err())
	}
	return out, err
}

// Mux registers handlers by method and path.
type Mux interface {
	HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request))
}

// foreign is the error for a report that the calling node may not make.
type foreign struct{ error }

// HandlePeers registers the calls of other nodes. may returns an error if the caller of a request may not
// report for a handler.
func (h *Home) HandlePeers(mux Mux, may func(context.Context, dag.HandlerID) error) {
	take(mux, AskPath, func(ctx context.Context, a *ask) (any, error) { return nil, h.Ask(ctx, a) })
	take(mux, GrantPath, func(_ context.Context, l *lent) (any, error) { return nil, h.Granted(l) })
	take(mux, DeliverPath, func(_ context.Context, d *delivery) (any, error) { return nil, h.Deliver(d) })
	take(mux, MissingPath, func(_ context.Context, q *question) (any, error) { return h.missing(q) })
	take(mux, LogPath, func(ctx context.Context, p *logPiece) (any, error) {
		out, err := h.readLog(ctx, p)
		return out, err
	})
	take(mux, ReportPath, func(ctx context.Context, x *word) (any, error) {
		if err := may(ctx, x.Handler); err != nil {
			return nil, foreign{err}
		}
		out, err := h.Heard(ctx, x)
		return out, err
	})
}

// PeerBytesMax bounds a call between nodes, in bytes.
const PeerBytesMax = 32 << 20

func take[T any](mux Mux, path string, do func(context.Context, *T) (any, error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		in := new(T)
		body := http.MaxBytesReader(w, r.Body, PeerBytesMax)
		err := json.NewDecoder(body).Decode(in)
		if err == nil { // the proof of a call is compared with its body at the end of the body
			_, err = io.Copy(io.Discard, body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		out, err := do(r.Context(), in)
		var moved *errkind.Elsewhere
		switch {
		case errors.As(err, &moved):
			http.Error(w, err.Error(), http.StatusMisdirectedRequest)
		case ErrAway(err):
			http.Error(w, err.Error(), http.StatusConflict)
		case errors.As(err, new(foreign)):
			http.Error(w, err.Error(), http.StatusForbidden)
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case out != nil:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(out) // an error means that the caller is gone
		}
	})
}

var states = map[string]dag.AttemptState{"succeeded": dag.AttemptSucceeded, "failed": dag.AttemptFailed, "stopped": dag.AttemptStopped}

// stateLost means that the attempt no longer runs and that its result is unknown.
const stateLost = "lost"

// reportOf parses a result.
func reportOf(r *workerv1.Result) (key, engine.Report, error) {
	k, err := keyOfWire(r.GetAttempt())
	if err != nil {
		return k, engine.Report{}, err
	}
	rep := engine.Report{Run: k.run, Task: k.task, Token: k.token}
	if r.Running {
		rep.Started, rep.Handle, rep.Adopts = max(dag.Micros(r.StartedMicros), 1), r.Handle, r.Adopts
		return k, rep, nil
	}
	state, ok := states[r.State]
	switch {
	case r.State == stateLost:
		rep.Lost = cmp.Or(r.Cause, "its worker lost it")
		return k, rep, nil
	case !ok:
		return k, rep, fmt.Errorf("state %q: use succeeded, failed, stopped or lost", r.State)
	case len(r.Outputs) > 0 && !isObject(r.Outputs):
		return k, rep, errors.New("outputs are not a JSON object")
	}
	rep.Result = dag.Result{State: state, Cause: dag.Cause(r.Cause), Exited: r.Exited, ExitCode: r.ExitCode, Signal: r.Signal, Message: r.Message,
		Logged: r.LogBytes, Left: r.ArtifactBytes, TimedOut: r.TimedOut, Outputs: r.Outputs, Handle: r.Handle, Adopts: r.Adopts, Started: dag.Micros(r.StartedMicros), Finished: dag.Micros(r.FinishedMicros)}
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
	return workerv1.Verdict_VERDICT_STALE // this verdict is right even if the run does not have the task
}
