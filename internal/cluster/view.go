package cluster

import (
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// The reads of the cluster for other parts of a node. They use memory only.

// Self returns this node's row.
func (n *Node) Self() store.Member {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.self
}

// Extend changes the kinds that the node runs as processes, and the folders that it refuses. The other nodes
// see the change after the next beat.
func (n *Node) Extend(all []dag.Extension, refused []dag.Refusal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.self.Traits.Extensions, n.self.Traits.Refused = all, refused
}

// View returns the members and shards as they were last read.
func (n *Node) View() ([]store.Member, []store.ShardRow) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.members, n.shards
}

// Joined reports whether this node has a row.
func (n *Node) Joined() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.joined
}

// Alive reports whether a handler is listed.
func (n *Node) Alive(h dag.HandlerID) bool {
	_, ok := n.Member(h)
	return ok
}

// Member finds a member by its handler.
func (n *Node) Member(h dag.HandlerID) (store.Member, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i, ok := n.index[h]
	if !ok {
		return store.Member{}, false
	}
	return n.members[i], true
}

// OwnerOf finds the member that owns a shard. It returns false if no member owns it now.
func (n *Node) OwnerOf(s dag.ShardID) (store.Member, bool) {
	n.mu.Lock()
	owner := dag.HandlerID(0)
	for i := range n.shards {
		if n.shards[i].ID == s {
			owner = n.shards[i].Owner
		}
	}
	n.mu.Unlock()
	if owner == 0 {
		return store.Member{}, false
	}
	return n.Member(owner)
}
