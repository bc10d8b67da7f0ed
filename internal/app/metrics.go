package app

import (
	"context"
	"crypto/tls"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/cluster"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/tally"
	"skein.dev/skein/internal/trace"
)

// sizesEvery is the greatest age of the sizes of tables on a page. sizesMax bounds how long a scrape waits
// for them.
const sizesEvery, sizesMax = time.Minute, time.Second

// upkeep counts the work that a node does for its own maintenance.
type upkeep struct {
	tally  *tally.Folder   // nil before the engine is made
	traces *trace.Exporter // nil if no collector is set
	began  time.Time
	// certificate returns the certificate of the node. It is nil if the node listens without TLS.
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

	passed  atomic.Int64 // when retention last completed a pass, as time.UnixMicro
	deposed atomic.Int64 // the number of members that this node has declared dead
}

// sources returns the metrics of a node in addition to those of its engine and its server.
func (n *Node) sources() []metric.Source {
	sizes := metric.NewCached(sizesEvery, sizesMax, n.sizes)
	return []metric.Source{n.showUpkeep, n.showSlots, n.monitor.Show, n.upkeep.traces.Show, n.sender.Show, n.feeds.Show, n.git.Show, n.depot.Show, func(p *metric.Page) {
		tables, _ := sizes.Get()
		for name, bytes := range tables {
			p.Set("store_bytes", float64(bytes), name)
		}
	}}
}

// sizes returns the bytes of the tables of a PostgreSQL database, or of the file of an SQLite database.
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

// showUpkeep shows how far logs, retention and backups are behind, and when the certificate expires.
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
	if members == nil { // the members were not read yet
		slots, busy := n.engine.Slots()
		p.Set("worker_slots", float64(busy), "", "", "busy")
		p.Set("worker_slots", float64(slots-busy), "", "", "free")
		return
	}
	cluster.Show(p, members, shards)
	p.Set("deposed_total", float64(n.upkeep.deposed.Load()))
}
