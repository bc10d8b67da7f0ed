package engine

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
)

// abroadEvery is the pause between two times of asking other nodes for what they hold.
const abroadEvery = 15 * time.Second

// abroad are the loaded runs with attempts that other nodes hold. A node that is there does not
// hold all that its handler did: its process may have ended, and another one gone on, with what
// was handed over in between known to nobody; or the transaction that handed it over was in doubt
// when the shard went. So it is asked from time to time. What it does not hold it reports as lost,
// after all that it has reported before.
type abroad struct {
	runs  map[dag.RunID]bool
	asked time.Time
}

// forget has them asked at once for what is loaded next.
func (b *abroad) forget() { b.runs, b.asked = nil, time.Time{} }

func (b *abroad) add(id dag.RunID) {
	if b.runs == nil {
		b.runs = map[dag.RunID]bool{}
	}
	b.runs[id] = true
}

// ask asks, if it is time, and forgets the runs of which nobody else holds anything any more.
func (b *abroad) ask(w *writer) {
	if len(b.runs) == 0 || w.e.host.Now().Sub(b.asked) < abroadEvery {
		return
	}
	b.asked = w.e.host.Now()
	held, old := map[dag.HandlerID][]AttemptID{}, map[dag.HandlerID][]Held{}
	for _, id := range slices.SortedFunc(maps.Keys(b.runs), func(a, b dag.RunID) int { return bytes.Compare(a[:], b[:]) }) {
		any := false
		if r := w.runs[id]; r != nil {
			r.Held(func(a *dag.AttemptRow) {
				if a.Handler != w.e.me().ID && a.Task != dag.LeaderTask {
					any = true
					if ofOldEra(w, a) { // asked again: a cancel may be lost
						w.cancel([]dag.Cancel{{Run: id, Task: a.Task, Token: a.Token, Handler: a.Handler, Kill: true}})
					}
					if ofOldEra(w, a) && w.isWorker(a.Handler) && w.e.cfg.Helpers != nil {
						old[a.Handler] = append(old[a.Handler], Held{id, a.Task, a.Token, a.Handler})
					} else {
						held[a.Handler] = append(held[a.Handler], AttemptID{id, a.Task, a.Token})
					}
				}
			})
		}
		if !any {
			delete(b.runs, id)
		}
	}
	for _, h := range slices.Sorted(maps.Keys(held)) {
		w.e.cfg.Peers.Confirm(h, held[h])
	}
	askWorkers(w, old)
}

// Disown reports as lost those of these attempts that this process does not hold: others have
// them down as held by its handler.
func (e *Engine) Disown(ids []AttemptID) error {
	return e.writer.inbox.put(item{op: func(w *writer) answer {
		for _, id := range ids {
			k := dag.KeyOf(id.Run, id.Task, id.Token)
			// What was reported and is not written yet is booked, or carried, or before this in the list.
			if e.home.has(k) || w.onItsWay(k) || e.cfg.Executor.Running(id.Run, id.Task, id.Token) {
				continue
			}
			w.carry(k)
			e.cfg.Peers.Report(Report{Run: id.Run, Task: id.Task, Token: id.Token, Lost: "its node has not got it"})
		}
		return answer{}
	}})
}
