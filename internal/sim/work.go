package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// attemptKey identifies an attempt.
type attemptKey struct {
	run   dag.RunID
	task  dag.TaskID
	token dag.Token
}

// worker holds the attempts of a process. Attempts take time, fail, hang and repeat their reports.
type worker struct {
	life   *life
	live   map[attemptKey]*attempt
	done   map[attemptKey]bool
	reaped bool
}

type attempt struct {
	attemptKey
	handler dag.HandlerID
	result  dag.Result
	over    bool

	handle   string   // handle of its outside work; "" if there is none
	found    []string // unreleased handles of earlier attempts
	releases string   // handle that this attempt releases, if it is an errand
}

func newWorker(l *life) *worker {
	wk := &worker{life: l, live: map[attemptKey]*attempt{}, done: map[attemptKey]bool{}}
	l.w.workers = append(l.w.workers, wk)
	return wk
}

// Start runs attempts.
func (wk *worker) Start(as []engine.Assignment) {
	if wk.life.dead {
		return
	}
	w := wk.life.w
	for i := range as {
		one := as[i] // the slice belongs to the engine again when Start returns
		a := &one
		k := attemptKey{a.Run, a.Task, a.Token}
		if wk.live[k] != nil && !w.mutant.again {
			continue
		}
		if wk.done[k] || wk.live[k] != nil {
			w.violate("started once", "%s starts attempt %s again after its report", wk.life, w.name(k))
		}
		at := &attempt{attemptKey: k, handler: wk.life.handler}
		wk.live[k] = at
		w.tell("%s runs %s", wk.life, w.name(k))
		w.witness.begins(wk.life, k)
		w.witness.granted(wk.life, a)
		if len(wk.live) > w.swarm.slots {
			w.violate("slots", "%s runs %d attempts at once, it has %d slots", wk.life, len(wk.live), w.swarm.slots)
		}
		wk.obeys(at, a)
	}
}

// begin draws the course of an attempt.
func (wk *worker) begin(at *attempt, g *dag.Graph) {
	w, s := wk.life.w, &wk.life.w.swarm
	took := time.Duration(w.rng.IntN(30)+1) * time.Millisecond
	if w.chance(s.long) {
		took = time.Duration(1200+w.rng.IntN(5000)) * time.Millisecond
		w.after(time.Second, func() { wk.life.do(func() { wk.started(at) }) })
	}
	at.result = dag.Result{State: dag.AttemptSucceeded, Exited: true, Started: wk.told(), Finished: wk.told() + dag.Micros(took.Microseconds())}
	sizes(w, &at.result)
	switch n := w.rng.IntN(100); {
	case n < s.fail:
		at.result.State, at.result.Cause, at.result.ExitCode = dag.AttemptFailed, dag.CauseExit, 1
	case n < s.fail+s.stray:
		at.result.State, at.result.Signal = dag.AttemptStopped, "SIGTERM" // although no caller requested it
	case n < s.fail+s.stray+s.poison:
		at.result.Outputs = poison
	case n < s.fail+s.stray+s.poison+s.vanish && g != nil && g.Policy(at.task).Timeout > 0:
		w.count("vanish")
		at.result.State, at.result.Cause = dag.AttemptFailed, dag.CauseTimeout
		took = time.Duration(15+w.rng.IntN(10)) * time.Second // much too late
		w.after(time.Second, func() { wk.life.do(func() { wk.started(at) }) })
	}
	w.after(took, func() { wk.life.do(func() { wk.end(at) }) })
}

// poison is an output that the store refuses.
var poison = []byte(`{"poison":true}`)

// told returns the time by the clock of the process's machine.
func (wk *worker) told() dag.Micros { return dag.Micro(wk.life.Now()) }

func (wk *worker) started(at *attempt) {
	if !at.over {
		wk.life.eng.Report(engine.Report{Run: at.run, Task: at.task, Token: at.token, Started: wk.told()})
	}
}

// end reports the end of an attempt.
func (wk *worker) end(at *attempt) {
	if at.over {
		return
	}
	at.over = true
	w := wk.life.w
	w.tell("%s: %s ended %s", wk.life, w.name(at.attemptKey), at.result.State)
	r := engine.Report{Run: at.run, Task: at.task, Token: at.token, Result: at.result}
	w.witness.said[at.attemptKey] = at.result.State
	overOutside(w, at, at.result.State)
	wk.life.eng.Report(r)
	delete(wk.live, at.attemptKey)
	wk.done[at.attemptKey] = true
	if w.chance(w.swarm.twice) {
		w.count("report twice")
		w.after(w.delay(2*time.Second), func() {
			wk.life.do(func() {
				_, r := w.mutant.forge(w, wk.life.handler, r)
				wk.life.eng.Report(r)
			})
		})
	}
}

// Cancel ends attempts.
func (wk *worker) Cancel(cs []dag.Cancel) {
	if wk.life.dead {
		return
	}
	for _, c := range cs {
		at := wk.live[attemptKey{c.Run, c.Task, c.Token}]
		if at == nil || at.over {
			continue
		}
		wk.life.w.tell("%s: %s is told to end", wk.life, wk.life.w.name(at.attemptKey))
		at.result = dag.Result{State: dag.AttemptStopped, Signal: "SIGTERM", Finished: wk.told(), Handle: at.result.Handle, Adopts: at.result.Adopts}
		wk.life.w.after(wk.life.w.delay(100*time.Millisecond), func() { wk.life.do(func() { wk.end(at) }) })
	}
}

// Running reports whether the worker has the attempt, or has reported its end. It also covers the end,
// because the report may not be in the store yet. The executor of a real node does the same.
func (wk *worker) Running(run dag.RunID, task dag.TaskID, token dag.Token) bool {
	k := attemptKey{run, task, token}
	return (wk.live[k] != nil || wk.done[k]) && !wk.life.w.mutant.again
}

// Live reports whether the worker has the attempt.
func (wk *worker) Live(run dag.RunID, task dag.TaskID, token dag.Token) bool {
	return wk.live[attemptKey{run, task, token}] != nil && !wk.life.w.mutant.again
}

// orphan separates attempts from their dead process. Some of them still report their end, late and with their
// old token.
func (wk *worker) orphan() {
	w := wk.life.w
	for _, k := range sortedKeys(wk.live) {
		at := wk.live[k]
		if at.over || !w.chance(w.swarm.ghosts) {
			continue
		}
		at.over = true
		if at.result.State != dag.AttemptFailed {
			at.result.State = dag.AttemptSucceeded
		}
		w.count("ghost")
		r := engine.Report{Run: at.run, Task: at.task, Token: at.token, Result: at.result}
		w.witness.said[k] = at.result.State
		overOutside(w, at, at.result.State)
		w.after(w.delay(8*time.Second), func() { w.haunt(wk, at.handler, r) })
	}
}

// haunt delivers a report of a dead process to the current owner of the run.
func (w *World) haunt(wk *worker, from dag.HandlerID, r engine.Report) {
	l := w.ownerOf(r.Run)
	if wk.reaped || l == nil || l.eng == nil {
		return
	}
	l.do(func() {
		from, r := w.mutant.forge(w, from, r)
		w.spawn(l, "ghost", func() { _, _ = l.eng.Hear(l.root, from, r) })
	})
}

// peers carries messages of a node to other nodes, as package peer does over HTTP. The simulated network
// loses, doubles and delays messages.
type peers struct {
	l       *life
	pending map[engine.AttemptID]int // reports that no owner has accepted yet
}

// Pending reports whether a report of an attempt is on its way.
func (p *peers) Pending(id engine.AttemptID) bool {
	return p.pending[id] > 0 || p.l.w.mutant.recalls && p.l.work.done[attemptKey{id.Run, id.Task, id.Token}]
}

// Alive reports whether a handler is listed.
func (p *peers) Alive(h dag.HandlerID) bool {
	alive := p.l.member.Alive(h)
	if ask := p.l.w.mutant.alive; ask != nil {
		return ask(alive)
	}
	return alive
}

const (
	pauseMin  = 100 * time.Millisecond
	pauseMax  = 2 * time.Second
	replyWait = 3 * time.Second
)

// Report repeats a report until an owner accepts it or answers that it is no longer needed.
func (p *peers) Report(r engine.Report) {
	l := p.l
	if l.dead {
		return
	}
	from, id := l.handler, engine.AttemptID{Run: r.Run, Task: r.Task, Token: r.Token}
	l.w.unarrived++
	p.pending[id]++
	l.w.spawn(l, "carry", func() {
		defer func() {
			l.w.unarrived--
			if p.pending[id]--; p.pending[id] == 0 {
				delete(p.pending, id)
			}
		}()
		for pause := pauseMin; !l.dead; pause = min(2*pause, pauseMax) {
			if p.try(from, r) || l.w.mutant.forgetful {
				return
			}
			l.Await(l.root, nil, pause)
		}
	})
}

func (p *peers) try(from dag.HandlerID, r engine.Report) bool {
	l := p.l
	row, err := l.eng.RunRow(l.root, r.Run)
	switch {
	case errors.Is(err, errkind.ErrNotFound), err == nil && row.State.Terminal():
		return true
	case err != nil:
		return false
	}
	owner, ok := l.member.OwnerOf(row.Shard)
	if !ok {
		return false
	}
	if owner.Handler == l.handler {
		_, err := l.eng.Hear(l.root, from, r)
		return err == nil
	}
	replied, took := make(chan struct{}, 1), false
	l.w.send(l.w.byHandler[owner.Handler], func(to *life) {
		to.w.spawn(to, "hear", func() {
			_, err := to.eng.Hear(to.root, from, r)
			if err == nil && !to.dead {
				to.w.send(l, func(*life) {
					took = true
					select {
					case replied <- struct{}{}:
					default:
					}
				})
			}
		})
	})
	l.Await(l.root, replied, replyWait)
	return took
}

// Cancel sends a message once. If the message is lost, so are the cancels.
func (p *peers) Cancel(h dag.HandlerID, cs []dag.Cancel) {
	if p.l.dead {
		return
	}
	if _, listed := p.l.member.Member(h); listed {
		p.l.w.send(p.l.w.byHandler[h], func(to *life) { to.work.Cancel(cs) })
	}
}

// Confirm also sends a message only once.
func (p *peers) Confirm(h dag.HandlerID, ids []engine.AttemptID) {
	if p.l.dead {
		return
	}
	if _, listed := p.l.member.Member(h); listed {
		p.l.w.send(p.l.w.byHandler[h], func(to *life) { _ = to.eng.Disown(ids) })
	}
}

// Nudge also sends a message only once.
func (p *peers) Nudge(s dag.ShardID) {
	if p.l.dead {
		return
	}
	if m, ok := p.l.member.OwnerOf(s); ok {
		p.l.w.send(p.l.w.byHandler[m.Handler], func(to *life) { to.member.Wake() })
	}
}

// send delivers a message to a process, loses it, or delivers it twice.
func (w *World) send(to *life, f func(to *life)) {
	if to == nil {
		return
	}
	s := &w.swarm
	times := 1
	switch n := w.rng.IntN(100); {
	case n < s.lose:
		w.count("message lost")
		return
	case n < s.lose+s.double:
		w.count("message twice")
		times = 2
	}
	for range times {
		w.after(w.delay(s.latency), func() { to.do(func() { f(to) }) })
	}
}

// delay draws a delay up to the bound most. Usually it is much shorter.
func (w *World) delay(most time.Duration) time.Duration {
	d := w.rng.Int64N(int64(most) + 1)
	if w.rng.IntN(4) > 0 {
		d /= 16
	}
	return time.Duration(d)
}

// ownerOf returns the process that owns a run's shard according to the rows, or nil if that process is dead.
func (w *World) ownerOf(run dag.RunID) *life {
	row, ok := w.peekRun(run)
	if !ok {
		return nil
	}
	return w.shardOwner(row.Shard)
}

func (w *World) shardOwner(s dag.ShardID) *life {
	if w.swarm.nodes == 1 {
		if l := w.lives[0]; l != nil && !l.dead {
			return l
		}
		return nil
	}
	l := w.byHandler[w.witness.owner[s]]
	if l == nil || l.dead {
		return nil
	}
	return l
}

func (w *World) peekRun(id dag.RunID) (dag.RunRow, bool) {
	w.aside++
	defer func() { w.aside-- }()
	row, err := w.st.Run(context.Background(), id)
	return row, err == nil
}

func (w *World) name(k attemptKey) string {
	return fmt.Sprintf("%s/%d#%d", w.runName(k.run), k.task, k.token)
}

// database is a store that several nodes can share.
type database interface {
	store.Store
	store.Cluster
}
