package cluster

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// before finds out whether the cluster starts with this node. It checks whether the members that were
// listed at the start were alive, because a cluster that was killed as a whole leaves the rows of its dead
// members.
type before struct {
	looked bool
	over   bool // the decision has been made
	first  time.Time
	beats  map[dag.HandlerID]int64 // of the earlier members, as first read
	wg     sync.WaitGroup          // of Config.Started
}

// started calls Config.Started once it is clear that the cluster starts with this node, and the node owns
// its shards.
func (n *Node) started(ctx context.Context, members []store.Member) {
	b := &n.before
	if n.cfg.Started == nil || b.over {
		return
	}
	if !b.looked {
		b.looked, b.first, b.beats = true, n.host.Now(), map[dag.HandlerID]int64{}
		self := n.Self()
		for i := range members {
			if m := &members[i]; m.Handler != self.Handler && !n.together(m, &self) {
				b.beats[m.Handler] = m.Beat
			}
		}
	}
	alive, waits := b.judge(members, n.cfg.Lag, n.host.Now())
	switch {
	case alive:
		b.over = true
	case waits || !n.watch.settled || n.host.Now().Sub(b.first) < n.cfg.Lag/4: // a node that began earlier may join later
	default:
		b.over = true
		life := n.life(members)
		n.host.Go(&b.wg, func() { n.cfg.Started(ctx, life) })
	}
}

// judge reports whether one of the earlier members is alive, or whether that is unknown yet. A silent
// member is deposed after the lag. If its row goes away sooner, the member has left by itself.
func (b *before) judge(members []store.Member, lag time.Duration, now time.Time) (alive, waits bool) {
	for h, beat := range b.beats {
		i := slices.IndexFunc(members, func(m store.Member) bool { return m.Handler == h })
		switch {
		case i >= 0 && members[i].Beat != beat:
			return true, false
		case i >= 0:
			waits = true
		case now.Sub(b.first) < lag/2:
			return true, false
		default:
			delete(b.beats, h)
		}
	}
	return false, waits
}

// together reports whether a member began at the same time as this one, by the store's clock, so that
// neither was there before the other.
func (n *Node) together(m, self *store.Member) bool {
	apart := max(m.Started-self.Started, self.Started-m.Started)
	return time.Duration(apart)*time.Microsecond < n.cfg.Lag
}

// life returns a name for the common start of nodes that began together: the UUID of the first.
func (n *Node) life(members []store.Member) string {
	self := n.Self()
	first := &self
	for i := range members {
		m := &members[i]
		if n.together(m, &self) && cmp.Or(cmp.Compare(m.Started, first.Started), cmp.Compare(m.Handler, first.Handler)) < 0 {
			first = m
		}
	}
	return first.UUID
}
