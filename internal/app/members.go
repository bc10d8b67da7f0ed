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

// members are the nodes and workers that share the store with this node: those of a cluster (membership), or
// only the node's own workers (solo).
type members interface {
	// list returns the members that this node knows now, and the owners of the shards.
	list() ([]store.Member, []store.ShardRow)
	// slots returns the slot broker.
	slots() *home.Home
	// extend publishes to other members which kinds this node runs as processes.
	extend(all []dag.Extension, refused []dag.Refusal)
	// forEngine and forServer add the parts that the engine and the server need.
	forEngine(c *engine.Config)
	forServer(near *neighbours)
	// gateway returns the function that passes requests on to other nodes, or nil if there are none.
	gateway() (func(own http.Handler) http.Handler, error)
	// proofs distinguishes calls of other nodes from calls of people. It returns nil if there are no other
	// nodes.
	proofs() auth.Channel
	// run works until stop is called. failed receives an error if this node is not a member any more.
	run(ctx context.Context) (stop func() error, failed <-chan error)
	// started is called when the engine owns its shards for the first time.
	started(ctx context.Context)
	// leave is called when the node begins to stop.
	leave()
	// takes reports whether a request is answered although the node is stopping.
	takes(r *http.Request) bool
	// ended is called when an attempt of this process has ended.
	ended(run dag.RunID, task dag.TaskID, token dag.Token)
	// pending reports whether a report about the end of the attempt is on its way to another node.
	pending(id engine.AttemptID) bool
	// submit starts a run of a shard that another node owns.
	submit(ctx context.Context, s dag.ShardID, sub engine.Submission) error
	// alone reports whether no other node has been seen since this one started.
	alone() bool
	// sure returns an instant of the boot clock at which no other node can have taken the attempts of this
	// node.
	sure() time.Duration
	// beaten returns a time at which this node sent a commit that the database has confirmed since. It may
	// return the zero time.
	beaten() time.Time
}

// inside holds the engine for the parts that call the engine and that the engine calls. These parts are made
// before the engine. None of them calls it before the node runs.
type inside struct{ *engine.Engine }

// newMembers makes the parts by which a node reaches other members. It also makes the executor, which reaches
// the artifacts of other members. self is the row of this node.
func newMembers(ctx context.Context, n *Node, info store.Info, is store.Handler) (members, error) {
	n.authority = authority.New(authority.Config{Vault: dbadmin.Secrets(n.cfg, n.store), Rows: authority.RowsOf(n.store), Life: n.cfg.CertificateLife, Log: n.log})
	n.joining = joining.NewNode(joining.Config{Name: n.cfg.Name, Authority: n.authority, Tokens: n.store, Cluster: store.Can(n.store).Cluster != nil, Log: n.log})
	self := store.Member{Handler: is.ID, UUID: n.life, Name: n.cfg.Name, Address: n.cfg.Advertise, Version: Version(), Format: info.Known,
		Slots: int32(n.cfg.Slots), Started: is.Started, Traits: n.traits()}
	if shared := store.Can(n.store).Cluster; shared != nil {
		self.Address, self.Traits.Proves = n.advertised(), true
		return newMembership(ctx, n, shared, self)
	}
	return newSolo(ctx, n, self, info.Shards)
}
