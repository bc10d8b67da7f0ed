package app

import (
	"context"
	"net/http"
	"time"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/authority"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/joining"
	"skein.dev/skein/internal/store"
)

// members is the set of nodes and workers that share the store with a node: those of a cluster (membership),
// or only its own workers (solo).
type members interface {
	// list returns the members that this node knows now, and the owners of the shards.
	list() ([]store.Member, []store.ShardRow)
	// slots is the broker of the slots of workers.
	slots() *home.Home
	// extend shows to other members which kinds this node runs as processes.
	extend(all []dag.Extension)
	// forEngine and forServer add the parts that an engine and a server need.
	forEngine(c *engine.Config)
	forServer(near *neighbours)
	// gateway returns what passes requests on to other nodes. It returns nil if there are none.
	gateway() (func(own http.Handler) http.Handler, error)
	// proofs tells calls of other nodes from calls of people. It is nil if there are none.
	proofs() auth.Channel
	// run works until stop is called. failed receives the reason if this node is no member any more.
	run(ctx context.Context) (stop func() error, failed <-chan error)
	// started is called when the engine owns its shards for the first time.
	started(ctx context.Context)
	// leave begins the farewell of a node that ends.
	leave()
	// takes reports whether a request is answered although the node ends.
	takes(r *http.Request) bool
	// ended is called when an attempt of this process has ended.
	ended(run dag.RunID, task dag.TaskID, token dag.Token)
	// pending reports whether a report about the end of the attempt is on its way to another node.
	pending(id engine.AttemptID) bool
	// submit starts a run of a shard that another node owns.
	submit(ctx context.Context, s dag.ShardID, sub engine.Submission) error
	// alone reports whether no other node has been seen since this one started.
	alone() bool
	// sure is an instant of the boot clock at which no other node can have taken the attempts of this one.
	sure() time.Duration
	// beaten is a time at which this node sent a commit that the database has confirmed since. It may be zero.
	beaten() time.Time
}

// inside is the engine of this node, for the parts that it calls and that call it. They are made before the
// engine. None of them calls it before work begins.
type inside struct{ *engine.Engine }

// newMembers makes the parts by which a node reaches others, and the executor, which reaches their
// artifacts. self is the row of this node.
func newMembers(ctx context.Context, n *Node, info store.Info, is store.Handler) (members, error) {
	n.authority = authority.New(authority.Config{Vault: dbadmin.Secrets(n.cfg, n.store), Rows: authority.RowsOf(n.store), Life: n.cfg.CertificateLife, Log: n.log})
	n.joining = joining.NewNode(joining.Config{Name: n.cfg.Name, Authority: n.authority, Tokens: n.store, Cluster: store.Can(n.store).Cluster != nil, Log: n.log})
	self := store.Member{Handler: is.ID, UUID: n.life, Name: n.cfg.Name, Address: n.cfg.Advertise, Version: Version(), Format: info.Known,
		Slots: int32(n.cfg.Slots), Started: is.Started, Traits: n.traits()}
	if shared := store.Can(n.store).Cluster; shared != nil {
		self.Address = n.advertised()
		return newMembership(ctx, n, shared, self)
	}
	return newSolo(ctx, n, self, info.Shards)
}
