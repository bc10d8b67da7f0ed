package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/cluster"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/dispatch"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/source"
	"skein.dev/skein/internal/store"
)

// life is one process of a node, from its start to its end.
type life struct {
	w       *World
	node    int // index of the node; all processes of a node have the same name
	number  int
	root    context.Context // ends with this process
	kill    context.CancelFunc
	ctx     context.Context // ends when the process must stop
	cancel  context.CancelFunc
	eng     *engine.Engine
	member  *cluster.Node // nil if there is no cluster
	work    *worker
	log     database          // the log of events
	awaited *dispatch.Awaited // nil in a world without events
	feeder  *source.Feeder    // nil until the engine exists
	handler dag.HandlerID     // the handler of this process in the store

	dead, frozen bool
	frozenAt     int64
	later        []func() // calls that arrived while the process was frozen
	asleep       int64    // nanoseconds for which the process's clock stood still
	skew         int64    // offset of the process's clock in nanoseconds
	drift        float64  // speed of the process's clock
	cut          bool     // the process cannot reach the database
	leaving      bool
	traits       store.Traits // the levels of isolation that it offers
	hindered     int64        // when a call of the store last failed, or the process last thawed
	slept        int64        // when its clock last continued after it had stood still
	renewed      int64        // time of the last renewal of its member row
	line         int64        // timeline of the server that it is connected to
}

func (l *life) String() string { return fmt.Sprintf("n%d.%d", l.node, l.number) }

var _ host.Host = (*life)(nil)

func (l *life) elapsed() int64 {
	now := l.w.now
	if l.frozen && l.w.swarm.sleep {
		now = l.frozenAt
	}
	return int64(float64(now-l.asleep) * l.drift)
}

// Now returns the time by the clock of the process's machine.
func (l *life) Now() time.Time { return time.Unix(clockBase, l.skew+l.elapsed()) }

// Await suspends the thread until wake is signalled or d has passed.
func (l *life) Await(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	if l.dead {
		return false
	}
	if len(wake) > 0 {
		<-wake
		return true
	}
	p := l.w.cur
	p.wake, p.ctx, p.until = wake, ctx, -1
	if d >= 0 {
		p.until = l.w.now + int64(float64(d)/l.drift) + 1
	}
	l.w.park()
	return p.woken && !l.dead
}

// Go starts a thread.
func (l *life) Go(wg *sync.WaitGroup, f func()) {
	if l.dead {
		return
	}
	l.w.groups[wg]++
	l.w.spawn(l, "side", func() {
		f()
		l.w.groups[wg]--
	})
}

// Wait suspends the thread until the group's counter is zero.
func (l *life) Wait(wg *sync.WaitGroup) {
	if !l.dead && l.w.groups[wg] > 0 {
		l.w.cur.group = wg
		l.w.park()
	}
}

// ID returns the next id.
func (l *life) ID() uuid.UUID { return uuid.UUID(l.w.id()) }

func (w *World) id() (id [16]byte) {
	w.ids++
	binary.BigEndian.PutUint64(id[:], uint64(clockBase*1000+w.now/1e6)<<16)
	binary.BigEndian.PutUint16(id[6:], 0x7000|uint16(w.rng.IntN(1<<12)))
	binary.BigEndian.PutUint64(id[8:], 0x8000_0000_0000_0000|uint64(w.ids))
	return id
}

// Jitter draws a random duration.
func (l *life) Jitter(d time.Duration) time.Duration {
	return time.Duration(l.w.rng.Int64N(max(int64(d), 1)))
}

// do calls f in the process: at once, or after the process thaws. It never calls f in a dead process.
func (l *life) do(f func()) {
	switch {
	case l.dead:
	case l.frozen:
		l.later = append(l.later, f)
	default:
		f()
	}
}

// start starts the next process of a node.
func (w *World) start(node int) *life {
	w.born[node]++
	l := &life{w: w, node: node, number: w.born[node], drift: 1, skew: w.rng.Int64N(int64(time.Hour))}
	if w.swarm.drift {
		l.drift = 0.98 + 0.04*w.rng.Float64()
	}
	l.root, l.kill = context.WithCancel(context.Background())
	l.ctx, l.cancel = context.WithCancel(l.root)
	l.work, l.traits = newWorker(l), l.offers()
	w.lives[node] = l
	w.spawn(l, "main", l.main)
	w.tell("%s starts", l)
	return l
}

const bootPause = 200 * time.Millisecond

// main does what cmd/skein and internal/app do in a process that is real: it makes the engine and the
// membership, and runs them.
func (l *life) main() {
	w := l.w
	cfg := engine.Config{
		Store: w.mutant.store(l, true), Executor: l.work, Compile: compile, Release: makeRelease(w, l), Node: fmt.Sprintf("n%d", l.node), Slots: w.swarm.slots + w.mutant.slots, Traits: l.traits,
		Reap: l.reap, Host: l, Planner: w.planner,
	}
	if w.stage.Alerts {
		cfg.Rules = func([]byte) ([]alert.Rule, error) { return alertRules(), nil }
	}
	if w.stage.Quotas || w.stage.Spaces {
		cfg.QuotasEach = w.mutant.readsEach()
	}
	if w.stage.Ahead {
		cfg.AheadRows = 1
	}
	if w.swarm.beside {
		cfg.EvaluateMax = -1
	}
	var look func() cluster.Compare
	if w.stage.Back {
		p := w.remembers(l.node)
		cfg.Past, look = p, func() cluster.Compare { return p.Look() }
		if w.mutant.unsettled && !w.mutant.eraless { // the bug must show before a node compares its past
			look = nil
		}
		for {
			if _, err := p.Check(l.ctx); err == nil {
				break
			}
			if l.Await(l.ctx, nil, bootPause); l.ctx.Err() != nil || l.dead {
				return
			}
		}
	}
	w.watchPast(l)
	growAudit(w, l)
	oversee(w, l)
	w.serve(l, &cfg)
	if w.swarm.nodes > 1 {
		cfg.Peers = &peers{l, map[engine.AttemptID]int{}}
	}
	for {
		var err error
		if l.eng, err = engine.New(l.ctx, cfg); err == nil {
			break
		}
		if l.Await(l.ctx, nil, bootPause); l.ctx.Err() != nil || l.dead {
			return
		}
	}
	l.handler = l.eng.Handler().ID
	w.byHandler[l.handler] = l
	if cfg.Peers == nil {
		_ = l.eng.Run(l.ctx)
		return
	}
	h := l.eng.Handler()
	l.member = cluster.New(cluster.Config{Store: w.mutant.store(l, false), Owner: owner{l}, Host: l, Beat: beat, Lag: lag, Look: look, Loads: l.loads(), Judge: w.shelf.judge(l),
		Self: store.Member{Handler: h.ID, UUID: h.UUID, Name: h.Node, Started: h.Started, Slots: int32(w.swarm.slots), Format: 1}})
	stop, end := context.WithCancel(l.root)
	var wg sync.WaitGroup
	l.Go(&wg, func() { _ = l.eng.Run(stop) })
	_ = l.member.Run(l.ctx)
	end()
	l.Wait(&wg)
	if !l.dead { // the node left the cluster
		w.tell("%s has left", l)
		l.die()
	}
}

// Heartbeat and lag of simulated clusters: the fast profile.
const (
	beat = time.Second
	lag  = 4 * time.Second
)

// owner is the engine of a process. It records each handler that the process gets.
type owner struct{ l *life }

func (o owner) Own(ctx context.Context, s []dag.ShardID) ([]dag.ShardID, error) {
	return o.l.eng.Own(ctx, s)
}
func (o owner) Bury(gone func(dag.HandlerID) bool) { o.l.eng.Bury(gone) }
func (o owner) Meet(ctx context.Context) error     { return o.l.eng.Meet(ctx) }
func (o owner) Reborn(ctx context.Context) (store.Handler, error) {
	h, err := o.l.eng.Reborn(ctx)
	if err == nil {
		o.l.w.tell("%s is reborn as handler %d", o.l, h.ID)
		o.l.handler = h.ID
		o.l.w.byHandler[h.ID] = o.l
	}
	return h, err
}

// die ends a process like kill -9.
func (l *life) die() {
	if l.dead {
		return
	}
	l.dead, l.frozen, l.later = true, false, nil
	l.kill()
	l.work.orphan()
	l.w.dying = append(l.w.dying, l)
}

func (l *life) crash(where string) {
	if !l.dead {
		l.w.count("crash")
		l.w.tell("%s CRASHES %s", l, where)
		l.die()
	}
}

// reap ends the attempts of this node's earlier processes.
func (l *life) reap(context.Context, []dag.AttemptRow) error {
	for _, old := range l.w.workers {
		if old.life.node == l.node && old.life != l && old.life.dead {
			old.reaped = true
		}
	}
	return nil
}

func (l *life) freeze() {
	if l.dead || l.frozen {
		return
	}
	l.w.count("freeze")
	l.frozen, l.frozenAt = true, l.w.now
	l.w.tell("%s is frozen", l)
}

func (l *life) thaw() {
	if l.dead || !l.frozen {
		return
	}
	l.frozen, l.hindered = false, l.w.now
	l.w.tell("%s thaws after %v", l, time.Duration(l.w.now-l.frozenAt))
	if l.w.swarm.sleep { // the clock of the process stood still, too
		l.slept = l.w.now
		stood := l.w.now - l.frozenAt
		l.asleep += stood
		for _, p := range l.w.procs {
			if p.life == l && p.until >= 0 {
				p.until += stood
			}
		}
	}
	todo := l.later
	l.later = nil
	for _, f := range todo {
		l.w.after(0, func() { l.do(f) })
	}
}
