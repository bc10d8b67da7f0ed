package engine

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
)

const (
	// abroadEvery is the pause between two requests to other nodes about the attempts that they hold.
	abroadEvery = 15 * time.Second
	// abroadAgain is the pause after a request that got no answer. After a failover, a worker is often not
	// attached yet when it is first asked. Its attempts from before the failover end only when it answers.
	abroadAgain = time.Second
)

// abroad holds the loaded runs with attempts on other nodes. A node that is alive may lack an attempt that
// the rows assign to its handler. Either its process was replaced, or the outcome of the transaction that
// assigned the attempt was unknown when the shard moved. So the owner asks these nodes regularly. A node
// reports the attempts that it does not hold as lost, after all its earlier reports.
type abroad struct {
	runs  map[dag.RunID]bool
	asked time.Time
	open  bool // a request of the last round has no answer yet
}

// forget drops the runs. For the runs that the owner loads next, it asks at once.
func (b *abroad) forget() { *b = abroad{} }

func (b *abroad) add(id dag.RunID) {
	if b.runs == nil {
		b.runs = map[dag.RunID]bool{}
	}
	b.runs[id] = true
}

// ask sends the requests to other nodes about attempts, if they are due. It drops the runs that have no
// attempts on other nodes.
func (b *abroad) ask(w *writer) {
	pause := abroadEvery
	if b.open {
		pause = abroadAgain
	}
	if len(b.runs) == 0 || w.e.host.Now().Sub(b.asked) < pause {
		return
	}
	b.asked, b.open = w.e.host.Now(), false
	held, old := map[dag.HandlerID][]AttemptID{}, map[dag.HandlerID][]Held{}
	for _, id := range slices.SortedFunc(maps.Keys(b.runs), func(a, b dag.RunID) int { return bytes.Compare(a[:], b[:]) }) {
		any := false
		if r := w.runs[id]; r != nil {
			r.Held(func(a *dag.AttemptRow) {
				if a.Handler != w.e.me().ID && a.Task != dag.LeaderTask {
					any = true
					if ofOldEra(w, a) { // the cancel is sent again, because an earlier one may be lost
						w.e.slots.cancel([]dag.Cancel{{Run: id, Task: a.Task, Token: a.Token, Handler: a.Handler, Kill: true}})
					}
					if ofOldEra(w, a) && w.e.slots.isWorker(a.Handler) && w.e.cfg.Helpers != nil {
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
		if w.e.cfg.Peers != nil { // on a node that is alone, the workers repeat their reports without a request
			w.e.cfg.Peers.Confirm(h, held[h])
		}
	}
	askWorkers(w, old)
}

// carriedMax bounds the attempts in carried. If carried is full and drops an attempt, and the attempt's shard
// comes back before its report is written, the attempt may run again.
const carriedMax = 100_000

// carried holds the attempts of this process whose reports are being delivered by the peers. Such an attempt
// has ended. So if its shard comes back to this node, the attempt must not be started again. Once an owner
// has accepted the report, the rows show the end.
type carried struct {
	peers Peers
	all   map[dag.AttemptKey]bool
}

func (c *carried) add(k dag.AttemptKey) {
	if len(c.all) >= carriedMax {
		clear(c.all)
	}
	c.all[k] = true
}

// has reports whether the peers have a report of an attempt that its owner has not accepted yet. The rows
// show each accepted report, unless the database has gone back since. In that case the attempt is lost.
func (c *carried) has(k dag.AttemptKey) bool {
	if !c.all[k] {
		return false
	}
	if c.peers.Pending(AttemptID{k.Run, dag.TaskID(k.Task), k.Token}) {
		return true
	}
	delete(c.all, k)
	return false
}

// Disown reports as lost the given attempts that this process does not hold, although their rows name its
// handler.
func (e *Engine) Disown(ids []AttemptID) error {
	return e.writer.inbox.put(item{op: func(w *writer) answer {
		for _, id := range ids {
			k := dag.KeyOf(id.Run, id.Task, id.Token)
			// An attempt that uses the lent slot of an owner on another node is not booked here.
			if e.slots.has(k) || w.carried.has(k) || e.cfg.Executor.Live(id.Run, id.Task, id.Token) || w.told()[k] {
				continue
			}
			w.carried.add(k)
			e.cfg.Peers.Report(Report{Run: id.Run, Task: id.Task, Token: id.Token, Lost: "its node has not got it"})
		}
		return answer{}
	}})
}
