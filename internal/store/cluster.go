package store

import (
	"context"

	"skein.dev/skein/internal/dag"
)

// Member states.
const (
	MemberActive  = "active"
	MemberLeaving = "leaving" // the member takes no further shards, and releases its own
	MemberDrained = "drained" // cordoned, owns no shard and runs no attempt
)

// Standing orders of an operator.
const (
	OrderCordon = "cordon" // take no shard, and release the present ones; running attempts finish
	OrderStop   = "stop"   // the same as OrderCordon, given because the scheduler is stopped on the node
)

// Order is a standing order of an operator to a node. It belongs to the node's name. So it also applies to
// later processes of that name, until it is withdrawn.
type Order struct {
	Node  string // "" means every node, including future ones
	What  string
	Actor string
	At    dag.Micros
}

// Member is a node or a worker of the cluster, with one row under the handler of its present process. A name
// belongs to one member.
type Member struct {
	Handler dag.HandlerID
	UUID    string
	Name    string
	Worker  bool   // the member is a worker: it only runs attempts, and is attached to a node, its home node
	Address string // node: the address at which its peers reach it, http://host:port
	Version string // version of the program
	Format  int    // the newest database format that the node can use; 0 if unknown
	State   string
	Slots   int32
	Busy    int32 // slots taken at the last beat
	// Beat is the renewal counter of the member. Other members watch whether it rises, and measure the time
	// by their own monotonic clocks. Seen, by the store's clock, is for people. Each Join begins with another
	// number, so a member that was declared dead and joins again does not look silent. Invariant: a member is
	// declared dead only if its Beat is still the one that the judging node has seen for the whole lag.
	Beat    int64
	Started dag.Micros
	Seen    dag.Micros
	// For a worker: its home node, the number of its attachment, and its traits. Each attachment raises
	// Lease by one, so messages for an earlier attachment are recognised. Lease is not a duration.
	Home   dag.HandlerID
	Lease  int64
	Traits Traits
	// Cordoned and Stopped say which orders apply. Only Members sets them.
	Cordoned bool
	Stopped  bool
	// Load is the work for the node's shards at the last beat. It is nil if the node does not measure it.
	Load *Load
}

// Traits are the properties by which tasks choose a worker, in addition to its name.
type Traits = dag.Traits

// Able reports whether a member may have shards.
func (m *Member) Able() bool {
	return !m.Worker && m.State == MemberActive && !m.Cordoned && !m.Stopped
}

// ShardRow names the owner of a shard. If Owner is 0, the shard is free. Invariant: a shard has at most one
// owner, and each new one raises Epoch.
type ShardRow struct {
	ID    dag.ShardID
	Epoch int64
	Seq   int64
	Owner dag.HandlerID
	// Wanted is the member to which an operator wants the shard to move. 0 means any member.
	Wanted    dag.HandlerID
	Workflows int // the number of workflows that are not deleted
	Shift     Shift
}

// Workers is the register of members in a store. The store of a single node lists only workers: no other
// node needs to find that node.
type Workers interface {
	// Join writes the row of a member under a new handler. It returns ErrFormat if a node cannot use the
	// format of the database.
	//
	// For a node, the same transaction removes the row of an earlier handler of that name and frees its
	// shards. Shards that were to move to the earlier handler will move to the new one. A worker replaces no
	// member: while a member under another handler has the name, Join returns ErrNameHeld and changes
	// nothing. The store of a single node refuses nodes.
	//
	// If the handler is registered, the row gets the Started of the handler. The store sets Beat and the
	// times.
	Join(ctx context.Context, m Member) error
	// Attach gives a worker another home node. The worker must be listed under its handler and UUID. Attach
	// writes Home, Slots, Busy and Traits. It raises the lease by one and returns it. It returns 0 if there
	// is no such row.
	Attach(ctx context.Context, m Member) (int64, error)
	// Members reads all members and all shards in one snapshot.
	Members(ctx context.Context) ([]Member, []ShardRow, error)
	// Leave removes a member and frees the shards that it still owns. Orders about the member stay.
	Leave(ctx context.Context, handler dag.HandlerID) error
	// Lose is Leave for a member that was silent for too long. The same transaction records it as lost (see
	// LostMember), as Depose does.
	Lose(ctx context.Context, handler dag.HandlerID) error
}

// Cluster is the part of a store that several nodes share. The store of a single node has only Workers.
type Cluster interface {
	Workers
	// Renew raises the member's counter and writes State, Busy, Traits and Load. It returns false if there is
	// no row with that Home and Lease, because the member was deposed or the worker is attached to another
	// node.
	Renew(ctx context.Context, m Member) (bool, error)
	// Depose removes a member whose counter still has the value beat, and frees its shards in the same
	// transaction. It returns false if the counter has risen or the row is gone.
	Depose(ctx context.Context, handler dag.HandlerID, beat int64) (bool, error)
	// Claim takes the shards that are free or already belong to the owner. It raises their epochs by one, as
	// Acquire does, and waits for an open transaction of the previous owner. A shard whose owner is not a
	// member counts as free. So a cluster can take over a store that one node used alone before. It can also
	// take over shards that a node claimed in the moment in which it was declared dead. A handler that is not
	// a member gets no shard.
	Claim(ctx context.Context, owner dag.HandlerID, shards []dag.ShardID) ([]Acquired, error)
	// Release frees the shards that are still owned under their epoch.
	Release(ctx context.Context, fences []Fence) error
	// Move records the member to which an operator wants a shard to move. 0 means any member. The owners
	// carry it out. Move also removes the shift of the shard.
	Move(ctx context.Context, shard dag.ShardID, to dag.HandlerID) error
	// Shift records that a shard moves because of its load. The owners carry it out.
	//
	// It returns false and changes nothing in these cases: the owner or the epoch is another one, an
	// operator has moved the shard, one of the two nodes is not listed, any shard was shifted less than
	// Apart ago, or a listed node may not know shifts. Of two concurrent calls, at most one succeeds. A
	// shift stays with a node when its process is replaced, as a move does.
	Shift(ctx context.Context, m ShiftMove) (bool, error)
	// Order sets or withdraws an order. It returns false if nothing changed. The store sets At.
	Order(ctx context.Context, o Order, stand bool) (bool, error)
	// Rise raises the format of the database to the newest one that all listed nodes know, and returns the
	// format. The format never falls.
	Rise(ctx context.Context) (int, error)
	// NodeKey reads the key with which a node proves to another node that it may pass on the request of a
	// caller. The key is random, and was made with the database.
	NodeKey(ctx context.Context) ([]byte, error)
	// Orders lists the present orders, ordered by node and kind.
	Orders(ctx context.Context) ([]Order, error)
	// Submitted lists runs in the state submitted, the oldest first. Programs and nodes other than the owner
	// have inserted them.
	Submitted(ctx context.Context, shards []dag.ShardID, limit int) ([]dag.RunID, error)
}
