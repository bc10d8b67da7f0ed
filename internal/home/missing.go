package home

import (
	"context"
	"fmt"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
)

// unclaimedDefault is the time after which an attempt is lost if its worker has not started it.
const unclaimedDefault = 5 * time.Minute

// EndOld makes the workers that are attached here end their attempts of older eras. The database has gone
// back to an earlier state, and may not know these attempts.
func (h *Home) EndOld(era dag.Era) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.workers {
		for k, x := range w.running {
			if k.token.Era() < era {
				x.affirmed = time.Time{}
				w.stops = append(w.stops, stop{key: k, kill: true})
			}
		}
		w.waiting = slices.DeleteFunc(w.waiting, func(x *holding) bool {
			k := keyOf(&x.Assignment)
			old := k.token.Era() < era
			if old {
				go h.answerFor(w, engine.Report{Run: k.run, Task: k.task, Token: k.token, Lost: "it waited for a slot when the database went back to an earlier state"})
			}
			return old
		})
		h.relist(w)
		w.poke()
	}
}

// question asks the home of a worker which of these attempts the worker does not have.
type question struct {
	Handler dag.HandlerID
	List    []engine.Held
}

// Missing returns those of the given attempts that a worker does not have. The worker's home answers this,
// and may be another node. An attempt whose report is on its way is not missing. An error means that the
// answer is not known now.
func (h *Home) Missing(ctx context.Context, id dag.HandlerID, list []engine.Held) (missing []engine.Held, err error) {
	q := &question{id, list}
	m, ok := h.dir.Member(id)
	if !ok {
		return nil, fmt.Errorf("the node or worker with handler %d has left the cluster", id)
	}
	to, ok := h.dir.Member(m.Home)
	switch {
	case !ok:
		return nil, fmt.Errorf("worker %s is attached to no node", m.Name)
	case to.Handler == h.self():
		return h.missing(q)
	}
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	return missing, h.cfg.Caller.Call(ctx, to, MissingPath, q, &missing)
}

// missing does the same as Missing, for a worker that is attached here. An attempt that was sent to the
// worker long ago and has not started is also missing, and is lost.
func (h *Home) missing(q *question) (missing []engine.Held, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.workers[q.Handler]
	switch {
	case w == nil:
		return nil, away(q.Handler)
	case w.said == nil:
		return nil, fmt.Errorf("worker %s has not reported its attempts yet", w.member.Name)
	}
	for _, is := range q.List {
		k := key{is.Run, is.Task, is.Token}
		_, said := w.said[k]
		x := w.running[k]
		switch {
		case said, w.doubts[k], x != nil && (x.confirmed || time.Since(x.at) < h.cfg.Unclaimed):
		case x != nil:
			if !x.missing {
				x.missing = true
				h.Stats.Lost.Add(1)
				w.stops = append(w.stops, stop{key: k, kill: true}) // the attempt may still reach the worker
				go h.answerFor(w, engine.Report{Run: k.run, Task: k.task, Token: k.token, Lost: "its worker has not taken it up"})
			}
			missing = append(missing, is)
		case w.has(k) && !w.settled.has(k): // the attempt waits for a slot, or its report is being delivered
		default:
			missing = append(missing, is)
		}
	}
	return missing, nil
}
