package cluster

import (
	"context"
	"time"

	"skein.dev/skein/internal/store"
)

// Sure is the newest instant, on the boot clock, of which this node knows that nobody can take it
// for dead until a lag after it: when it sent the last renewal that the store confirmed, or when it
// began to ask the others and all of them could not read the store either. 0: it was never sure.
func (n *Node) Sure() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lost || !n.joined {
		return 0
	}
	return n.sure
}

// Vouched is the newest instant, on the boot clock, at which nobody who was last known read the store: nobody can
// have been deposed then. 0: there was none.
func (n *Node) Vouched() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.vouched
}

// Blind reports whether this node has not read the store for so long that, when it can again,
// everybody's silence begins anew.
func (n *Node) Blind() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.joined && !n.read.IsZero() && n.host.Now().Sub(n.read) > n.watch.gap
}

// vouch asks the others when this node's renewals are not confirmed: while nobody who was last
// known reads the store, nobody can have been deposed, and what runs may go on. One that does not
// answer may read it, for all that is known.
func (n *Node) vouch(ctx context.Context) {
	if n.cfg.Blind == nil {
		return
	}
	for {
		n.host.Await(ctx, nil, max(vouchMin, n.cfg.Lag/vouchesPerLag))
		if ctx.Err() != nil {
			return
		}
		boot := n.cfg.Boot()
		n.mu.Lock()
		listed := n.joined && !n.lost
		self := n.self.Handler
		var others []store.Member
		for i := range n.members {
			if m := &n.members[i]; m.Handler != self && !m.Worker { // workers judge nobody
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

// How often the others are asked, while this node is blind.
const (
	vouchesPerLag = 32
	vouchMin      = 100 * time.Millisecond
)
