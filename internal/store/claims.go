package store

import (
	"context"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
)

// GateShard is the shard whose owner, the admission owner, keeps the objects that all shards share: named
// queues, locks and rates. A batch changes the definition of a queue only with the fence of this shard.
const GateShard dag.ShardID = 0

// Bounds of a queue's texts.
const (
	QueueExprBytesMax = 4 << 10
	QueueTextBytesMax = 4 << 10
)

// Queue states.
const (
	QueueActive   = "active"
	QueuePaused   = "paused"   // the queue gives no slot; new runs wait
	QueueDraining = "draining" // the queue gives slots to waiting runs; new runs are refused
)

// Orders of a queue.
const (
	QueueFIFO     = "fifo"
	QueuePriority = "priority"
)

// The actions for a run that finds no free slot in a queue.
const (
	OverflowWait = "wait"
	OverflowSkip = "skip"
	OverflowFail = "fail"
)

// Queue is a named queue of the cluster.
type Queue struct {
	Name     string
	Limit    int32  // the largest number of runs with a queue slot at a time, for each key; 0 means any number
	PerKey   string // CEL over params and trigger.time; "" if the queue has one line
	Order    string
	Overflow string
	// Rate is the largest number of runs, of all keys together, that get a queue slot within Each. 0 means
	// any number.
	Rate     int32
	Each     dag.Micros // one second, minute or hour
	State    string
	Actor    string // the person who paused or drains it
	Reason   string
	Until    dag.Micros // the end of State; 0 means until the next change
	Paced    dag.Micros // the time before which no slot is given, because of Rate
	Revision int64      // guards every update, which raises it by 1
	Created  dag.Micros
	Modified dag.Micros
}

// QueuePace moves Paced and leaves the revision unchanged.
type QueuePace struct {
	Name  string
	Paced dag.Micros
}

// QueueChanges are the writes of a transaction to queues. They need the fence of GateShard.
type QueueChanges struct {
	QueueInserts []Queue
	QueueUpdates []Queue // guarded by Revision; they change all fields except Name, Paced and Created
	QueueDeletes []Queue // Name and Revision of the present row
	QueuePaces   []QueuePace
}

// Rows returns the number of rows that c writes.
func (c *QueueChanges) Rows() int {
	return len(c.QueueInserts) + len(c.QueueUpdates) + len(c.QueueDeletes) + len(c.QueuePaces)
}

// Reset empties the changes for the next transaction.
func (c *QueueChanges) Reset() {
	clear(c.QueueInserts)
	clear(c.QueueUpdates)
	clear(c.QueueDeletes)
	clear(c.QueuePaces)
	c.QueueInserts, c.QueueUpdates = c.QueueInserts[:0], c.QueueUpdates[:0]
	c.QueueDeletes, c.QueuePaces = c.QueueDeletes[:0], c.QueuePaces[:0]
}

// Check returns ErrRefused for values that no engine accepts, and for changes without the fence that they
// need.
func (c *QueueChanges) Check(fences []Fence) error {
	if c.Rows() == 0 {
		return nil
	}
	fenced := false
	for _, f := range fences {
		fenced = fenced || f.Shard == GateShard
	}
	if !fenced {
		return fmt.Errorf("a change of queues has no fence of shard %d: %w", GateShard, ErrFenced)
	}
	for _, list := range [][]Queue{c.QueueInserts, c.QueueUpdates} {
		for i := range list {
			if err := list[i].check(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (q *Queue) check() error {
	bad := func(what, is string) error {
		return fmt.Errorf("queue %.40q: unknown %s %.40q: %w", q.Name, what, is, ErrRefused)
	}
	switch q.State {
	case QueueActive, QueuePaused, QueueDraining:
	default:
		return bad("state", q.State)
	}
	switch q.Order {
	case QueueFIFO, QueuePriority:
	default:
		return bad("order", q.Order)
	}
	switch q.Overflow {
	case OverflowWait, OverflowSkip, OverflowFail:
	default:
		return bad("overflow", q.Overflow)
	}
	if len(q.PerKey) > QueueExprBytesMax || len(q.Reason) > QueueTextBytesMax || q.Name == "" {
		return fmt.Errorf("queue %.40q: no name, or an expression of %d bytes (at most %d), or a reason of %d bytes (at most %d): %w",
			q.Name, len(q.PerKey), QueueExprBytesMax, len(q.Reason), QueueTextBytesMax, ErrRefused)
	}
	return nil
}

// Claimant is an unfinished run, with its claim and its shares of slots.
type Claimant struct {
	Run      dag.RunID
	Shard    dag.ShardID
	Workflow dag.WorkflowID
	Priority dag.Priority
	Created  dag.Micros
	Claim    dag.Claim
	Shares   []dag.Share
}

// Holds reports whether the run or its tasks have or want anything for which other runs may wait.
func (c *Claimant) Holds() bool { return c.Claim.Holds() || len(c.Shares) > 0 }

// HolderQuery selects the unfinished runs of all shards that hold a lock. Without the name of a lock, it
// selects the runs with a slot of a queue for a key.
type HolderQuery struct {
	Lock       string
	Queue, Key string
	First      int // the largest number of claimants that are listed
}

// Of reports whether a claim matches the query.
func (q *HolderQuery) Of(c *dag.Claim) bool {
	if q.Lock != "" {
		return c.Holds() && slices.Contains(c.Locks, q.Lock)
	}
	return c.Slot() && c.Queue == q.Queue && c.Key == q.Key
}

// About returns a sequence of bytes that occurs in every packed claim that the query selects. With it, an
// engine finds rows without unpacking all claims.
func (q *HolderQuery) About() []byte {
	if q.Lock != "" {
		return dag.PackNames(q.Lock)
	}
	return dag.PackNames(q.Queue, q.Key)
}

// FirstHolders keeps the claims with the lowest grants in their order, up to a number. T is the type of the
// value by which an engine identifies a claim.
type FirstHolders[T any] struct {
	Most  int
	Count int
	First []T
	grant []int64
}

// Add adds a claim.
func (f *FirstHolders[T]) Add(grant int64, v T) {
	f.Count++
	i, _ := slices.BinarySearch(f.grant, grant)
	if i >= f.Most {
		return
	}
	f.grant, f.First = slices.Insert(f.grant, i, grant), slices.Insert(f.First, i, v)
	if len(f.First) > f.Most {
		f.grant, f.First = f.grant[:f.Most], f.First[:f.Most]
	}
}

// Line is a line of waiting runs, with the name that dag.Claim.Line returns, or the part of it at one level.
type Line struct {
	Name  string
	Level dag.Priority
	Runs  int64
}

// Claims is the part of a store that keeps the objects that runs of all shards share. The claims of a run are
// written with its row. The store keeps the lines of waiting runs in order.
type Claims interface {
	Queue(ctx context.Context, name string) (Queue, error)
	// Queues lists the queues after the given name, ordered by name.
	Queues(ctx context.Context, after string, limit int) ([]Queue, error)
	// Holding reads the unfinished runs of all shards whose claim is granted, lent or requested again, and
	// those with shares of slots for their tasks. It reads them in an order of the engine, after the given
	// run. A page can be short. The last page is empty.
	Holding(ctx context.Context, after dag.RunID, limit int) ([]Claimant, error)
	// Holders finds the runs that a query selects. It returns the first of them, ordered by Grant, and the
	// number of all of them.
	Holders(ctx context.Context, q HolderQuery) (first []Claimant, count int, err error)
	// Lines reads all lines that are not empty, ordered by name and level.
	Lines(ctx context.Context) ([]Line, error)
	// InLine reads the first runs of a line at a level that asked at an instant or later, by Asked. Runs
	// that asked at the same instant come in any order.
	InLine(ctx context.Context, line string, level dag.Priority, from dag.Micros, limit int) ([]Claimant, error)
	// Places returns the positions of seats in their lines. All positions come from one read. If a seat has
	// left its line, its position is meaningless.
	Places(ctx context.Context, q *SeatQuery) ([]Place, error)
}
