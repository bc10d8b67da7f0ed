package app

import (
	"context"
	"fmt"
	"time"

	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/monitor"
	"skein.dev/skein/internal/store"
)

// newMonitor makes the monitor of the other nodes. call is nil if there are none.
func newMonitor(n *Node, self func() store.Member, call func(context.Context, store.Member, string, any, any) error) *monitor.Monitor {
	return monitor.New(monitor.Config{Self: self, View: func() []store.Member { all, _ := n.members.list(); return all }, Call: call,
		Clock: n.store.Clock, Look: func(r *monitor.Report) { describe(n, r) }, Jitter: host.Machine{}.Jitter, Log: n.log})
}

// describe tells the other nodes how this one is.
func describe(n *Node, r *monitor.Report) {
	r.Stuck = max(n.engine.StuckFor(), n.members.slots().StuckFor())
	if err := n.engine.Accepting(); err != nil {
		r.Ready, r.Why = false, err.Error()
	} else if r.Stuck > stopWait {
		r.Ready, r.Why = false, fmt.Sprintf("it has completed no turn for %v", r.Stuck.Round(time.Second))
	}
	r.DiskFree, r.DiskTotal = monitor.Disk(n.cfg.Data)
	r.Backup, _ = dbadmin.LastBackup(n.cfg.Data)
	r.Unserved = n.members.slots().Stats.Unserved.Load()
	if n.upkeep.certificate != nil {
		if pair, err := n.upkeep.certificate(nil); err == nil && pair.Leaf != nil {
			r.Expires = pair.Leaf.NotAfter
		}
	}
}
