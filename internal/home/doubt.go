package home

import (
	"context"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// lookMax bounds the time for reading the rows of one attempt.
const lookMax = time.Minute

// doubtsMax bounds how many attempts of a worker are looked up at the same time.
const doubtsMax = 64

// compare compares the attempts that a worker lists with those that its home knows. The caller holds h.mu. It
// looks up unknown attempts in the rows, which decide. If the worker had confirmed an attempt and does not
// list it any more, the attempt is lost.
//
// A poll that arrives after a newer one proves nothing, because it acknowledges fewer answers.
func (h *Home) compare(w *worker, has map[key]*workerv1.Attempt, ack int64) {
	for k, a := range has { // nil if the attempt has ended at the worker
		if a != nil && !w.has(k) && !w.doubts[k] && len(w.doubts) < doubtsMax {
			w.doubts[k] = true
			go h.doubt(w, k, placeOf(a))
		}
	}
	for k, x := range w.running {
		switch _, listed := has[k]; {
		case listed && !x.confirmed: // the worker sent this poll before that answer arrived, so only a later poll proves anything
			x.confirmed, x.sent = true, w.seq+1
		case listed:
		case x.confirmed && ack >= x.sent && !x.missing:
			x.missing = true
			h.Stats.Lost.Add(1)
			h.log.Warn("a worker has lost an attempt", "code", "worker_lost_attempt", "worker", w.member.Name, "run", k.run.String(), "task", k.task, "token", k.token)
			go h.answerFor(w, engine.Report{Run: k.run, Task: k.task, Token: k.token, Lost: "its worker does not have it any more"})
		}
	}
}

// doubt looks up whether a worker has an attempt. If it does not, the next answer orders the worker to end
// the attempt.
func (h *Home) doubt(w *worker, k key, p dag.Place) {
	ctx, cancel := context.WithTimeout(context.Background(), lookMax)
	defer cancel()
	asked := time.Now()
	holds, err := h.eng.Holds(ctx, w.member.Handler, k.run, k.task, k.token)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(w.doubts, k)
	if err != nil || w.out == nil || w.has(k) {
		return // the next poll starts another lookup
	}
	if holds {
		w.running[k] = &holding{Assignment: engine.Assignment{Place: p}, affirmed: asked, confirmed: true, sent: w.seq}
		h.hold(w, p.Need())
		return
	}
	h.Stats.rejected[Stale].Add(1)
	h.log.Warn("a worker runs an attempt that it does not hold; the node orders it to end the attempt", "code", "worker_attempt_stale", "worker", w.member.Name,
		"run", k.run.String(), "task", k.task, "token", k.token)
	if !slices.ContainsFunc(w.stops, func(s stop) bool { return s.key == k }) {
		w.stops = append(w.stops, stop{key: k, kill: true})
	}
	w.poke()
}

// answerFor reports a result in place of a worker, until the owner accepts it, and returns the verdict.
func (h *Home) answerFor(w *worker, r engine.Report) workerv1.Verdict {
	k := key{r.Run, r.Task, r.Token}
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		ctx, cancel := context.WithTimeout(context.Background(), callMax)
		v := h.hear(ctx, w, k, r)
		cancel()
		h.mu.Lock()
		over := w.out == nil
		h.mu.Unlock()
		if v != workerv1.Verdict_VERDICT_UNAVAILABLE || over {
			h.took(w, &spoken{key: k, report: r, verdict: v})
			return v
		}
		time.Sleep(pause)
	}
}

func failed(k key, res dag.Result) engine.Report {
	return engine.Report{Run: k.run, Task: k.task, Token: k.token, Result: res}
}
