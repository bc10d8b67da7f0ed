// Package logs keeps the output of attempts where every node of a cluster can read it.
//
// The file that a worker writes stays the first copy: it is complete, and fastest where it is. A Shipper on
// each node sends the new bytes of its files to a Store about once a second, so a lost machine loses the
// output of its last second. A Store is the database or a shared folder, with one file for each log. The node
// or worker with the file may serve what a Store has cut off: see Whole.
//
// Logs are not part of a run's state: no task waits for them, and the engine does not read them.
package logs

import (
	"context"
	"errors"
	"io"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/logindex"
	"skein.dev/skein/internal/store"
)

// ErrUnknown says that there is no such attempt.
var ErrUnknown = errors.New("there is no such attempt")

// Ref identifies the log of one attempt. Namespace, Workflow and Name are for people only.
type Ref struct {
	Namespace, Workflow string
	Run                 dag.RunID
	Task                dag.TaskID
	Name                string // the name of the task
	Token               dag.Token
}

// ID is the part of a Ref that identifies the log.
func (r *Ref) ID() store.LogID { return store.LogID{Run: r.Run, Task: r.Task, Token: r.Token} }

// Chunk is a stretch of a log, as it was printed.
type Chunk struct {
	Ref
	Offset int64 // the offset of the first byte
	Data   []byte
	Cut    bool // the bytes between the end of the stored log and Offset will never arrive
}

// Run names a run for Delete.
type Run struct {
	Namespace, Workflow string
	ID                  dag.RunID
}

// Store keeps logs. Its methods may be called from any goroutine.
type Store interface {
	// Append adds chunks at the ends of their logs. It returns for each chunk where its log ends now, or -1
	// if there is no such attempt. A chunk that does not begin at the end changes nothing; the sender
	// continues from the returned end, also after an error or a restart. Bytes that are stored are never
	// overwritten, and each token has a log of its own. So a node may forward chunks of a remote worker
	// without knowing what came before.
	Append(ctx context.Context, chunks []Chunk) ([]int64, error)
	// Open finds a log; fs.ErrNotExist: nothing of it has arrived.
	Open(ctx context.Context, ref Ref) (Reader, error)
	// Delete deletes all logs of runs. It is no error if they are gone already.
	Delete(ctx context.Context, runs []Run) error
	// Keep is the number of bytes of a log that are kept, its last ones; 0 means all.
	Keep() int64
}

// Reader reads a log that may still grow. Only one goroutine may use it.
type Reader interface {
	io.ReaderAt
	io.Closer
	// Size is the present end of the log.
	Size() (int64, error)
	// First returns the offset at which a reading begins: the wanted offset, or the first byte that is kept, if
	// that is later.
	First(at int64) int64
}

// Indexed is a Reader whose log may have an index (package logindex) next to it.
type Indexed interface {
	// Index returns the records of the index. The caller must check them: they may be damaged, or end before the
	// log does.
	// fs.ErrNotExist: there is none.
	Index() ([]byte, error)
	// PutIndex stores the records of a log that has ended.
	PutIndex(records []byte) error
}

// IndexMax bounds the bytes of an index that are read: enough for a log of 16 GiB.
const IndexMax = 16 << 30 / logindex.Block * logindex.RecordSize
