package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/store"
)

// AloneConfig holds the settings of a node that shares its store with no other node. Store, Owner and Self
// are required.
type AloneConfig struct {
	Store store.Workers
	Owner AloneOwner
	Self  store.Member // the node: Handler, UUID, Name, Address, Version, Slots, Started, Traits
	// Shards is the number of shards of the store. The node owns all of them.
	Shards int32
	Now    func() (busy int, used dag.Need, full bool) // returns the present load of the node
	// Lag is the silence after which a worker counts as dead. 0 means LagDefault.
	Lag time.Duration
	// Deposed, if not nil, is called after a worker was declared dead.
	Deposed func(store.Member)
	Host    host.Host // the machine; nil means the real one
	Log     *slog.Logger
}

// AloneOwner is the engine of a node that is alone.
type AloneOwner interface {
	// Bury marks as lost the attempts of handlers that are gone.
	Bury(gone func(dag.HandlerID) bool)
	// Meet repeats the requests about attempts of an older era.
	Meet(ctx context.Context) error
}

// Alone is the membership of a node that shares its store with no other node: the node and the workers that
// are attached to it. The rows of workers are in the store, so that the next process of the node knows which
// workers hold attempts. Only this process changes these rows. So it reads them once, and counts renewals in
// memory.
//
// Invariant: a worker is deposed only after the lease of each of its attempts has ended. The silence of a
// worker counts from the last renewal that this process has seen, or from the start of this process. Both are
// later than the last poll whose answer extended a lease. There is one condition, which docs/config.md
// states: a restart must not lower the lag below the lease that the workers had before, which is three
// quarters of the old lag.
type Alone struct {
	cfg  AloneConfig
	host host.Host
	log  *slog.Logger

	// writing is held while a row is written, until the map workers has the change, too.
	writing sync.Mutex
	mu      sync.Mutex // protects following fields
	rows    map[dag.HandlerID]store.Member
	// doubt says that the outcome of a write is unknown, so that the rows must be read again.
	doubt  bool
	self   store.Member
	view   []store.Member // this node and the rows; replaced as a whole, never changed
	shards []store.ShardRow

	watch watch     // used only by the goroutine of Run
	later time.Time // the time for the next try after a deposal has failed; used only by the goroutine of Run
}

// aloneAgain is the pause before another try to depose a worker.
const aloneAgain = 5 * time.Second

// NewAlone reads the workers that an earlier process has left. It calls no method of the owner, which may be
// made later. Only Run calls the owner.
func NewAlone(ctx context.Context, cfg AloneConfig) (*Alone, error) {
	if cfg.Lag == 0 {
		cfg.Lag = LagDefault
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Self.State = store.MemberActive
	a := &Alone{cfg: cfg, host: host.Or(cfg.Host), log: cfg.Log, watch: newWatch(cfg.Lag), self: cfg.Self, rows: map[dag.HandlerID]store.Member{}, doubt: true}
	for i := range cfg.Shards {
		a.shards = append(a.shards, store.ShardRow{ID: dag.ShardID(i), Owner: a.self.Handler})
	}
	return a, a.reread(ctx)
}

// Run deposes workers that are silent, until ctx ends. It leaves the rows when it ends: workers continue
// until their leases end, and the next process finds them.
func (a *Alone) Run(ctx context.Context) {
	met := a.host.Now()
	for {
		if a.host.Await(ctx, nil, lookEvery); ctx.Err() != nil {
			return
		}
		if err := a.reread(ctx); err != nil && ctx.Err() == nil {
			a.log.Warn("the list of workers cannot be read", "code", "members_unreadable", "err", err)
			a.host.Await(ctx, nil, aloneAgain)
			continue
		}
		a.update()
		workers := a.workers()
		a.watch.see(workers, a.host.Now())
		a.deposeAll(ctx, workers)
		if len(workers) > 0 && a.host.Now().Sub(met) >= meetEvery {
			met = a.host.Now()
			if err := a.cfg.Owner.Meet(ctx); err != nil && ctx.Err() == nil {
				a.log.Debug("workers cannot be asked for old attempts", "err", err)
			}
		}
	}
}

// update stores the present load of the node.
func (a *Alone) update() {
	if a.cfg.Now == nil {
		return
	}
	busy, used, full := a.cfg.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.self.Busy == int32(busy) && a.self.Traits.Used == used && a.self.Traits.Full == full {
		return
	}
	a.self.Busy, a.self.Traits.Used, a.self.Traits.Full = int32(busy), used, full
	a.show()
}

// Extend changes the kinds that the node runs as processes, and the folders that it refuses.
func (a *Alone) Extend(all []dag.Extension, refused []dag.Refusal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.self.Traits.Extensions, a.self.Traits.Refused = all, refused
	a.show()
}

// workers returns the rows in the order of handlers.
func (a *Alone) workers() []store.Member {
	members, _ := a.View()
	return slices.DeleteFunc(slices.Clone(members), func(m store.Member) bool { return !m.Worker })
}

// deposeAll removes the workers that were silent for too long. Their attempts are lost.
func (a *Alone) deposeAll(ctx context.Context, workers []store.Member) {
	now, gone := a.host.Now(), false
	if now.Before(a.later) {
		return
	}
	for i := range workers {
		m := &workers[i]
		if !a.watch.silent(m.Handler, a.cfg.Lag, now) {
			continue
		}
		done, err := a.remove(ctx, m.Handler, a.cfg.Store.Lose, func(is *store.Member) bool { return is.Beat == m.Beat })
		switch {
		case err != nil && ctx.Err() == nil:
			a.later = now.Add(aloneAgain)
			a.log.Warn("a silent member cannot be deposed", "code", "member_not_deposed", "name", m.Name, "err", err)
		case done:
			gone = true
			a.log.Warn("a silent member was deposed; other members take over its work", "code", "member_deposed", "name", m.Name, "worker", true, "silent_for", a.cfg.Lag)
			if a.cfg.Deposed != nil {
				a.cfg.Deposed(*m)
			}
		}
	}
	if gone {
		a.cfg.Owner.Bury(func(h dag.HandlerID) bool { return !a.Alive(h) })
	}
}

// reread reads the rows again if a write without an answer may have changed them.
func (a *Alone) reread(ctx context.Context) error {
	a.writing.Lock()
	defer a.writing.Unlock()
	a.mu.Lock()
	doubt := a.doubt
	a.mu.Unlock()
	if !doubt {
		return nil
	}
	members, _, err := a.cfg.Store.Members(ctx)
	if err != nil {
		return fmt.Errorf("list the workers: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.doubt = false
	clear(a.rows)
	for i := range members {
		a.rows[members[i].Handler] = members[i]
	}
	a.show()
	return nil
}

// show makes the view from the node and the rows. The caller must hold a.mu.
func (a *Alone) show() {
	view := make([]store.Member, 0, len(a.rows)+1)
	view = append(view, a.self)
	for _, m := range a.rows {
		view = append(view, m)
	}
	sort.Slice(view, func(i, j int) bool { return view[i].Handler < view[j].Handler })
	a.view = view
}

// Self returns this node.
func (a *Alone) Self() store.Member {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.self
}

// View returns this node, the workers and the shards.
func (a *Alone) View() ([]store.Member, []store.ShardRow) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.view, a.shards
}

// Alive reports whether a handler is listed.
func (a *Alone) Alive(h dag.HandlerID) bool {
	_, ok := a.Member(h)
	return ok
}

// Member finds a member by its handler.
func (a *Alone) Member(h dag.HandlerID) (store.Member, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h == a.self.Handler {
		return a.self, true
	}
	m, ok := a.rows[h]
	return m, ok
}

// OwnerOf returns this node, which owns every shard.
func (a *Alone) OwnerOf(dag.ShardID) (store.Member, bool) { return a.Self(), true }

// Wake does nothing, because changes are visible at once.
func (a *Alone) Wake() {}

// Vouched returns 0, because there is no other node.
func (a *Alone) Vouched() time.Duration { return 0 }

// Members lists this node, the workers and the shards.
func (a *Alone) Members(ctx context.Context) ([]store.Member, []store.ShardRow, error) {
	if err := a.reread(ctx); err != nil {
		return nil, nil, err
	}
	members, shards := a.View()
	return members, shards, nil
}

// Join writes the row of a worker's new process.
func (a *Alone) Join(ctx context.Context, m store.Member) error {
	_, err := a.write(func() (bool, error) { return true, a.cfg.Store.Join(ctx, m) }, func() {
		now := dag.Micro(a.host.Now())
		m.Beat, m.Started, m.Seen = int64(now), now, now
		a.rows[m.Handler] = m
	})
	return err
}

// Attach attaches a listed worker again.
func (a *Alone) Attach(ctx context.Context, m store.Member) (lease int64, err error) {
	_, err = a.write(func() (bool, error) {
		lease, err = a.cfg.Store.Attach(ctx, m)
		return lease != 0, err
	}, func() {
		is, listed := a.rows[m.Handler]
		if !listed { // a write with an unknown outcome had added the worker
			a.doubt = true
			return
		}
		is.Beat++
		is.Lease, is.Home, is.Slots, is.Busy, is.Traits, is.Seen = lease, m.Home, m.Slots, m.Busy, m.Traits, dag.Micro(a.host.Now())
		a.rows[m.Handler] = is
	})
	if err != nil {
		return 0, err
	}
	return lease, nil
}

// Renew counts a renewal of a worker. It writes no row, because only this process needs to know the renewal:
// the next process counts silence from its own start.
func (a *Alone) Renew(_ context.Context, m store.Member) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	is, listed := a.rows[m.Handler]
	if !listed || is.Home != m.Home || is.Lease != m.Lease {
		return false, nil
	}
	is.Beat++
	is.State, is.Busy, is.Traits, is.Seen = m.State, m.Busy, m.Traits, dag.Micro(a.host.Now())
	a.rows[m.Handler] = is
	a.show()
	return true, nil
}

// Leave removes a worker.
func (a *Alone) Leave(ctx context.Context, handler dag.HandlerID) error {
	_, err := a.remove(ctx, handler, a.cfg.Store.Leave, func(*store.Member) bool { return true })
	return err
}

// Lose removes a worker that was silent for too long.
func (a *Alone) Lose(ctx context.Context, handler dag.HandlerID) error {
	_, err := a.remove(ctx, handler, a.cfg.Store.Lose, func(*store.Member) bool { return true })
	return err
}

// remove lets the function by remove a worker from the store. It does nothing if the worker is not listed, or
// if its row at that time does not meet a condition.
func (a *Alone) remove(ctx context.Context, handler dag.HandlerID, by func(context.Context, dag.HandlerID) error, is func(*store.Member) bool) (bool, error) {
	return a.write(func() (bool, error) {
		if m, listed := a.Member(handler); !listed || !is(&m) {
			return false, nil
		}
		return true, by(ctx, handler)
	}, func() { delete(a.rows, handler) })
}

// write changes a row, and then the map workers. After an error the rows are read again before they are used.
func (a *Alone) write(row func() (bool, error), change func()) (bool, error) {
	a.writing.Lock()
	defer a.writing.Unlock()
	done, err := row()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.doubt = true
		return false, err
	}
	if done {
		change()
		a.show()
	}
	return done, nil
}
