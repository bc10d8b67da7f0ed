package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/store"
)

// Defaults.
const (
	BeatDefault = 5 * time.Second
	LagDefault  = 20 * time.Second
	// lookEvery is the time between two reads of the members.
	lookEvery = 500 * time.Millisecond
	// meetEvery is the time between two searches for runs that other programs have inserted.
	meetEvery = time.Second
	// stallMax bounds a turn. If a turn takes longer, the node's row is not renewed, so that other nodes
	// take its shards.
	stallMax = 2 * time.Minute
)

// Owner is the engine of this node.
type Owner interface {
	// Own takes and releases shards until the node owns exactly these, as far as possible. It returns the
	// shards that the node then owns.
	Own(ctx context.Context, shards []dag.ShardID) ([]dag.ShardID, error)
	// Bury marks as lost the attempts of handlers that are gone.
	Bury(gone func(dag.HandlerID) bool)
	// Meet takes up runs that other programs have inserted.
	Meet(ctx context.Context) error
	// Reborn stops all effects of this process, forgets all runs, and returns the new handler of the process.
	Reborn(ctx context.Context) (store.Handler, error)
}

// Config holds the settings of a member. Store, Owner and Self are required.
type Config struct {
	Store store.Cluster
	Owner Owner
	// Self is the row with which the node joins: Handler, UUID, Name, Address, Version, Format, Slots.
	Self store.Member
	Used func() dag.Need // returns the cpu and memory that attempts use; nil if unknown
	// Look, if not nil, is called before each read of the shards. The function that it returns is then called
	// with the rows that were read: see past.Past.
	Look func() Compare
	Full func() bool // reports whether the disk is full, so that the node takes no attempts; nil means never
	// Busy returns the number of attempts that run, or whose end is not reported yet. It is nil if the number
	// is unknown.
	Busy func() int
	// Loads configures the balancing of shards by load.
	Loads Loads
	Beat  time.Duration // the time between two renewals; 0 means BeatDefault
	Lag   time.Duration // silence after which a member counts as dead; 0 means LagDefault
	// Started, if not nil, is called once if the cluster starts with this node: either no other node was
	// listed before, or all of them began together. All these nodes get the same value of life. Started is
	// called in a separate goroutine when the node owns its shards. Run waits for it to return.
	Started func(ctx context.Context, life string)
	// Deposed, if not nil, is called in a separate goroutine after this node has declared another one dead.
	// Run waits for it to return.
	Deposed func(ctx context.Context, m store.Member)
	// ExitOnLoss makes Run end with ErrDeposed if the node was declared dead. Otherwise the node joins again
	// under a new handler.
	ExitOnLoss bool
	// Judge asks a registry which members are alive. It is nil if there is no registry. See package registry.
	Judge Judge
	// Boot returns the time since the machine started, including the time in which it slept. If Boot is nil,
	// the time since the start of this process is used. Then Sure has no meaning for other processes.
	Boot func() time.Duration
	// Blind asks other nodes whether they cannot read the database either, and reports whether all of them
	// say so. If it is nil, no node is asked.
	Blind func(ctx context.Context, others []store.Member) bool
	Host  host.Host // the machine; nil means the real one
	Log   *slog.Logger
}

// ErrDeposed means that the other nodes declared this one dead.
var ErrDeposed = errors.New("the other nodes of the cluster declared this one dead")

// ErrReplaced means that a younger process has this node's name.
var ErrReplaced = errors.New("another process has taken this node's name")

// Node is the membership of this node.
type Node struct {
	cfg   Config
	quick time.Duration // the promise in this node's row: see vow
	began time.Duration // the start of the process, on the boot clock
	host  host.Host
	log   *slog.Logger
	wake  chan struct{} // capacity 1: read the members at once
	state chan struct{} // capacity 1: write the row at once

	mu       sync.Mutex // protects following fields
	self     store.Member
	members  []store.Member
	index    map[dag.HandlerID]int // of members
	shards   []store.ShardRow
	joined   bool
	written  string        // the state in the node's row
	lost     bool          // another node deposed this handler
	beaten   time.Time     // the time at which the newest confirmed renewal was sent
	turned   time.Time     // the end of the last turn
	read     time.Time     // the time at which the members were last read
	sure     time.Duration // see Sure. Invariant: no node deposes this one before sure + lag
	vouched  time.Duration // see Vouched
	deciding time.Time     // until this time, a transaction that deposes other members may still reach the store

	shifted atomic.Int64 // shards that this node moved because of their load

	// The fields below are used only by the goroutine of Run, except renewing in fails.
	watch  watch
	buried map[dag.HandlerID]bool // the handlers that were listed in the last look
	before before
	scales scales
	fails  troubles
	format int // the format of the database, as Rise last returned it
	agreed int // the format that all nodes can use, as Rise last returned it
}

// New returns the membership of a node. It does nothing before Run.
func New(cfg Config) *Node {
	if cfg.Beat == 0 {
		cfg.Beat = BeatDefault
	}
	if cfg.Lag == 0 {
		cfg.Lag = LagDefault
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Self.State = store.MemberActive
	if quick := quickOf(&cfg); quick > 0 {
		cfg.Beat = min(cfg.Beat, quick/beatsPerQuick)
	}
	cfg.Host = host.Or(cfg.Host)
	if cfg.Boot == nil {
		began := cfg.Host.Now()
		cfg.Boot = func() time.Duration { return cfg.Host.Now().Sub(began) + 1 } // 0 would mean that there was no renewal
	}
	return &Node{cfg: cfg, quick: quickOf(&cfg), began: cfg.Boot(), host: cfg.Host, log: cfg.Log, self: cfg.Self, wake: make(chan struct{}, 1), state: make(chan struct{}, 1),
		watch: newWatch(shortest(&cfg)), fails: newTroubles()}
}

// Run makes the node a member until ctx ends. Then it releases the node's shards and removes its row.
func (n *Node) Run(ctx context.Context) error {
	if err := n.join(ctx, 0); err != nil {
		if ctx.Err() == nil {
			return err
		}
		n.leave() // the row of the node may exist although join failed
		return nil
	}
	var beats sync.WaitGroup
	beating, stop := context.WithCancel(ctx)
	n.host.Go(&beats, func() { n.renewals(beating) })
	n.host.Go(&beats, func() { n.vouch(beating) })
	if n.cfg.Judge != nil {
		n.host.Go(&beats, func() { n.cfg.Judge.Run(beating, n.entry) })
	}
	err := n.turns(ctx)
	stop()
	n.host.Wait(&beats)
	if err != nil && (ctx.Err() == nil || errors.Is(err, ErrDeposed)) {
		return err
	}
	n.leave()
	return nil
}

// turns calls turn again and again until ctx ends. The pause after a call is longer while the store does not
// answer, and shorter while another node releases a shard for this one.
func (n *Node) turns(ctx context.Context) error {
	defer n.host.Wait(&n.before.wg)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	met := time.Time{}
	for ctx.Err() == nil {
		began := n.host.Now()
		seen, err := n.turn(ctx)
		if err != nil {
			return err
		}
		pause := max(lookEvery-n.host.Now().Sub(began), 0)
		switch {
		case !seen: // the store does not answer, so it is asked only as often as needed to notice its return
			pause = n.backOff(n.fails.looking.tries)
		case n.host.Now().Sub(met) >= meetEvery:
			met = n.host.Now()
			n.meet(ctx)
			pause = max(lookEvery-n.host.Now().Sub(began), 0)
		}
		n.mu.Lock()
		n.turned = n.host.Now()
		n.mu.Unlock()
		if seen && n.expects(n.View()) {
			pause = min(pause, quickEvery)
		}
		if n.host.Await(ctx, n.wake, pause) {
			met = time.Time{}
		}
	}
	return nil
}

// join writes this node's row. It tries until the row is written. It gives up if another process of this name
// is younger than the node's previous handler, which the parameter before names. before is 0 if there was
// none.
func (n *Node) join(ctx context.Context, before dag.HandlerID) error {
	for pause := lookEvery; ; pause = min(2*pause, n.cfg.Beat) {
		sent, boot := n.host.Now(), n.cfg.Boot()
		m := n.Self()
		m.Traits.Quick = n.vow(boot)
		// The call is not cancelled while it is in progress, because its transaction could then be executed
		// after this node has left.
		joining, over := context.WithTimeout(context.WithoutCancel(ctx), leaveMax)
		var err error
		if before != 0 {
			err = n.replaced(joining, before)
		}
		if err == nil {
			err = n.cfg.Store.Join(joining, m)
		}
		over()
		if err == nil {
			n.mu.Lock()
			n.sure = boot
			n.joined, n.lost, n.written, n.beaten, n.turned = true, false, m.State, sent, n.host.Now()
			n.mu.Unlock()
			n.succeeded(&n.fails.joining)
			return nil
		}
		if ctx.Err() != nil || errors.Is(err, ErrReplaced) || errors.Is(err, store.ErrFormat) || errors.Is(err, store.ErrRefused) {
			return err
		}
		n.failed(&n.fails.joining, err)
		// The jitter prevents that nodes that lost the store at the same time all return at the same time.
		if n.host.Await(ctx, nil, pause/2+n.host.Jitter(pause)); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// turn reads the members and acts on what it reads. seen reports whether the store returned the members. An
// error is final.
func (n *Node) turn(ctx context.Context) (seen bool, err error) {
	n.mu.Lock()
	lost := n.lost
	n.mu.Unlock()
	switch {
	case lost && n.cfg.ExitOnLoss:
		return false, ErrDeposed
	case lost:
		if err := n.rejoin(ctx); err != nil {
			return false, err
		}
	}
	members, shards, err := n.readMembers(ctx)
	if err != nil {
		if ctx.Err() == nil {
			n.failed(&n.fails.looking, err)
		}
		return false, nil
	}
	n.succeeded(&n.fails.looking)
	n.see(members, shards)
	n.depose(ctx, members)
	n.rise(ctx, members)
	n.own(ctx, members, shards)
	n.balance(ctx, members, shards)
	n.started(ctx, slices.DeleteFunc(slices.Clone(members), func(m store.Member) bool { return m.Worker }))
	n.heed(members, shards)
	return true, nil
}

// rise raises the format of the database when all nodes know a newer one.
func (n *Node) rise(ctx context.Context, members []store.Member) {
	agreed := 0
	for i := range members {
		if m := &members[i]; !m.Worker && m.Format > 0 && (agreed == 0 || m.Format < agreed) {
			agreed = m.Format
		}
	}
	if agreed <= n.agreed {
		n.agreed = agreed
		return
	}
	is, err := n.cfg.Store.Rise(ctx)
	if err != nil {
		if ctx.Err() == nil {
			n.log.Warn("the format of the database cannot be raised", "code", "format_not_raised", "err", err)
		}
		return
	}
	if n.format != 0 && is > n.format {
		n.log.Info("the format of the database was raised, because all nodes know the newer one", "code", "format_raised", "format", is, "before", n.format)
	}
	n.format, n.agreed = is, agreed
}

// renewals renews the row until ctx ends. It runs in its own goroutine, because a node that takes long to
// load new shards must not seem silent. Otherwise the next owner of the shards would take as long and seem
// silent, too.
func (n *Node) renewals(ctx context.Context) {
	pause := n.cfg.Beat
	for {
		if n.host.Await(ctx, n.state, pause); ctx.Err() != nil {
			return
		}
		pause = n.cfg.Beat
		switch err := n.renew(ctx); {
		case err == nil:
			n.succeeded(&n.fails.renewing)
		case ctx.Err() == nil:
			n.failed(&n.fails.renewing, err)
			pause = n.retry(n.fails.renewing.tries)
		}
	}
}

func (n *Node) renew(ctx context.Context) error {
	n.mu.Lock()
	m, idle, stuck := n.self, !n.joined || n.lost, n.host.Now().Sub(n.turned) > stallMax
	n.mu.Unlock()
	switch {
	case idle:
		return nil
	case stuck:
		return fmt.Errorf("the node has made no progress for %v, so it leaves its shards to other nodes", stallMax)
	}
	if n.cfg.Busy != nil {
		m.Busy = int32(n.cfg.Busy())
	}
	if n.cfg.Used != nil {
		m.Traits.Used = n.cfg.Used()
	}
	m.Traits.Full = n.cfg.Full != nil && n.cfg.Full()
	if n.cfg.Loads.Measured != nil {
		m.Load = n.cfg.Loads.Measured()
	}
	sent, boot := n.host.Now(), n.cfg.Boot()
	m.Traits.Quick = n.vow(boot)
	listed, err := n.cfg.Store.Renew(ctx, m)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.self.Handler != m.Handler: // the node has got a new handler meanwhile
	case !listed:
		n.lost = true
		n.Wake()
	default:
		n.beaten, n.sure = sent, boot
		if m.State != n.written {
			n.written = m.State
			n.Wake() // the other nodes know the state by now, so this node acts on it
		}
	}
	return nil
}

// replaced returns an error if another process has this node's name and is younger than the handler life. A
// process that starts under a listed name replaces the older one at once. If the older one joined again, they
// would depose each other for ever.
func (n *Node) replaced(ctx context.Context, life dag.HandlerID) error {
	members, _, err := n.cfg.Store.Members(ctx)
	if err != nil {
		return err
	}
	self := n.Self()
	for i := range members {
		if m := &members[i]; m.Name == self.Name && !m.Worker && m.Handler > life && m.Handler != self.Handler {
			return fmt.Errorf("%w: %s, of the process at %s; a node needs a name of its own: --name", ErrReplaced, m.Name, m.Address)
		}
	}
	return nil
}

// rejoin continues under a new handler after other nodes have declared this node dead and taken its shards.
func (n *Node) rejoin(ctx context.Context) error {
	n.log.Error("the other nodes declared this one dead; it ends its attempts and joins under a new handler", "code", "declared_dead")
	life := n.Self().Handler
	h, err := n.cfg.Owner.Reborn(ctx)
	if err != nil {
		n.failed(&n.fails.born, err)
		return nil // the next turn tries again
	}
	n.succeeded(&n.fails.born)
	n.mu.Lock()
	n.self.Handler, n.self.UUID, n.self.Started = h.ID, h.UUID, h.Started
	n.joined = false
	n.mu.Unlock()
	return n.join(ctx, life)
}

// see stores the rows of a read for later callers.
func (n *Node) see(members []store.Member, shards []store.ShardRow) {
	index := make(map[dag.HandlerID]int, len(members))
	for i := range members {
		index[members[i].Handler] = i
	}
	n.mu.Lock()
	n.members, n.index, n.shards = members, index, shards
	now := n.host.Now()
	n.read = now
	unheard := n.unheard(now)
	n.mu.Unlock()
	if unheard {
		n.watch.restart() // the store accepts no renewals of this node, so perhaps none of others, either
	}
	n.watch.see(members, now)
	gone := false
	listed := map[dag.HandlerID]bool{}
	for i := range members {
		listed[members[i].Handler] = true
	}
	for h := range n.buried {
		gone = gone || !listed[h]
	}
	n.buried = listed
	if gone {
		n.cfg.Owner.Bury(func(h dag.HandlerID) bool { return !n.Alive(h) })
	}
}

func (n *Node) depose(ctx context.Context, members []store.Member) {
	self := n.Self().Handler
	for i := range members {
		m := &members[i]
		lag := n.lagOf(m)
		if m.Handler == self || !n.watch.silent(m.Handler, lag, n.host.Now()) {
			continue
		}
		done, err := n.decides(func() (bool, error) { return n.cfg.Store.Depose(ctx, m.Handler, m.Beat) })
		switch {
		case err != nil:
			n.log.Warn("a silent member cannot be deposed", "code", "member_not_deposed", "name", m.Name, "err", err)
		case done:
			n.log.Warn("a silent member was deposed; other members take over its work", "code", "member_deposed", "name", m.Name, "worker", m.Worker, "silent_for", lag)
			n.Wake()
			if dead := *m; n.cfg.Deposed != nil {
				n.host.Go(&n.before.wg, func() { n.cfg.Deposed(ctx, dead) })
			}
		}
	}
}

// own makes the engine own the shards that belong to this node now. A shard that another node still owns is
// taken after that node has released it.
func (n *Node) own(ctx context.Context, members []store.Member, shards []store.ShardRow) {
	self := n.Self().Handler
	to := assign(members, shards)
	var want, have []dag.ShardID
	for _, s := range shards {
		if s.Owner == self {
			have = append(have, s.ID)
		}
		if to[s.ID] == self && (s.Owner == self || s.Owner == 0) {
			want = append(want, s.ID)
		}
	}
	slices.Sort(want)
	slices.Sort(have)
	if slices.Equal(want, have) && n.watch.settled {
		return
	}
	got, err := n.cfg.Owner.Own(ctx, want)
	if err == nil {
		err = n.disown(ctx, shards, got)
	}
	n.watch.settled = err == nil && slices.Equal(got, want)
	switch {
	case err != nil && ctx.Err() == nil:
		n.failed(&n.fails.owning, err)
		return
	case err == nil:
		n.succeeded(&n.fails.owning)
	}
	if !slices.Equal(got, have) {
		n.log.Info("the node's shards have changed", "code", "shards_owned", "owned", len(got), "of", len(shards))
	}
}

// disown releases shards that belong to this node in the rows but not in its engine. The engine got or
// released them in a call whose answer was lost.
func (n *Node) disown(ctx context.Context, shards []store.ShardRow, got []dag.ShardID) error {
	self := n.Self().Handler
	var free []store.Fence
	for _, s := range shards {
		if s.Owner == self && !slices.Contains(got, s.ID) {
			free = append(free, store.Fence{Shard: s.ID, Epoch: s.Epoch})
		}
	}
	if len(free) == 0 {
		return nil
	}
	return n.cfg.Store.Release(ctx, free)
}

func (n *Node) meet(ctx context.Context) {
	switch err := n.cfg.Owner.Meet(ctx); {
	case err == nil:
		n.succeeded(&n.fails.meeting)
	case ctx.Err() == nil:
		n.failed(&n.fails.meeting, err)
	}
}

// leaveMax bounds each step of leaving.
const leaveMax = 5 * time.Second

// leave releases the shards, so that the other nodes need not wait for the lag. If the engine cannot do this
// in time, the node leaves nevertheless. Without its row the shards are free.
func (n *Node) leave() {
	giving, given := context.WithTimeout(context.Background(), min(leaveMax, n.cfg.Lag/4))
	if _, err := n.cfg.Owner.Own(giving, nil); err != nil {
		n.log.Warn("the node could not release its shards; the other nodes take them by themselves", "code", "shards_not_released", "err", err)
	}
	given()
	leaving, left := context.WithTimeout(context.Background(), leaveMax)
	defer left()
	if err := n.cfg.Store.Leave(leaving, n.Self().Handler); err != nil {
		n.log.Warn("the node could not leave the cluster; the other nodes notice by themselves", "code", "leave_failed", "err", err)
	}
}

// Wake makes the node read the members at once.
func (n *Node) Wake() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Cordon excludes the node from the assignment of shards, or includes it again.
func (n *Node) Cordon(out bool) {
	n.mu.Lock()
	n.self.State = store.MemberActive
	if out {
		n.self.State = store.MemberLeaving
	}
	n.mu.Unlock()
	select {
	case n.state <- struct{}{}:
	default:
	}
}
