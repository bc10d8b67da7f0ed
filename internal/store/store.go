package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
)

// The kinds of errors. Engines convert the errors of their drivers by code, never by text, and wrap one of
// these.
var (
	// ErrNotFound says that there is no such row.
	ErrNotFound = errors.New("not found")
	// ErrFenced says that the shard has another owner now, or a row is not in the state that the writer
	// expects. Nothing was written. The writer must drop its memory of the shard.
	ErrFenced = errors.New("fenced")
	// ErrRefused says that the store refused the content (a key that exists, a text with a NUL, a row that is
	// too large). Nothing was written. A smaller batch may be accepted.
	ErrRefused = errors.New("refused by the store")
	// ErrUnknown says that the outcome of the transaction cannot be known.
	ErrUnknown = errors.New("outcome unknown")
	// ErrUnavailable says that the store cannot write or read now (disk full, read-only, no answer). Nothing
	// was written.
	ErrUnavailable = errors.New("store unavailable")
	// ErrFull is the ErrUnavailable of a full disk.
	ErrFull = fmt.Errorf("the disk is full; make room: %w", ErrUnavailable)
	// ErrCorrupt says that a row cannot be read, because of an unknown state or a damaged value.
	ErrCorrupt = errors.New("corrupt row")
	// ErrDamaged says that the database itself, or a part larger than single rows, cannot be read. For single
	// rows, the error is ErrCorrupt. Another try does not help.
	ErrDamaged = errors.New("the database is damaged")
	// ErrNameHeld says that the name belongs to a listed worker or node.
	ErrNameHeld = errors.New("the name is held by another member")
	// ErrFormat says that the database has a format that this program does not know.
	ErrFormat = errors.New("unknown database format")
	// ErrLost says that the last writes may never reach the disk. The store cannot be used any more and must
	// be opened again, preferably by another process.
	ErrLost = errors.New("the last writes may be lost; start the program again")
)

// RunError is an ErrRefused that is caused by one run of a batch. Without that run, the batch may be
// accepted.
type RunError struct {
	Run dag.RunID
	Err error
}

func (e *RunError) Error() string { return fmt.Sprintf("run %s: %v", e.Run, e.Err) }

// Unwrap returns the error of the run.
func (e *RunError) Unwrap() error { return e.Err }

// Fence is an owner's proof that it holds a shard. Seq numbers the shard's transactions. Epoch contains the
// era and counts how often the shard was taken (EpochOf), so an owner of an older era holds no shard of a
// later one. Invariant: of two owners of a shard, the later one has the higher Epoch, and a transaction
// under the lower Epoch writes nothing.
type Fence struct {
	Shard dag.ShardID
	Epoch int64
	Seq   int64
}

// Batch is one transaction. Engines write it in the order that their guards need; readers see all of it or
// nothing. A batch without fences does not come from an owner. It may contain only inserts of submitted runs,
// messages, requests and audit rows.
type Batch struct {
	Fences []Fence // ordered by shard; Seq is the value after the last commit
	dag.Changes
	WorkflowInserts []Workflow
	WorkflowUpdates []Workflow // guarded by Revision, which the update raises by 1
	Versions        []Version
	Requests        []Request
	Messages        []Message // inserts; ID is ignored
	Consumed        []int64   // messages to delete; if one does not exist, Commit returns ErrFenced
	Audit           []Audit   // inserts; a row whose Key exists is not written again
	ScheduleChanges
	QueueChanges
	AlertChanges
	// Uses is the use of namespaces after the transaction, by namespace and shard.
	Uses []UseUpdate
	// Stocks is the amount that the transaction adds to the stocks of namespaces, by namespace and shard.
	Stocks []StockUpdate
	// Kept is what the runs that end in the transaction add to the stocks of namespaces, by namespace and
	// shard, without checks: the sum of the changes of RunRow.Kept. It adds no Rows, because a transaction with
	// it can be written ahead.
	Kept []StockUpdate
}

// Reset empties the batch and keeps its fences.
func (b *Batch) Reset() {
	b.Changes.Reset()
	b.ScheduleChanges.Reset()
	b.QueueChanges.Reset()
	b.AlertChanges.Reset()
	clear(b.Versions)
	b.WorkflowInserts, b.WorkflowUpdates, b.Versions = b.WorkflowInserts[:0], b.WorkflowUpdates[:0], b.Versions[:0]
	b.Requests, b.Messages, b.Consumed = b.Requests[:0], b.Messages[:0], b.Consumed[:0]
	clear(b.Audit)
	b.Audit, b.Uses, b.Stocks, b.Kept = b.Audit[:0], b.Uses[:0], b.Stocks[:0], b.Kept[:0]
}

// Rows returns the number of rows that the batch writes, without its fences.
func (b *Batch) Rows() int {
	return b.Changes.Rows() + len(b.WorkflowInserts) + len(b.WorkflowUpdates) + len(b.Versions) +
		len(b.Requests) + len(b.Messages) + len(b.Consumed) + len(b.Audit) + len(b.Uses) + len(b.Stocks) + b.ScheduleChanges.Rows() + b.QueueChanges.Rows() + b.AlertChanges.Rows()
}

// Workflow states.
const (
	WorkflowActive  = "active"
	WorkflowPaused  = "paused"  // starts nothing
	WorkflowDeleted = "deleted" // the workflow is hidden; its name can be used again, and its runs can still be read
)

// Workflow is a named definition. Names are unique among undeleted workflows.
type Workflow struct {
	ID        dag.WorkflowID
	Shard     dag.ShardID
	Namespace string
	Name      string
	State     string
	Version   int32    // the version of new runs
	Latest    int32    // the newest version; it differs from Version after a rollback
	MaxRuns   int32    // the largest number of active runs, taken from Version; 0 means any number
	Tags      dag.Tags // the tags of new runs, taken from Version
	Revision  int64    // +1 at every change; used as the ETag
	Created   dag.Micros
	Modified  dag.Micros
}

// Version is one immutable version of a workflow.
type Version struct {
	Workflow dag.WorkflowID
	Version  int32
	Source   []byte // the file as it was applied
	Def      []byte // canonical form of the definition
	Graph    []byte // packed dag.Graph
	Digest   []byte // the digest of source and files: applying the same source and files makes no new version
	User     string
	Created  dag.Micros
	Files    []File // only for writes; the reads leave it empty, see the method Files
}

// File is a file of a version.
type File struct {
	Name string // slash-separated, relative
	Mode uint32 // permission bits
	Data []byte
	Size int64 // bytes; set only in a list, which has no data
}

// FileQuery selects the files of a version.
type FileQuery struct {
	Workflow dag.WorkflowID
	Version  int32
	Heads    bool // the files are read without their data
}

// Request is an answer kept under an idempotency key.
type Request struct {
	Scope   string // the verb and the object for which the key is unique
	Key     string
	Hash    []byte // hash of the request's body
	Answer  []byte
	Created dag.Micros
}

// Message is a message from one shard to another: the sender's transaction writes it, the receiver's
// transaction consumes it.
type Message struct {
	ID      int64
	From    dag.ShardID
	To      dag.ShardID
	Payload []byte
	Created dag.Micros
}

// Handler is one process that owns shards or runs attempts, from its start to its end.
type Handler struct {
	ID      dag.HandlerID
	UUID    string
	Node    string // stable name of the node
	Started dag.Micros
}

// PublicID returns the name of a handler for people and programs. It is computed from the uuid by SHA-256,
// and has the form of a UUID. The uuid itself is never shown, because it proves that a call comes from the
// worker (record 046).
func PublicID(handler string) string {
	if handler == "" {
		return ""
	}
	return uuid.NewHash(sha256.New(), uuid.Nil, []byte(handler), 8).String()
}

// Acquired is the result of taking a shard.
type Acquired struct {
	Fence
	Now dag.Micros // the store's clock
	// Previous is the owner before this one, or 0 if there was none.
	Previous  dag.HandlerID
	Watermark dag.Micros // see ScheduleChanges
}

// RunRecord is a run with its rows.
type RunRecord struct {
	Run      dag.RunRow
	Attempts []dag.AttemptRow // sorted by task, then token
	// Bad is the reason why the rows could not be read. If it is set, only Run.ID is valid. A damaged row
	// must not prevent that other runs are loaded.
	Bad error
}

// LoadQuery selects runs for their owner. If IDs is not nil, it selects these runs. Otherwise it selects the
// next Limit unfinished runs of the shard after the run After.
type LoadQuery struct {
	Shard dag.ShardID
	IDs   []dag.RunID
	After dag.RunID
	Limit int
	// Moving leaves out the runs that wait in a line and need not be in memory; see dag.Claim.Aside.
	Moving bool
}

// AttemptQuery selects attempts of one run, by task, then token.
type AttemptQuery struct {
	Run  dag.RunID
	Task dag.TaskID // only with One
	One  bool
	// Token, which is used only with One, is the newest attempt of the task. A store may stop reading where
	// it finds the end of that attempt. It is 0 if the caller does not know the newest attempt.
	Token   dag.Token
	Outputs bool // bring outputs
	// Sparing leaves out the attempts that an engine may keep in the run's history, because reading the
	// history takes longer. Such an attempt has only been assigned, or has plainly succeeded
	// (dag.AttemptUpdate). It is always the first attempt of its task.
	Sparing bool
}

// ByTask orders attempts by task, then token: the order of Attempts.
func ByTask(a, b dag.AttemptRow) int {
	return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Token, b.Token))
}

// WorkflowQuery selects workflows by namespace and name. After is a cursor from Next.
type WorkflowQuery struct {
	Namespace string   // "" means all
	Not       string   // a namespace that the list leaves out; "" means no namespace
	After     string   // "namespace/name"
	Tags      dag.Tags // only workflows that have all of these tags
	Limit     int
}

// Fits reports whether a workflow has the tags of the query.
func (q *WorkflowQuery) Fits(w *Workflow) bool {
	for tag := range q.Tags.Lines() {
		if !w.Tags.Has(tag) {
			return false
		}
	}
	return true
}

// Info describes a database.
type Info struct {
	Engine   string // "sqlite", "postgres", "memory"
	Location string
	Cluster  string // a UUID, made with the database
	// Isolation is the level of isolation of tasks that require none, on workers whose setting leaves it to
	// the database. It is IsolationNew, or "" in a database that was made before format 39 (SQLite) or 49
	// (PostgreSQL), because an upgrade changes the level of no task.
	Isolation string
	Format    int // the format that every program which uses the database must know
	Known     int // the newest that this program knows
	Shards    int
	Bytes     int64
}

// IsolationNew is Info.Isolation of a new database.
const IsolationNew = "fence"

// Stager is a Store that can do a part of the work of a commit while the commit before it is in progress.
type Stager interface {
	// Stage announces a batch. The batch will be committed after all batches that were staged or committed
	// before it. The engine may write it already, but no reader sees it before Commit. One goroutine may call
	// Stage while another calls Commit. The caller must not change the batch until it is committed or
	// unstaged.
	Stage(b *Batch)
	// Unstage announces that no staged batch will be committed. No commit may be in progress.
	Unstage()
}

// Mortal is a store that can fail permanently (ErrLost) before it is closed. The cause may be the write of
// another caller.
type Mortal interface {
	// Lost is closed when the store has failed permanently.
	Lost() <-chan struct{}
}

// Upgrader is a Store that completes the work that a migration has begun. It does so in small steps, while
// the store is in use.
type Upgrader interface {
	// Upgrade does the next step, and reports whether there are more steps. Several nodes may call it at
	// once.
	Upgrade(ctx context.Context) (more bool, err error)
}

// Writer is the part of a store with which an owner works on its shards.
type Writer interface {
	// Acquire takes shards for a handler, even if they have an owner: each gets epoch + 1. It waits for the open
	// transaction of a previous owner.
	Acquire(ctx context.Context, owner dag.HandlerID, shards []dag.ShardID) ([]Acquired, error)
	// Commit writes a batch durably, as a whole or not at all, and returns the store's clock. It returns
	// ErrFenced if a fence or a guard misses, and ErrRefused if the store refuses the content. If both apply,
	// it returns one of the two errors. After a commit, the fences of the next batch must have Seq + 1.
	// Commit does not change the batch: its fences keep their Seq, and its events get no Seq. After
	// ErrUnavailable it may be called again with the same batch.
	//
	// An update writes the state of a row. It changes neither the header of a run, nor the generation and
	// assignment of an attempt, nor the shard, name and creation of a workflow. A run without FinishedAt is
	// unfinished.
	//
	// Commit need not detect faults that no caller makes: attempts and events of runs that do not exist; a
	// second end of a run within one generation; overlapping lines of one trigger; a trigger that listens to
	// the same workflow twice; triggers of a deleted workflow; triggers and backfills of a shard without a
	// fence in the batch.
	Commit(ctx context.Context, b *Batch) (dag.Micros, error)
	// Load reads runs for their owner. It leaves out unknown ids. With IDs it ignores Shard and the states
	// of the runs. Outputs of attempts are included only if they are small enough to be kept in memory (64
	// KiB).
	Load(ctx context.Context, q LoadQuery) ([]RunRecord, error)
	// Register records a process and returns its number.
	Register(ctx context.Context, uuid, node string) (Handler, error)
	// Messages reads the messages for a shard, oldest first.
	Messages(ctx context.Context, to dag.ShardID, limit int) ([]Message, error)
}

// Reader is the part of a store that reads runs and describes the store.
type Reader interface {
	// Run returns the row of a run.
	Run(ctx context.Context, id dag.RunID) (dag.RunRow, error)
	// Runs reads a page of runs, the newest first. An engine orders them by id or by acceptance. A run that
	// exists while all pages of a query are read is on exactly one of them.
	Runs(ctx context.Context, q RunQuery) (RunPage, error)
	// Attempts reads attempts of a run, in the order of ByTask, including those that have no row of their
	// own.
	Attempts(ctx context.Context, q AttemptQuery) ([]dag.AttemptRow, error)
	// Events reads a run's history in order, after a seq. A run has at most one row per transaction (a batch
	// with two is refused), so a reader that continues after the seq of its last row misses none.
	Events(ctx context.Context, run dag.RunID, after int64, limit int) ([]dag.EventRow, error)
	// Handlers reads handlers by their numbers. It leaves out unknown ones.
	Handlers(ctx context.Context, ids []dag.HandlerID) ([]Handler, error)
	// Request returns the answer that is stored under an idempotency key.
	Request(ctx context.Context, scope, key string) (Request, error)
	// Scan passes every run with its rows and events to a function, in one read snapshot.
	Scan(ctx context.Context, see func(RunRecord, []dag.EventRow) error) error
	// Info describes the store. Its cost does not grow with the number of rows.
	Info(ctx context.Context) (Info, error)
	// Unfinished counts the unfinished runs by state. It reads each run.
	Unfinished(ctx context.Context) (map[string]int, error)
}

// Catalog is the part of a store that reads workflows and their versions.
type Catalog interface {
	// Workflow finds a workflow by its name. Workflow and Workflows leave out deleted ones.
	Workflow(ctx context.Context, namespace, name string) (Workflow, error)
	// WorkflowByID finds a workflow by its number, even a deleted one.
	WorkflowByID(ctx context.Context, id dag.WorkflowID) (Workflow, error)
	// Workflows lists workflows, ordered by namespace and name.
	Workflows(ctx context.Context, q WorkflowQuery) ([]Workflow, error)
	// Version returns one version of a workflow, without its files.
	Version(ctx context.Context, w dag.WorkflowID, version int32) (Version, error)
	// Versions lists versions, the newest first, without sources, definitions and graphs.
	Versions(ctx context.Context, w dag.WorkflowID, before int32, limit int) ([]Version, error)
	// Files reads a version's files, ordered by name.
	Files(ctx context.Context, q FileQuery) ([]File, error)
}

// Store keeps the rows. All methods may be called from any goroutine. Each writer calls Commit from one
// goroutine, and has one transaction in flight. Capabilities holds the parts that not every engine has.
//
// For all methods:
//
//   - A method that returns one row returns ErrNotFound if there is none. A list of something unknown is
//     empty.
//   - A limit of 0 or less gives up to 1,000 rows.
//   - A text is UTF-8 without NUL, and a value has at most 64 MiB; anything else is refused. Texts compare by
//     bytes. The texts of Header.Fire are bytes, like the parameters of a run.
//   - A nil blob of a run or an attempt comes back nil. An empty one may come back nil.
type Store interface {
	Writer
	Reader
	Catalog
	Keys
	Schedules
	Tokens
	Access
	Sessions
	Secrets
	Classes
	Claims
	Sweeps
	Eras
	AuditLog
	Alerts
	Namespaces
	Tallies
	Traces
	Outside
	Close() error
}
