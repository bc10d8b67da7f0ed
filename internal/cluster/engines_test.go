package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"skein.dev/skein/internal/cluster"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
)

// machine is a node with an engine. It calls functions of its peers.
type machine struct {
	b     *bed
	all   *machines
	hands *hands
	e     *engine.Engine
	node  *cluster.Node
	cut   atomic.Bool // the store ignores the calls of this machine
	store *window
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu      sync.Mutex // protects following fields
	reports []report   // reports on their way to the owners of their runs
}

type report struct {
	from dag.HandlerID
	engine.Report
}

// machines are the running machines.
type machines struct {
	mu      sync.Mutex // protects following fields
	live    []*machine
	started map[attempt]int // number of times that an executor got an attempt
}

type attempt struct {
	run   dag.RunID
	task  dag.TaskID
	token dag.Token
}

func (ms *machines) each() []*machine {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return slices.Clone(ms.live)
}

func (ms *machines) by(h dag.HandlerID) *machine {
	for _, m := range ms.each() {
		if m.e.Handler().ID == h {
			return m
		}
	}
	return nil
}

// Alive implements engine.Peers.
func (m *machine) Alive(h dag.HandlerID) bool { return m.node.Alive(h) }

// Report implements engine.Peers.
func (m *machine) Report(r engine.Report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reports = append(m.reports, report{m.e.Handler().ID, r})
}

// Pending implements engine.Peers.
func (m *machine) Pending(id engine.AttemptID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.reports, func(r report) bool {
		return engine.AttemptID{Run: r.Run, Task: r.Task, Token: r.Token} == id
	})
}

// Cancel implements engine.Peers.
func (m *machine) Cancel(h dag.HandlerID, cs []dag.Cancel) {
	if to := m.all.by(h); to != nil {
		to.hands.Cancel(cs)
	}
}

// Confirm implements engine.Peers.
func (m *machine) Confirm(h dag.HandlerID, ids []engine.AttemptID) {
	if to := m.all.by(h); to != nil {
		_ = to.e.Disown(ids)
	}
}

// Nudge implements engine.Peers.
func (m *machine) Nudge(s dag.ShardID) {
	if owner, ok := m.node.OwnerOf(s); ok {
		if to := m.all.by(owner.Handler); to != nil {
			to.node.Wake()
		}
	}
}

// carry delivers reports to the owners of their runs until ctx ends.
func (m *machine) carry(ctx context.Context) {
	for ctx.Err() == nil {
		m.mu.Lock()
		reports := slices.Clone(m.reports)
		m.mu.Unlock()
		left := 0 // the number of undelivered reports at the head of the list; new reports come behind them
		for _, r := range reports {
			if !m.bring(ctx, r) {
				left++
				continue
			}
			m.mu.Lock()
			m.reports = slices.Delete(m.reports, left, left+1)
			m.mu.Unlock()
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (m *machine) bring(ctx context.Context, r report) bool {
	row, err := m.e.RunRow(ctx, r.Run)
	if err != nil {
		return false
	}
	owner, ok := m.node.OwnerOf(row.Shard)
	if !ok {
		return row.State.Terminal()
	}
	to := m.all.by(owner.Handler)
	if to == nil {
		return false
	}
	_, err = to.e.Hear(ctx, r.from, r.Report)
	return err == nil
}

// window is the store as seen by one engine.
type window struct {
	store.Store
	store.Cluster
	blind  atomic.Bool // this engine cannot read runs
	missed atomic.Int32
	slow   atomic.Bool // if another version is made, the writer can read its names, but no goroutine gets its graph
	named  atomic.Bool
}

func (w *window) Run(ctx context.Context, id dag.RunID) (dag.RunRow, error) {
	if w.blind.Load() {
		w.missed.Add(1)
		return dag.RunRow{}, errAway
	}
	return w.Store.Run(ctx, id)
}

func (w *window) Version(ctx context.Context, id dag.WorkflowID, version int32) (store.Version, error) {
	for w.slow.Load() && !w.named.CompareAndSwap(false, true) {
		time.Sleep(time.Millisecond)
	}
	return w.Store.Version(ctx, id, version)
}

// hands is an executor whose attempts do no work.
type hands struct {
	m    *machine
	dead atomic.Bool
	hold atomic.Bool // no attempt ends

	mu   sync.Mutex // protects following fields
	live map[attempt]bool
}

func (h *hands) Start(as []engine.Assignment) {
	for _, a := range as {
		k := attempt{a.Run, a.Task, a.Token}
		h.mu.Lock()
		running := h.live[k]
		h.live[k] = true
		h.mu.Unlock()
		if running || h.dead.Load() {
			continue
		}
		h.m.all.mu.Lock()
		h.m.all.started[k]++
		h.m.all.mu.Unlock()
		h.m.wg.Go(func() {
			time.Sleep(time.Duration(1+rand.IntN(40)) * time.Millisecond) // the duration of an attempt
			for h.hold.Load() && !h.dead.Load() {
				time.Sleep(time.Millisecond)
			}
			if h.dead.Load() {
				return
			}
			h.m.e.Report(engine.Report{Run: k.run, Task: k.task, Token: k.token, Result: dag.Result{State: dag.AttemptSucceeded, Exited: true}})
			h.mu.Lock()
			delete(h.live, k)
			h.mu.Unlock()
		})
	}
}

func (h *hands) Cancel([]dag.Cancel) {} // the attempts end soon anyway

func (h *hands) Running(run dag.RunID, task dag.TaskID, token dag.Token) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.live[attempt{run, task, token}]
}

func (h *hands) Live(run dag.RunID, task dag.TaskID, token dag.Token) bool {
	return h.Running(run, task, token)
}

// machine starts a machine: a node with an engine.
func (b *bed) machine(all *machines, name string) *machine {
	b.Helper()
	m := &machine{b: b, all: all, store: &window{Store: b.store, Cluster: b.cluster()}}
	m.hands = &hands{m: m, live: map[attempt]bool{}}
	var err error
	m.e, err = engine.New(context.Background(), engine.Config{Store: m.store, Executor: m.hands, Node: name, Slots: 32, Peers: m, Namer: namer{},
		Compile: func(string) (dag.Condition, error) { return nil, errors.New("no conditions here") }})
	if err != nil {
		b.Fatal(err)
	}
	h := m.e.Handler()
	m.node = cluster.New(cluster.Config{Store: &deaf{b.cluster(), m}, Owner: m.e, Beat: b.beat, Lag: b.lag,
		Self: store.Member{Handler: h.ID, UUID: h.UUID, Name: name, Started: h.Started}})
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	all.mu.Lock()
	all.live = append(all.live, m)
	all.mu.Unlock()
	b.machines = append(b.machines, m)
	m.wg.Go(func() {
		if err := m.e.Run(ctx); err != nil {
			b.Errorf("engine of %s: %v", name, err)
		}
	})
	<-m.e.Ready()
	m.wg.Go(func() { _ = m.node.Run(ctx) })
	m.wg.Go(func() { m.carry(ctx) })
	return m
}

// routed calls do on the machine that can do it.
func (ms *machines) routed(b *bed, what string, do func(e *engine.Engine) error) {
	b.Helper()
	var err error
	b.until(what, func() bool {
		for _, m := range ms.each() {
			if err = do(m.e); err == nil {
				return true
			}
			if !errors.Is(err, errkind.ErrUnavailable) {
				b.Fatalf("%s: %v", what, err)
			}
		}
		return false
	})
}

func diamond(b *bed) *dag.Graph {
	var spec dag.GraphSpec
	for _, part := range strings.Split("a; b: a; c: a; d: b c; e: d; f: e", ";") {
		name, needs, _ := strings.Cut(part, ":")
		spec.Tasks = append(spec.Tasks, dag.TaskSpec{Name: strings.TrimSpace(name), Needs: strings.Fields(needs)})
	}
	g, err := dag.NewGraph(spec)
	if err != nil {
		b.Fatal(err)
	}
	return g
}

// ended counts the runs that succeeded. Any other end is an error.
func (b *bed) ended(runs []dag.RunID) (n int) {
	for _, id := range runs {
		row, err := b.store.Run(context.Background(), id)
		switch {
		case err != nil:
			b.Fatal(err)
		case row.State == dag.RunSucceeded:
			n++
		case row.State.Terminal():
			b.Fatalf("run %s is %s: %s", id, row.State, row.Message)
		}
	}
	return n
}

// TestEngines: two engines share one store while shards move between them, until one of them dies. The
// other ends all runs. Each task runs once, except for attempts of the dead engine.
func TestEngines(t *testing.T) {
	const workflows, moving, dying = 24, 240, 120
	scenario(t, func(b *bed) {
		ctx := context.Background()
		all := &machines{started: map[attempt]int{}}
		a, c := b.two(all)
		var flows []store.Workflow
		for i := range workflows {
			flows = append(flows, b.apply(all, fmt.Sprint("w", i)))
		}
		var runs []dag.RunID
		submit := func() { runs = append(runs, b.submit(all, flows[len(runs)%workflows])) }
		for range moving {
			submit()
			if len(runs)%4 == 0 {
				to := all.each()[rand.IntN(2)].e.Handler().ID
				if err := b.cluster().Move(ctx, dag.ShardID(rand.IntN(shardsMade)), to); err != nil {
					b.Fatal(err)
				}
				a.node.Wake()
				c.node.Wake()
			}
		}
		b.until("all runs end while their shards move", func() bool { return b.ended(runs) == len(runs) })
		for k, n := range all.started {
			if n > 1 || k.token > 1 {
				b.Errorf("task %d of run %s was started %d times under token %d: nobody died", k.task, k.run, n, k.token)
			}
		}
		for range dying {
			submit()
		}
		c.kill()
		b.until("the other ends all runs", func() bool { return b.ended(runs) == len(runs) })
		found, err := inspect.Verify(ctx, b.store, func(string) (dag.Condition, error) { return nil, errors.New("no conditions here") })
		if err != nil || len(found) > 0 {
			b.Errorf("verify: %v %+v", err, found)
		}
		a.ends()
	})
}

// two starts two machines that own half of the shards each.
func (b *bed) two(all *machines) (a, c *machine) {
	b.Helper()
	a, c = b.machine(all, "a"), b.machine(all, "c")
	b.until("both own half", func() bool {
		_, shards := b.view()
		return kept(shards, shards, a.e.Handler().ID) == shardsMade/2 && kept(shards, shards, c.e.Handler().ID) == shardsMade/2
	})
	return a, c
}

// apply makes a workflow.
func (b *bed) apply(all *machines, name string) (w store.Workflow) {
	b.Helper()
	g := diamond(b)
	all.routed(b, "a workflow is applied", func(e *engine.Engine) (err error) {
		w, _, err = e.Apply(context.Background(), engine.Definition{Namespace: "test", Name: name, Graph: g.Pack(), Digest: g.Pack(), User: "ada"})
		return err
	})
	return w
}

// submit starts a run on the machine that owns its workflow.
func (b *bed) submit(all *machines, w store.Workflow) dag.RunID {
	b.Helper()
	id := engine.NewRunID() // every try uses the same id
	all.routed(b, "a run is accepted", func(e *engine.Engine) error {
		_, err := e.Submit(context.Background(), engine.Submission{ID: id, Workflow: w, Priority: dag.Medium, Origin: dag.OriginAPI, User: "ada"})
		return err
	})
	return id
}

// owned moves a shard and waits until its new owner has it.
func (b *bed) owned(shard dag.ShardID, to *machine) {
	b.Helper()
	h := to.e.Handler().ID
	if err := b.cluster().Move(context.Background(), shard, h); err != nil {
		b.Fatal(err)
	}
	b.until("the shard has moved", func() bool {
		owner, ok := to.node.OwnerOf(shard)
		return ok && owner.Handler == h
	})
}

// TestReportUnseen: an attempt ends while its run has moved and the store cannot be read. Its report is not
// lost.
func TestReportUnseen(t *testing.T) {
	scenario(t, func(b *bed) {
		all := &machines{started: map[attempt]int{}}
		a, c := b.two(all)
		w := b.apply(all, "w")
		b.owned(w.Shard, a)
		a.hands.hold.Store(true)
		run := b.submit(all, w)
		b.until("its first task runs", func() bool { return a.hands.Running(run, 0, 1) })
		b.owned(w.Shard, c)
		a.store.blind.Store(true)
		a.hands.hold.Store(false)
		// If the node already knows the new owner, it need not read the store, and the run ends at once.
		b.until("the report was said", func() bool {
			return (a.store.missed.Load() > 0 || b.ended([]dag.RunID{run}) == 1) && !a.hands.Running(run, 0, 1)
		})
		a.store.blind.Store(false)
		b.until("the run ends", func() bool { return b.ended([]dag.RunID{run}) == 1 })
		a.ends()
		c.ends()
	})
}

// TestLeaderMoves: if a run moves to another node during its Leader work, the new owner does the work again.
func TestLeaderMoves(t *testing.T) {
	scenario(t, func(b *bed) {
		all := &machines{started: map[attempt]int{}}
		a, c := b.two(all)
		w := b.apply(all, "w")
		from, to := a, c
		if owner, _ := c.node.OwnerOf(w.Shard); owner.Handler == c.e.Handler().ID {
			from, to = c, a
		}
		b.owned(w.Shard, to) // this machine has not read the graph
		to.store.slow.Store(true)
		run := b.submit(all, w)
		b.until("it is being split", func() bool {
			row, err := b.store.Run(context.Background(), run)
			return err == nil && row.State == dag.RunSplitting
		})
		b.owned(w.Shard, from)
		b.until("the run ends", func() bool { return b.ended([]dag.RunID{run}) == 1 })
		to.store.slow.Store(false)
		a.ends()
		c.ends()
	})
}

// ends stops a machine in order.
func (m *machine) ends() {
	m.stop()
	m.wg.Wait()
}

// kill ends a machine without a call of the store.
func (m *machine) kill() {
	m.all.mu.Lock()
	m.all.live = slices.DeleteFunc(m.all.live, func(o *machine) bool { return o == m })
	m.all.mu.Unlock()
	m.hands.dead.Store(true)
	m.cut.Store(true)
	m.store.slow.Store(false)
	m.stop()
	m.wg.Wait()
}

// deaf is the store of a machine. It ignores calls of a killed machine.
type deaf struct {
	store.Cluster
	m *machine
}

func (d *deaf) Release(ctx context.Context, fences []store.Fence) error {
	if d.m.cut.Load() {
		return errAway
	}
	return d.Cluster.Release(ctx, fences)
}

func (d *deaf) Leave(ctx context.Context, h dag.HandlerID) error {
	if d.m.cut.Load() {
		return errAway
	}
	return d.Cluster.Leave(ctx, h)
}
