package cluster

import (
	"context"
	"time"

	"skein.dev/skein/internal/store"
)

// Sure returns an instant on the boot clock. No node can declare this node dead until a lag after this
// instant. With a registry, the silence that the node's row promises (Traits.Quick) replaces the lag. The
// instant is the later one of two: the time at which this node sent the last confirmed renewal, and the last
// time at which it began to ask the other nodes and all of them turned out to be blind, too. It is 0 if there
// is neither.
func (n *Node) Sure() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lost || !n.joined {
		return 0
	}
	return n.sure
}

// Vouched returns the newest instant, on the boot clock, at which all known nodes were blind, or 0 if there
// is none. None of them can have deposed a member at that instant.
func (n *Node) Vouched() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.vouched
}

// Blind reports whether this node has been blind for so long that it will count the silence of all members
// from zero again. A node is blind if it cannot read the store, or if the store does not accept its renewals.
// Blind returns false while a transaction by which this node deposes a member may still reach the store.
func (n *Node) Blind() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.host.Now()
	if !n.joined || n.read.IsZero() || now.Before(n.deciding) {
		return false
	}
	return now.Sub(n.read) > n.watch.gap || n.unheard(now)
}

// unheard reports whether the store does not accept renewals of this node. The caller must hold n.mu.
func (n *Node) unheard(now time.Time) bool { return now.Sub(n.beaten) > n.cfg.Beat+n.watch.gap }

// decides calls the function do, which deposes other members. While the outcome of do is unknown, this node
// must not report itself as blind.
func (n *Node) decides(do func() (bool, error)) (bool, error) {
	n.mu.Lock()
	before := n.deciding
	n.deciding = n.host.Now().Add(decidesMax)
	n.mu.Unlock()
	done, err := do()
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		n.deciding = before
	} else {
		n.deciding = n.host.Now().Add(n.cfg.Lag)
	}
	return done, err
}

// decidesMax is longer than any call of the store can take.
const decidesMax = time.Hour

// vouch asks the other nodes while this node's renewals are not confirmed. If no known node can read and
// write the store, no member can have been deposed, and attempts may continue. A node that does not answer
// may be able to depose members, so it does not count as blind.
func (n *Node) vouch(ctx context.Context) {
	if n.cfg.Blind == nil {
		return
	}
	for {
		n.host.Await(ctx, nil, max(vouchMin, shortest(&n.cfg)/vouchesPerLag))
		if ctx.Err() != nil {
			return
		}
		boot := n.cfg.Boot()
		n.mu.Lock()
		listed := n.joined && !n.lost
		self := n.self.Handler
		var others []store.Member
		for i := range n.members {
			if m := &n.members[i]; m.Handler != self && !m.Worker { // workers cannot depose members
				others = append(others, n.members[i])
			}
		}
		n.mu.Unlock()
		if !listed || !n.Blind() || !n.cfg.Blind(ctx, others) {
			continue
		}
		n.mu.Lock()
		n.sure, n.vouched = max(n.sure, boot), boot
		n.mu.Unlock()
	}
}

// Bounds of the interval between two requests to other nodes while this node is blind.
const (
	vouchesPerLag = 32
	vouchMin      = 100 * time.Millisecond
)
