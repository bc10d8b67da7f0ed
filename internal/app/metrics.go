package app

import (
	"context"
	"crypto/tls"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
)

const (
	// sizesEvery is how old the sizes of tables on a page may be, sizesMax how long a scrape waits for them.
	sizesEvery, sizesMax = time.Minute, time.Second
	// topPlaces bounds the pairs of groups and kinds of workers with label values of their own.
	topPlaces = 200
)

// upkeep counts the work that a node does for itself.
type upkeep struct {
	began time.Time
	// certificate returns the certificate of the node. It is nil if the node listens in plain text.
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

	passed  atomic.Int64 // when retention last completed a pass, as time.UnixMicro
	deposed atomic.Int64 // members that this node declared dead
}

// sources are the metrics of a node in addition to those of its engine and its server.
func (n *Node) sources() []metric.Source {
	sizes := metric.NewCached(sizesEvery, sizesMax, n.sizes)
	return []metric.Source{n.showUpkeep, n.showSlots, func(p *metric.Page) {
		tables, _ := sizes.Get()
		for name, bytes := range tables {
			p.Set("store_bytes", float64(bytes), name)
		}
	}}
}

// sizes are the bytes of the tables of a PostgreSQL, or of the file of an SQLite.
func (n *Node) sizes(ctx context.Context) (map[string]int64, error) {
	if db, ok := n.store.(*postgres.DB); ok {
		return postgres.Sizes(ctx, db)
	}
	info, err := n.store.Info(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]int64{"database": info.Bytes}, nil
}

// showUpkeep shows whether logs, retention and backups keep up, and when the certificate expires.
func (n *Node) showUpkeep(p *metric.Page) {
	passed := n.upkeep.began
	if at := n.upkeep.passed.Load(); at != 0 {
		passed = time.UnixMicro(at)
	}
	p.Duration("retention_oldest_seconds", time.Since(passed))
	if n.shipper != nil {
		lag, dropped := n.shipper.Behind()
		p.Set("log_lag_bytes", float64(lag))
		p.Set("log_dropped_bytes_total", float64(dropped))
	}
	if at, ok := dbadmin.LastBackup(n.cfg.Data); ok {
		p.Duration("backup_age_seconds", time.Since(at))
	}
	if n.upkeep.certificate != nil {
		if pair, err := n.upkeep.certificate(nil); err == nil && pair.Leaf != nil {
			p.Duration("certificate_expires_seconds", time.Until(pair.Leaf.NotAfter))
		}
	}
	if db, ok := n.store.(*postgres.DB); ok {
		c := postgres.ConnectionsOf(db)
		p.Set("store_pool_waiting", float64(c.Waiting))
		p.Set("store_reconnects_total", float64(c.Failed))
	}
}

// showSlots shows the slots of all workers and nodes of the cluster, and its members.
func (n *Node) showSlots(p *metric.Page) {
	members, shards := n.members.list()
	if members == nil {
		slots, busy := n.engine.Slots()
		p.Set("worker_slots", float64(busy), "", "", "busy")
		p.Set("worker_slots", float64(slots-busy), "", "", "free")
		return
	}
	c := countMembers(members)
	shown := metric.Largest(c.all, topPlaces)
	for of, all := range c.all {
		group, kind, _ := strings.Cut(of, "\n")
		if !slices.Contains(shown, of) {
			c.all[otherSlots] += all
			c.busy[otherSlots] += c.busy[of]
			continue
		}
		p.Set("worker_slots", float64(c.busy[of]), group, kind, "busy")
		p.Set("worker_slots", float64(all-c.busy[of]), group, kind, "free")
	}
	if len(c.all) > topPlaces {
		p.Set("worker_slots", float64(c.busy[otherSlots]), metric.Other, metric.Other, "busy")
		p.Set("worker_slots", float64(c.all[otherSlots]-c.busy[otherSlots]), metric.Other, metric.Other, "free")
	}
	for _, role := range []string{"node", "worker"} {
		for _, state := range memberStates {
			p.Set("members", float64(c.members[role+"\n"+state]), role, state)
		}
	}
	p.Set("shards_unowned", float64(unowned(members, shards)))
	p.Set("deposed_total", float64(n.upkeep.deposed.Load()))
}

// otherSlots is the key of the slots that have no label values of their own.
const otherSlots = metric.Other + "\n" + metric.Other

// memberStates are the label values of the states of members.
var memberStates = []string{store.MemberActive, "cordoned", "stopped", store.MemberLeaving, store.MemberDrained}

// census is the cluster in numbers.
type census struct {
	all, busy map[string]int64 // slots, by groups and kinds
	members   map[string]int   // by role and state
}

func countMembers(members []store.Member) census {
	c := census{map[string]int64{}, map[string]int64{}, map[string]int{}}
	for i := range members {
		m := &members[i]
		role, state := "node", m.State
		if m.Worker {
			role = "worker"
		}
		switch {
		case m.State != store.MemberActive:
		case m.Stopped:
			state = "stopped"
		case m.Cordoned:
			state = "cordoned"
		}
		c.members[role+"\n"+state]++
		if m.Slots > 0 {
			of := labelOf(m.Traits.Groups) + "\n" + labelOf(m.Traits.Kinds)
			c.all[of] += int64(m.Slots)
			c.busy[of] += int64(min(m.Busy, m.Slots))
		}
	}
	return c
}

// labelOf is a list of groups or kinds as one label value, bounded in length.
func labelOf(names []string) string {
	const labelMax = 100 // bytes
	all := strings.Join(slices.Sorted(slices.Values(names)), ",")
	if len(all) > labelMax {
		return metric.Other
	}
	return all
}

// unowned counts the shards that no listed node owns.
func unowned(members []store.Member, shards []store.ShardRow) (none int) {
	nodes := map[dag.HandlerID]bool{}
	for i := range members {
		nodes[members[i].Handler] = !members[i].Worker
	}
	for i := range shards {
		if !nodes[shards[i].Owner] {
			none++
		}
	}
	return none
}
