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

// before judges whether the cluster starts with this node: whether those that were listed when
// it came were alive. A cluster that was killed as a whole leaves rows of the dead behind.
type before struct {
	looked bool
	over   bool // it is judged
	first  time.Time
	beats  map[dag.HandlerID]int64 // of those that came before, as first read
	wg     sync.WaitGroup          // of Config.Started
}

// started calls Config.Started once it is clear that the cluster starts with this node, and it
// owns what it should.
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
	case waits || !n.watch.settled || n.host.Now().Sub(b.first) < n.cfg.Lag/4: // who began before this one may join after it
	default:
		b.over = true
		life := n.life(members)
		n.host.Go(&b.wg, func() { n.cfg.Started(ctx, life) })
	}
}

// judge reports whether one of those that came before is alive, or whether that is not clear
// yet: one that is silent is deposed after the lag, one that is gone sooner has left.
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

// together reports whether a member began when this one did, by the store's clock: neither was
// there before the other.
func (n *Node) together(m, self *store.Member) bool {
	apart := max(m.Started-self.Started, self.Started-m.Started)
	return time.Duration(apart)*time.Microsecond < n.cfg.Lag
}

// life is what the nodes that began together call their start: the UUID of the first.
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
