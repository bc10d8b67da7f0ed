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

// before finds out whether the cluster starts with this node. It checks whether the members that were already
// listed are alive, because a cluster that was killed as a whole leaves the rows of its dead members.
type before struct {
	looked bool
	over   bool // whether the decision has been made
	first  time.Time
	beats  map[dag.HandlerID]earlier
	wg     sync.WaitGroup // goroutines of Config.Started
}

// earlier is a member that was already listed when this node first read the members.
type earlier struct {
	beat int64
	lag  time.Duration // the shortest silence after which another node deposes this member
}

// started calls Config.Started, once it is certain that the cluster starts with this node and the node owns
// its shards.
func (n *Node) started(ctx context.Context, members []store.Member) {
	b := &n.before
	if n.cfg.Started == nil || b.over {
		return
	}
	if !b.looked {
		b.looked, b.first, b.beats = true, n.host.Now(), map[dag.HandlerID]earlier{}
		self := n.Self()
		for i := range members {
			if m := &members[i]; m.Handler != self.Handler && !n.together(m, &self) {
				b.beats[m.Handler] = earlier{m.Beat, promised(m, n.cfg.Lag)}
			}
		}
	}
	alive, waits := b.judge(members, n.host.Now())
	switch {
	case alive:
		b.over = true
	case waits || !n.watch.settled || n.host.Now().Sub(b.first) < n.cfg.Lag/4: // a node that began earlier may still join
	default:
		b.over = true
		life := n.life(members)
		n.host.Go(&b.wg, func() { n.cfg.Started(ctx, life) })
	}
}

// judge returns whether one of the earlier members is alive, and whether that is not known yet. A silent
// member is deposed after its lag. If the row of a member disappears within half of that time, the member was
// alive and has left by itself.
func (b *before) judge(members []store.Member, now time.Time) (alive, waits bool) {
	for h, was := range b.beats {
		i := slices.IndexFunc(members, func(m store.Member) bool { return m.Handler == h })
		switch {
		case i >= 0 && members[i].Beat != was.beat:
			return true, false
		case i >= 0:
			waits = true
		case now.Sub(b.first) < was.lag/2:
			return true, false
		default:
			delete(b.beats, h)
		}
	}
	return false, waits
}

// together reports whether a member began at the same time as this one, by the store's clock, so that
// neither was listed before the other.
func (n *Node) together(m, self *store.Member) bool {
	apart := max(m.Started-self.Started, self.Started-m.Started)
	return time.Duration(apart)*time.Microsecond < n.cfg.Lag
}

// life returns a name for the common start of nodes that began together: the UUID of the first of them.
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
