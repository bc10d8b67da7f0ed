// Package logs keeps what attempts print where every node of a cluster can read it.
//
// The file that a worker writes stays the first copy: it is complete, and fastest where it is.
// A Shipper on each node sends what its files grow by to a Store about once a second, so what
// is lost with a machine is what was printed in its last second. A Store is the database or a
// shared folder; one file each. What a Store keeps no more may be given by who has the file: see
// Whole.
//
// Logs are not part of a run's state: nothing waits for them, and nothing of the engine reads
// them.
package logs

import (
	"context"
	"errors"
	"io"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// ErrUnknown says that there is no such attempt.
var ErrUnknown = errors.New("there is no such attempt")

// Ref names what one attempt printed. Namespace, Workflow and Name are of use to people only.
type Ref struct {
	Namespace, Workflow string
	Run                 dag.RunID
	Task                dag.TaskID
	Name                string // of the task
	Token               dag.Token
}

// ID is the part of a Ref that identifies the log.
func (r *Ref) ID() store.LogID { return store.LogID{Run: r.Run, Task: r.Task, Token: r.Token} }

// Chunk is a stretch of a log, as it was printed.
type Chunk struct {
	Ref
	Offset int64 // of its first byte
	Data   []byte
	Cut    bool // nobody will bring what lies between the log's end and Offset
}

// Run names a run for Delete.
type Run struct {
	Namespace, Workflow string
	ID                  dag.RunID
}

// Store keeps logs. Its methods may be called from any goroutine.
type Store interface {
	// Append adds chunks where their logs end, and gives for each where its log ends now, or
	// -1 if there is no such attempt. What does not begin there changes nothing: whoever sends
	// goes on from the end that it was told, also after an error or after a restart. Bytes that
	// are there are never overwritten, whoever sends them again, and each token has a log of its
	// own. So a node may pass on what a remote worker sends without knowing what came before.
	Append(ctx context.Context, chunks []Chunk) ([]int64, error)
	// Open finds a log; fs.ErrNotExist: nothing of it has arrived.
	Open(ctx context.Context, ref Ref) (Reader, error)
	// Delete deletes all logs of runs. What is gone already is no error.
	Delete(ctx context.Context, runs []Run) error
	// Keep is how many bytes of a log are kept, its last ones; 0: all.
	Keep() int64
}

// Reader reads a log that may still grow. It is of one goroutine.
type Reader interface {
	io.ReaderAt
	io.Closer
	// Size is where the log ends now.
	Size() (int64, error)
	// First is where reading can begin that was to begin at an offset: there, or at the first byte that is kept.
	First(at int64) int64
}
