package cluster

import (
	"context"
	"time"

	"skein.dev/skein/internal/store"
)

// Sure is the newest instant, on the boot clock, of which this node knows that nobody can take it
// for dead until a lag after it: when it sent the last renewal that the store confirmed, or when it
// began to ask the others and none of them could do anything about it either. 0: it was never sure.
func (n *Node) Sure() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lost || !n.joined {
		return 0
	}
	return n.sure
}

// Vouched is the newest instant, on the boot clock, at which everybody who was last known was blind: nobody
// can have been deposed then. 0: there was none.
func (n *Node) Vouched() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.vouched
}

// Blind reports whether this node has not read the store for so long, or the store has not taken its renewals
// for so long, that everybody's silence begins anew when that is over; and whether nothing that it has
// decided is on its way.
func (n *Node) Blind() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.host.Now()
	if !n.joined || n.read.IsZero() || now.Before(n.deciding) {
		return false
	}
	return now.Sub(n.read) > n.watch.gap || n.unheard(now)
}

// unheard reports whether the store takes no renewals of this node; n.mu is held.
func (n *Node) unheard(now time.Time) bool { return now.Sub(n.beaten) > n.cfg.Beat+n.watch.gap }

// decides brackets what takes the life of others. As long as it is not known what became of it, this node
// cannot say that nobody was deposed.
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

// decidesMax is longer than any call of the store takes.
const decidesMax = time.Hour

// vouch asks the others when this node's renewals are not confirmed: while nobody who was last
// known reads and writes the store, nobody can have been deposed, and what runs may go on. One that does not
// answer may do so, for all that is known.
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
