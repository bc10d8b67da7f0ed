package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Cluster = (*Store)(nil)

// member runs one operation on members and shards, with the injected faults around it.
func (s *Store) member(ctx context.Context, change func() error) error {
	return s.write(ctx, Op{Kind: MemberBefore}, MemberAfter, change)
}

// Join writes the row of a member under the handler of its new process.
func (s *Store) Join(ctx context.Context, m store.Member) error {
	return s.member(ctx, func() error {
		if err := checkTexts("member", m.UUID, m.Name, m.Address, m.Version); err != nil {
			return err
		}
		if err := checkMemberState(m.State); err != nil {
			return err
		}
		if old, listed := s.members[m.Handler]; listed && old.Name != m.Name {
			return refused("handler %d is listed as %s", m.Handler, old.Name)
		}
		for h, old := range s.members {
			if m.Worker && old.Name == m.Name && h != m.Handler {
				return fmt.Errorf("join as %s: %w", m.Name, store.ErrNameHeld)
			}
		}
		m.Seen = s.clock()
		m.Beat = int64(m.Seen) // differs from the number of an earlier registration, see store.Member
		m.Started = m.Seen
		if n := int(m.Handler); n >= 1 && n <= len(s.handlers) {
			m.Started = s.handlers[n-1].Started
		}
		for h, old := range s.members {
			if old.Name == m.Name {
				m.Beat = old.Beat + 1
				delete(s.members, h)
				if h != m.Handler {
					free(s, h)
				}
			}
		}
		m.Cordoned, m.Stopped = false, false
		m.Traits, m.Load = cloneTraits(m.Traits), nil
		s.members[m.Handler] = m
		s.find(m.Name)
		for i := range s.shards {
			sh := &s.shards[i]
			for _, h := range []*dag.HandlerID{&sh.wanted, &sh.shift.From, &sh.shift.To, &sh.shift.Counts} {
				if n := int(*h); !m.Worker && n >= 1 && n <= len(s.handlers) && s.handlers[n-1].Node == m.Name {
					*h = m.Handler
				}
			}
		}
		return nil
	})
}

// NodeKey implements store.Cluster: the nodes of this store are in one process.
func (s *Store) NodeKey(ctx context.Context) (key []byte, err error) {
	err = s.read(ctx, Read, func() error {
		key = []byte("the nodes of a store in memory")
		return nil
	})
	return key, err
}

// Rise implements store.Cluster: there is only one format.
func (s *Store) Rise(ctx context.Context) (format int, err error) {
	err = s.member(ctx, func() error { format = formatOnly; return nil })
	return format, err
}

func cloneTraits(t store.Traits) store.Traits {
	t.Groups, t.Labels, t.Kinds = slices.Clone(t.Groups), maps.Clone(t.Labels), slices.Clone(t.Kinds)
	t.Extensions = slices.Clone(t.Extensions)
	t.Namespaces = slices.Clone(t.Namespaces)
	return t
}

func checkMemberState(state string) error {
	if state != store.MemberActive && state != store.MemberLeaving && state != store.MemberDrained {
		return refused("a member cannot have the state %q", state)
	}
	return nil
}

// free frees the shards of a handler that is no longer a member.
func free(s *Store, h dag.HandlerID) {
	for i := range s.shards {
		if s.shards[i].owner == h {
			s.shards[i].owner = 0
		}
	}
}

// ownerLocked returns the owner of a shard. A handler that is no member owns nothing.
func (s *Store) ownerLocked(shard int) dag.HandlerID {
	owner := s.shards[shard].owner
	if _, listed := s.members[owner]; !listed {
		return 0
	}
	return owner
}

// Renew moves a member's counter.
func (s *Store) Renew(ctx context.Context, m store.Member) (bool, error) {
	listed := false
	err := s.member(ctx, func() error {
		if err := checkMemberState(m.State); err != nil {
			return err
		}
		var is store.Member
		is, listed = s.members[m.Handler]
		if listed = listed && is.Home == m.Home && is.Lease == m.Lease; listed {
			is.Beat++
			is.State, is.Busy, is.Traits, is.Seen, is.Load = m.State, m.Busy, cloneTraits(m.Traits), s.clock(), cloneLoad(m.Load)
			s.members[m.Handler] = is
		}
		return nil
	})
	return listed && err == nil, err
}

// Attach gives a worker another home node.
func (s *Store) Attach(ctx context.Context, m store.Member) (int64, error) {
	lease := int64(0)
	err := s.member(ctx, func() error {
		is, listed := s.members[m.Handler]
		if !listed || is.UUID != m.UUID || is.Name != m.Name || !is.Worker {
			return nil
		}
		is.Beat++
		is.Lease++
		is.Home, is.Slots, is.Busy, is.Traits, is.Seen = m.Home, m.Slots, m.Busy, cloneTraits(m.Traits), s.clock()
		s.members[m.Handler] = is
		lease = is.Lease
		return nil
	})
	if err != nil {
		return 0, err
	}
	return lease, nil
}

// Members reads all members and all shards in one snapshot.
func (s *Store) Members(ctx context.Context) ([]store.Member, []store.ShardRow, error) {
	var members []store.Member
	var shards []store.ShardRow
	err := s.read(ctx, Members, func() error {
		members = slices.SortedFunc(maps.Values(s.members), func(a, b store.Member) int { return cmp.Compare(a.Handler, b.Handler) })
		for i := range members {
			m := &members[i]
			m.Traits, m.Load = cloneTraits(m.Traits), cloneLoad(m.Load)
			_, m.Cordoned = s.orderLocked(m.Name, store.OrderCordon)
			_, m.Stopped = s.orderLocked(m.Name, store.OrderStop)
			_, all := s.orderLocked("", store.OrderStop)
			m.Stopped = m.Stopped || all
		}
		for i := range s.shards {
			shards = append(shards, store.ShardRow{ID: dag.ShardID(i), Epoch: s.shards[i].epoch, Seq: s.shards[i].seq, Owner: s.ownerLocked(i),
				Wanted: s.shards[i].wanted, Shift: s.shards[i].shift})
		}
		for _, w := range s.workflows {
			if w.State != store.WorkflowDeleted && hasShard(s, w.Shard) {
				shards[w.Shard].Workflows++
			}
		}
		return nil
	})
	return members, shards, err
}

// Depose removes a member whose counter still has the value beat.
func (s *Store) Depose(ctx context.Context, handler dag.HandlerID, beat int64) (bool, error) {
	won := false
	err := s.member(ctx, func() error {
		if m, listed := s.members[handler]; listed && m.Beat == beat {
			won = true
			s.lose(&m)
			delete(s.members, handler)
			free(s, handler)
		}
		return nil
	})
	return won && err == nil, err
}

// Leave removes a member.
func (s *Store) Leave(ctx context.Context, handler dag.HandlerID) error {
	return s.member(ctx, func() error {
		delete(s.members, handler)
		free(s, handler)
		return nil
	})
}

// Claim takes those of the given shards that are free or already belong to the owner.
func (s *Store) Claim(ctx context.Context, owner dag.HandlerID, shards []dag.ShardID) ([]store.Acquired, error) {
	op := Op{Kind: ClaimBefore, Owner: owner, Shards: shards}
	var got []store.Acquired
	err := s.write(ctx, op, ClaimAfter, func() error {
		for _, id := range shards {
			if !hasShard(s, id) {
				return fmt.Errorf("claim shard %d: %w", id, store.ErrNotFound)
			}
		}
		now := s.clock()
		for _, id := range slices.Compact(slices.Sorted(slices.Values(shards))) {
			_, listed := s.members[owner]
			if is := s.ownerLocked(int(id)); !listed || is != 0 && is != owner {
				continue
			}
			sh := &s.shards[id]
			if sh.epoch%store.TakesOfEra == store.TakesOfEra-1 {
				return fmt.Errorf("claim shard %d: %w", id, store.ErrTakes)
			}
			sh.epoch++
			got = append(got, store.Acquired{Fence: store.Fence{Shard: id, Epoch: sh.epoch, Seq: sh.seq}, Now: now, Previous: sh.owner, Watermark: sh.watermark})
			sh.owner = owner
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

// Release frees shards that are still owned under their epoch.
func (s *Store) Release(ctx context.Context, fences []store.Fence) error {
	return s.member(ctx, func() error {
		for _, f := range fences {
			if hasShard(s, f.Shard) && s.shards[f.Shard].epoch == f.Epoch {
				s.shards[f.Shard].owner = 0
			}
		}
		return nil
	})
}

// Move records the member to which a shard should move.
func (s *Store) Move(ctx context.Context, shard dag.ShardID, to dag.HandlerID) error {
	return s.member(ctx, s.noted(ctx, func() error {
		if !hasShard(s, shard) {
			return fmt.Errorf("move shard %d: %w", shard, store.ErrNotFound)
		}
		s.shards[shard].wanted, s.shards[shard].shift = to, store.Shift{}
		return nil
	}))
}

// Shift records that a shard moves because of its load.
func (s *Store) Shift(ctx context.Context, m store.ShiftMove) (bool, error) {
	done := false
	err := s.member(ctx, func() error {
		if err := checkTexts("shift", m.Why); err != nil {
			return err
		}
		if !hasShard(s, m.Shard) {
			return fmt.Errorf("shift shard %d: %w", m.Shard, store.ErrNotFound)
		}
		now, sh := s.clock(), &s.shards[m.Shard]
		from, to := s.members[m.From], s.members[m.To]
		done = sh.epoch == m.Epoch && sh.owner == m.From && sh.wanted == 0 && from.Handler != 0 && to.Handler != 0 && !from.Worker && !to.Worker
		for i := range s.shards {
			at := s.shards[i].shift.At
			done = done && (at <= now-dag.Micros(m.Apart.Microseconds()) || at > now)
		}
		if done {
			sh.shift = store.Shift{At: now, From: m.From, To: m.To, Counts: m.Counts, Why: m.Why}
		}
		return nil
	})
	return done && err == nil, err
}

func cloneLoad(l *store.Load) *store.Load {
	if l == nil {
		return nil
	}
	return &store.Load{Shards: slices.Clone(l.Shards), Callers: slices.Clone(l.Callers)}
}

// orderLocked returns the index of an order, or the index at which it would be inserted.
func (s *Store) orderLocked(node, what string) (int, bool) {
	return slices.BinarySearchFunc(s.orders, store.Order{Node: node, What: what}, func(a, b store.Order) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.What, b.What))
	})
}

// Order sets an order, or withdraws it.
func (s *Store) Order(ctx context.Context, o store.Order, stand bool) (bool, error) {
	changed := false
	err := s.member(ctx, func() error {
		if err := checkTexts("order", o.Node, o.Actor); err != nil {
			return err
		}
		if o.What != store.OrderCordon && o.What != store.OrderStop {
			return refused("%q is not an order to a node", o.What)
		}
		i, stood := s.orderLocked(o.Node, o.What)
		if changed = stood != stand; !changed {
			return nil
		}
		if stand {
			o.At = s.clock()
			s.orders = slices.Insert(s.orders, i, o)
		} else {
			s.orders = slices.Delete(s.orders, i, i+1)
		}
		return s.noted(ctx, func() error { return nil })()
	})
	return changed && err == nil, err
}

// Orders reads the present orders.
func (s *Store) Orders(ctx context.Context) ([]store.Order, error) {
	var all []store.Order
	err := s.read(ctx, Members, func() error {
		all = slices.Clone(s.orders)
		return nil
	})
	return all, err
}

// Submitted finds runs that programs and nodes other than the owner have inserted, the oldest first.
func (s *Store) Submitted(ctx context.Context, shards []dag.ShardID, limit int) ([]dag.RunID, error) {
	var found ids
	err := s.read(ctx, Read, func() error {
		for _, shard := range shards {
			if !hasShard(s, shard) {
				continue
			}
			for _, id := range s.active[shard] {
				if s.runs[id].row.State == dag.RunSubmitted {
					found.add(id)
				}
			}
		}
		return nil
	})
	return found[:min(len(found), pageSize(limit))], err
}
