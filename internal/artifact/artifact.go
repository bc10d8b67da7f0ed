package artifact

import (
	"context"
	"errors"
	"io"
)

// Ref names what one attempt left behind.
type Ref struct {
	Run
	Task    string
	Attempt int
}

// Run names a run.
type Run struct {
	Namespace, Workflow string
	ID                  string
}

// Info is one file that is kept.
type Info struct {
	Name   string `json:"name"` // relative, with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // of the content, in hexadecimal
}

// Store keeps artifacts. Its methods may be called from any goroutine.
type Store interface {
	// Begin begins the artifacts of an attempt. Nothing of them is seen before Commit.
	Begin(ctx context.Context, ref Ref) (Deposit, error)
	// List gives what an attempt left behind, by name; fs.ErrNotExist: nothing.
	List(ctx context.Context, ref Ref) ([]Info, error)
	// Open opens a file; fs.ErrNotExist: there is none of this name.
	Open(ctx context.Context, ref Ref, name string) (Reader, Info, error)
	// Used is how much is kept of a run.
	Used(ctx context.Context, run Run) (Usage, error)
	// Delete deletes all artifacts of these runs. It is no error if they are gone already.
	Delete(ctx context.Context, runs []Run) error
}

// Usage is an amount of artifacts.
type Usage struct {
	Files int
	Bytes int64
}

// ErrFinal says that the attempt has committed other files before. ErrKept says that it has committed the
// same files before: the caller missed the first answer and may treat this one as success.
var (
	ErrFinal = errors.New("other files of this attempt are kept already, and what is kept is final")
	ErrKept  = errors.New("these files of this attempt are kept already")
)

// Deposit takes the files of one attempt. One of Commit and Discard ends it.
type Deposit interface {
	// Add keeps a file; a name comes once.
	Add(name string, content io.Reader) (Info, error)
	// Commit makes everything that was added seen, durably, at once. What an attempt has committed is final: to commit
	// other files is ErrFinal, to commit the same ones is ErrKept. Both leave what is there.
	Commit() error
	// Discard leaves nothing behind. After Commit it does nothing.
	Discard()
}

// Reader reads a file that is kept.
type Reader interface {
	io.ReaderAt
	io.Closer
}
