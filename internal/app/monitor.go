package app

import (
	"context"
	"fmt"
	"time"

	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/monitor"
	"skein.dev/skein/internal/oversee"
	"skein.dev/skein/internal/store"
)

// newMonitor makes the monitor of the other nodes. call is nil if there are no other nodes.
func newMonitor(n *Node, self func() store.Member, call func(context.Context, store.Member, string, any, any) error) *monitor.Monitor {
	return monitor.New(monitor.Config{Self: self, View: func() []store.Member { all, _ := n.members.list(); return all }, Call: call,
		Clock: n.store.Clock, Look: func(r *monitor.Report) { describe(n, r) }, Counters: func() monitor.Counters { return countersOf(n) }, Jitter: host.Machine{}.Jitter, Log: n.log})
}

// describe fills in the report that this node sends to other nodes.
func describe(n *Node, r *monitor.Report) {
	r.Stuck = max(n.engine.StuckFor(), n.members.slots().StuckFor())
	if err := n.engine.Accepting(); err != nil {
		r.Ready, r.Why = false, err.Error()
	} else if r.Stuck > stopWait {
		r.Ready, r.Why = false, fmt.Sprintf("it has completed no turn for %v", r.Stuck.Round(time.Second))
	}
	r.DiskFree, r.DiskTotal, _ = monitor.Disk(n.cfg.Data) // after an error both are 0, which means unknown
	r.Backup, _ = dbadmin.LastBackup(n.cfg.Data)
	for _, is := range n.feeds.Away() {
		r.Sources = append(r.Sources, monitor.Away{Trigger: is.Workflow + "/" + is.Key.Name, Since: is.State.Away.Time(), Why: is.Why})
	}
	r.Lags = n.feeds.Lags()
	r.Unserved = n.members.slots().Stats.Unserved.Load()
	if n.upkeep.certificate != nil {
		if pair, err := n.upkeep.certificate(nil); err == nil && pair.Leaf != nil {
			r.Expires = pair.Leaf.NotAfter
		}
	}
}

// countersOf returns the counters of the node.
func countersOf(n *Node) monitor.Counters {
	is := n.engine.Stats()
	c := monitor.Counters{Commits: is.Commits.Load(), CommitTime: time.Duration(is.CommitNanos.Load()), Started: is.AttemptsStarted.Load()}
	c.Slots, c.Busy = n.engine.Slots()
	return c
}

// newOverseer makes the part that measures the cluster for its alert rules.
func newOverseer(n *Node) *oversee.Overseer {
	return oversee.New(oversee.Config{Store: n.store, Owns: n.engine.Owns, Peers: n.monitor, Log: n.log,
		Members: func(context.Context) ([]store.Member, []store.ShardRow, error) {
			members, shards := n.members.list()
			return members, shards, nil
		},
		Queues: func(ctx context.Context) (map[string]time.Duration, error) {
			return engine.QueueAges(ctx, n.engine.Engine)
		},
		Observe: engine.NewIncidents(n.engine.Engine).Observe,
	})
}
