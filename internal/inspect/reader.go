package inspect

import (
	"context"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// pageRows is the number of rows that one read of a longer list returns at most.
const pageRows = 1000

// Standstill is the time without progress of a run or a held attempt after which a sweep checks it.
const Standstill = time.Minute

// Config holds the sources of a Reader. Store and Graphs are required.
type Config struct {
	Store  store.Store
	Graphs *Graphs
	// Roster lists the members that may run tasks. It is nil if that is only this process.
	Roster Roster
	// Shared is true if other nodes may own shards.
	Shared bool
	Shards []dag.ShardID // the shards of all nodes
	// Memory gives access to the shards that this process owns. It is nil if the process owns none.
	Memory Memory
	// Outside finds the condition for which a deferred task waits. If it is nil, the condition is not known.
	Outside Outside
	// Waits returns the reason why an attempt that is assigned to this node has not been started. It returns
	// "" if no reason is known. It is nil if this process starts no attempts.
	Waits  func(run dag.RunID, task dag.TaskID, token dag.Token) string
	Node   string              // the name of this process
	Slots  int                 // attempts that this process runs at once
	Traits func() store.Traits // returns the present traits of this process; nil if it runs no attempts
	// Space returns the demands of a namespace on the placements of its tasks. It is nil if they are not
	// known.
	Space func(namespace string) *dag.Space
	// Ageing is the waiting time after which a run counts as one priority level higher.
	Ageing time.Duration
	// Onlooker is true if servers that this process does not know may work on the database. Reasons then come
	// only from the rows.
	Onlooker bool
}

// Roster lists members and shards.
type Roster interface {
	Members(ctx context.Context) ([]store.Member, []store.ShardRow, error)
}

// Memory is the data that a node has in memory about the shards that it owns. Any goroutine may call its
// methods. A method with a context waits for the shard's writer, at most until the context ends.
type Memory interface {
	// Serving reports whether the shards have been loaded. Before that, the node can only read rows.
	Serving() bool
	Owned() []dag.ShardID
	// Sight copies the states of all tasks of a run. It returns nil if the run is not in memory. task is the
	// task to be explained, or dag.LeaderTask.
	Sight(ctx context.Context, run dag.RunID, task dag.TaskID) (*Sight, error)
	// Turn counts the runs that get a slot before a given run, and the tasks of this run that get one before
	// task. If task is dag.LeaderTask, it counts only runs. shared reports whether tasks of a placement
	// compete for the same slots. known is false if the run is not in memory.
	Turn(ctx context.Context, run dag.RunID, task dag.TaskID, shared func(dag.Place) bool) (t Turn, known bool, err error)
	// InUse returns the slots and resources of this node that are in use now.
	InUse() (slots int, need dag.Need)
	// IsShut returns the reason why this node starts no attempts. It returns "" if the node starts attempts.
	IsShut() string
}

// Turn counts the runs and tasks that get a slot before a task.
type Turn struct {
	Runs  int // other runs
	Tasks int // tasks of the same run
}

// Outside finds the events for which deferred tasks wait.
type Outside interface {
	Missing(ctx context.Context, row *dag.RunRow, g *dag.Graph, t dag.TaskID, token dag.Token) (Missing, error)
}

// Missing describes the event for which a deferred task waits.
type Missing struct {
	By      []string // approval: the principals that may decide; nil means all
	Message string   // the question of an approval
	Form    []byte   // the fields of an approval's form, a JSON array; nil if there is none
	// FourEyes says that the person who started the run may not decide about an approval.
	FourEyes bool
	Later    time.Duration // the time until the owner checks again; 0 if the wait is over
	Why      Reason
}

// Reader reads a store. Its methods may be called from any goroutine.
type Reader struct {
	Ledger

	cfg      Config
	store    store.Store
	roster   Roster
	graphs   *Graphs
	handlers handlerCache
}

// New makes a Reader.
func New(cfg Config) *Reader {
	return &Reader{Ledger: Ledger{cfg.Store, cfg.Shards, cfg.Memory}, cfg: cfg, store: cfg.Store, roster: cfg.Roster, graphs: cfg.Graphs}
}

// rowsOnly reports whether this process owns no loaded shards now, so that it can read only rows.
func (rd *Reader) rowsOnly() bool { return rd.cfg.Memory == nil || !rd.cfg.Memory.Serving() }

// unserved reports whether no server works on the database.
func (rd *Reader) unserved() bool { return rd.rowsOnly() && !rd.cfg.Onlooker }

// HandlerByID reads a handler by its number. The zero number gives the zero handler.
func (rd *Reader) HandlerByID(ctx context.Context, id dag.HandlerID) (store.Handler, error) {
	return rd.handlers.get(ctx, rd.store, id)
}

// handlerCache stores handlers by their number. Their rows never change.
type handlerCache struct {
	mu    sync.Mutex // protects following fields
	known map[dag.HandlerID]store.Handler
}

// handlersMax bounds the cache.
const handlersMax = 10_000

func (c *handlerCache) get(ctx context.Context, st store.Store, id dag.HandlerID) (store.Handler, error) {
	if id == 0 {
		return store.Handler{}, nil
	}
	c.mu.Lock()
	h, ok := c.known[id]
	c.mu.Unlock()
	if ok {
		return h, nil
	}
	found, err := st.Handlers(ctx, []dag.HandlerID{id})
	if err != nil || len(found) == 0 {
		return store.Handler{ID: id}, errkind.FromStore("handler", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= handlersMax {
		c.known = map[dag.HandlerID]store.Handler{}
	}
	c.known[id] = found[0]
	return found[0], nil
}
