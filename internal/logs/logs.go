// Package logs stores the output of attempts so that every node of a cluster can read it.
//
// The first copy is the file that a worker writes. It is complete, and the fastest to read on its machine. A
// Shipper on each node sends the new bytes of its files to a Store about once a second, so if a machine is
// lost, only the output of its last second is lost. A Store is the database, or a shared folder with one file
// for each log. The node or worker with the file can serve the bytes that a Store no longer has: see Whole.
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

// ErrUnknown means that there is no such attempt.
var ErrUnknown = errors.New("there is no such attempt")

// Ref identifies the log of one attempt. Namespace, Workflow and Name are for people only.
type Ref struct {
	Namespace, Workflow string
	Run                 dag.RunID
	Task                dag.TaskID
	Name                string // the name of the task
	Token               dag.Token
}

// ID returns the part of a Ref that identifies the log.
func (r *Ref) ID() store.LogID { return store.LogID{Run: r.Run, Task: r.Task, Token: r.Token} }

// Chunk is a part of a log, as it was printed.
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

// Store stores logs. Any goroutine may call its methods.
type Store interface {
	// Append adds chunks at the ends of their logs. For each chunk it returns the new end of the log, or -1
	// if there is no such attempt. A chunk that does not begin at the end of its log changes nothing. The
	// sender continues at the returned end, also after an error or a restart. Stored bytes are never
	// overwritten, and each token has its own log. So a node may forward chunks of a remote worker without
	// knowing the earlier ones.
	Append(ctx context.Context, chunks []Chunk) ([]int64, error)
	// Open opens a log. It returns fs.ErrNotExist if no part of the log has arrived.
	Open(ctx context.Context, ref Ref) (Reader, error)
	// Delete deletes all logs of runs. Logs that do not exist are no error.
	Delete(ctx context.Context, runs []Run) error
	// Keep returns the number of the last bytes of a log that are stored. 0 means all.
	Keep() int64
}

// Reader reads a log that may still grow. Only one goroutine may use it.
type Reader interface {
	io.ReaderAt
	io.Closer
	// Size returns the present end of the log.
	Size() (int64, error)
	// First returns the offset at which a read begins. It is the wanted offset or, if that is no longer
	// stored, the first stored offset.
	First(at int64) int64
}

// Indexed is a Reader that can have an index (package logindex) of its log.
type Indexed interface {
	// Index returns the records of the index. The caller must check them, because they may be damaged, or end
	// before the log. It returns fs.ErrNotExist if there is no index.
	Index() ([]byte, error)
	// PutIndex stores the records of an ended log.
	PutIndex(records []byte) error
}

// IndexMax bounds the bytes of an index that are read. It is enough for a log of 16 GiB.
const IndexMax = 16 << 30 / logindex.Block * logindex.RecordSize
