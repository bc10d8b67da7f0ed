package store

import (
	"context"

	"skein.dev/skein/internal/dag"
)

// Member states.
const (
	MemberActive  = "active"
	MemberLeaving = "leaving" // takes no shard any more, and gives back those it has
	MemberDrained = "drained" // is cordoned, owns nothing and runs nothing
)

// Standing orders of an operator.
const (
	OrderCordon = "cordon" // take no shard, give back those you have; what runs finishes
	OrderStop   = "stop"   // likewise, as the scheduler is stopped there
)

// Order is what an operator has told a node. It stands until it is taken back, whatever
// becomes of the node: it goes by the node's name.
type Order struct {
	Node  string // "": every node, also those to come
	What  string
	Actor string
	At    dag.Micros
}

// Member is a node or a worker as the cluster sees it: one row each, under the handler of its
// present life. No two have one name.
type Member struct {
	Handler dag.HandlerID
	UUID    string
	Name    string
	Worker  bool   // it is no node: it only runs attempts, and is attached to a node, its home
	Address string // of a node: where its peers reach it, http://host:port
	Version string // of the program
	Format  int    // the newest database format that it knows; 0: it does not say
	State   string
	Slots   int32
	Busy    int32 // slots taken at the last beat
	// Beat is the renewal counter. Death is judged by whether it moves, on the judge's own
	// monotonic clock; Seen, on the store's clock, is for people. It begins with another number
	// at every Join: who was deposed and comes back is not the silent one any more.
	Beat    int64
	Started dag.Micros
	Seen    dag.Micros
	// Of a worker: its home, how often it has been attached to one (so that what is meant for an
	// earlier attachment is known), and what it is chosen by.
	Home   dag.HandlerID
	Lease  int64
	Traits Traits
	// Cordoned and Stopped tell which orders stand for it. Only Members sets them.
	Cordoned bool
	Stopped  bool
}

// Traits are what tasks choose a worker by, besides its name.
type Traits = dag.Traits

// Able reports whether a member may have shards.
func (m *Member) Able() bool {
	return !m.Worker && m.State == MemberActive && !m.Cordoned && !m.Stopped
}

// ShardRow says who owns a shard. Owner 0: it is free.
type ShardRow struct {
	ID    dag.ShardID
	Epoch int64
	Seq   int64
	Owner dag.HandlerID
	// Wanted is the member that it shall go to; 0: wherever.
	Wanted    dag.HandlerID
	Workflows int // that belong to it and are not deleted
}

// Cluster is the part of a store that several nodes meet in. A store for one node has none.
type Cluster interface {
	// Join writes the row of a member's new life. A node that says that it does not know the format
	// of the database is refused (ErrFormat). The row of an earlier life of that name goes,
	// and its shards are free, in the same transaction; what was moved to it is to go to the
	// new life. A worker replaces nobody: while its name is that of a member under another
	// handler, it is refused (ErrNameHeld) and changes nothing.
	Join(ctx context.Context, m Member) error
	// Renew moves the member's counter and writes State and Busy; false: there is no such row
	// with that Home and Lease any more: somebody deposed it, or it is attached elsewhere.
	Renew(ctx context.Context, m Member) (bool, error)
	// Attach gives a worker that is listed under its handler and UUID another home: it writes
	// Home, Slots, Busy and Traits, moves the counter, and returns the lease, one more than
	// before; 0: there is no such row any more.
	Attach(ctx context.Context, m Member) (int64, error)
	// Members reads all members and all shards in one snapshot.
	Members(ctx context.Context) ([]Member, []ShardRow, error)
	// Depose removes a member whose counter is still beat, and frees its shards in the same
	// transaction; false: somebody was faster, or it has moved.
	Depose(ctx context.Context, handler dag.HandlerID, beat int64) (bool, error)
	// Leave removes a member and frees what it still owns.
	Leave(ctx context.Context, handler dag.HandlerID) error
	// Claim takes those of the shards that are free or the owner's already: epoch + 1, as
	// Acquire does. It waits for a transaction of the previous owner that is under way.
	Claim(ctx context.Context, owner dag.HandlerID, shards []dag.ShardID) ([]Acquired, error)
	// Release frees shards that are still held under their epoch; the others are left alone.
	Release(ctx context.Context, fences []Fence) error
	// Move writes down to which member a shard shall go; 0: wherever. The owners heed it.
	Move(ctx context.Context, shard dag.ShardID, to dag.HandlerID) error
	// Order has an order stand, or takes it back; false: it was so already. At is the store's.
	Order(ctx context.Context, o Order, stand bool) (bool, error)
	// Rise raises the format of the database to the newest that all nodes which are listed know, and
	// returns what it is now. It never falls.
	Rise(ctx context.Context) (int, error)
	// NodeKey reads the key by which nodes prove to each other for whom they pass a request on. It was made by
	// chance together with the database.
	NodeKey(ctx context.Context) ([]byte, error)
	// Orders reads what stands, by node and what.
	Orders(ctx context.Context) ([]Order, error)
	// Submitted finds runs in state submitted, by the partial index, oldest first: those that
	// others than the owner have inserted.
	Submitted(ctx context.Context, shards []dag.ShardID, limit int) ([]dag.RunID, error)
}
