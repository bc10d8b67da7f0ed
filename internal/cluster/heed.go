package cluster

import (
	"skein.dev/skein/internal/store"
)

// heed updates the state in this node's row once the node has done what a cordon requires.
func (n *Node) heed(members []store.Member, shards []store.ShardRow) {
	self := n.Self()
	empty := n.cfg.Busy == nil || n.cfg.Busy() == 0
	for i := range shards {
		empty = empty && shards[i].Owner != self.Handler
	}
	for i := range members {
		m := &members[i]
		if m.Handler != self.Handler {
			continue
		}
		if m.Cordoned && empty {
			n.become(store.MemberActive, store.MemberDrained)
		} else {
			n.become(store.MemberDrained, store.MemberActive)
		}
	}
}

// become changes the state from one to another, and writes it to the row at once.
func (n *Node) become(from, to string) {
	n.mu.Lock()
	is := n.self.State == from
	if is {
		n.self.State = to
	}
	n.mu.Unlock()
	if is {
		select {
		case n.state <- struct{}{}:
		default:
		}
	}
}
