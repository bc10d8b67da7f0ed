package cluster

import (
	"context"
	"time"

	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/store"
)

// Judge asks a registry which members are alive. Its answers can only shorten the silence after which a
// member is deposed, and only for members that have promised to end their attempts in time (Traits.Quick).
// The silence itself is seen in the database. So a wrong registry costs time, but never fences or frees
// anything by itself.
type Judge interface {
	// Run keeps this node listed in the registry until ctx ends. self returns the present uuid and name of
	// the node.
	Run(ctx context.Context, self func() (uuid, name string))
	// Gone reports whether the registry knew a uuid and has lost it. It returns false if the registry does
	// not answer.
	Gone(uuid string) bool
	// Quick returns the silence after which a member that the registry has lost counts as dead, or 0 if there
	// is no registry.
	Quick() time.Duration
	// Show shows the registry on a page of metrics.
	Show(p *metric.Page)
}

// beatsPerQuick is the number of renewals within the silence Quick.
const beatsPerQuick = 4

// shortest returns the silence after which this node may be deposed at the earliest.
func shortest(cfg *Config) time.Duration {
	if quick := quickOf(cfg); quick > 0 {
		return quick
	}
	return cfg.Lag
}

// vow returns the promise in the row of this node, in milliseconds. A process promises nothing for one lag
// after its start, because the keeper may still hold attempts under a longer lease of an earlier process.
func (n *Node) vow(boot time.Duration) int64 {
	if boot-n.began < n.cfg.Lag {
		return 0
	}
	return n.quick.Milliseconds()
}

// quickOf returns the promise of a node. It returns 0 without a registry, and also if the lag is not longer
// than the promise.
func quickOf(cfg *Config) time.Duration {
	if cfg.Judge == nil {
		return 0
	}
	if quick := cfg.Judge.Quick().Truncate(time.Millisecond); quick < cfg.Lag {
		return quick
	}
	return 0
}

// promised returns the shortest silence after which a member may be deposed.
func promised(m *store.Member, lag time.Duration) time.Duration {
	if quick := time.Duration(m.Traits.Quick) * time.Millisecond; quick > 0 && quick < lag {
		return quick
	}
	return lag
}

// lagOf returns the silence after which a member counts as dead. It is the lag or, if the registry has lost
// the member, the promise of the member.
func (n *Node) lagOf(m *store.Member) time.Duration {
	if n.cfg.Judge != nil && !m.Worker && n.cfg.Judge.Gone(m.UUID) {
		return promised(m, n.cfg.Lag)
	}
	return n.cfg.Lag
}

// entry returns the present uuid and name of this node, for the registry.
func (n *Node) entry() (uuid, name string) {
	self := n.Self()
	return self.UUID, self.Name
}

// ShowJudge shows the registry on a page of metrics.
func (n *Node) ShowJudge(p *metric.Page) {
	if n.cfg.Judge != nil {
		n.cfg.Judge.Show(p)
	}
}
