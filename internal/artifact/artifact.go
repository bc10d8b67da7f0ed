package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

// Ref identifies the artifacts of one attempt.
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

// Path returns the path of a run's artifacts in a store, with slashes. It returns fs.ErrNotExist for names
// that no run can have.
func (r Run) Path() (string, error) {
	if err := plain(r.Namespace, r.Workflow, r.ID); err != nil {
		return "", err
	}
	return r.Namespace + "/" + r.Workflow + "/" + r.ID, nil
}

// Path returns the path of an attempt's artifacts in a store, with slashes. It returns fs.ErrNotExist for
// names that no attempt can have.
func (ref Ref) Path() (string, error) {
	run, err := ref.Run.Path()
	if err == nil {
		err = plain(ref.Task)
	}
	return run + "/" + ref.Task + "." + strconv.Itoa(ref.Attempt), err
}

// plain refuses names that no run can have, because the names may come from a request.
func plain(names ...string) error {
	for _, name := range names {
		if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, `/\`) || name[0] == '.' {
			return fmt.Errorf("name %q: %w", name, fs.ErrNotExist)
		}
	}
	return nil
}

// Info is one file that is kept.
type Info struct {
	Name   string `json:"name"` // relative, with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // SHA-256 of the content, in hexadecimal
}

// Store keeps artifacts. Its methods may be called from any goroutine.
type Store interface {
	// Begin begins the artifacts of an attempt. None of them is visible before Commit.
	Begin(ctx context.Context, ref Ref) (Deposit, error)
	// List returns the artifacts of an attempt, by name. It returns fs.ErrNotExist if there are none.
	List(ctx context.Context, ref Ref) ([]Info, error)
	// Open opens a file. It returns fs.ErrNotExist if there is none of this name.
	Open(ctx context.Context, ref Ref, name string) (Reader, Info, error)
	// Used is the size of the artifacts that are kept of a run.
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
	ErrFinal = errors.New("other files of this attempt are kept already, and kept files are final")
	ErrKept  = errors.New("these files of this attempt are kept already")
)

// Deposit takes the files of one attempt. One of Commit and Discard ends it.
type Deposit interface {
	// Add keeps a file. Each name is added at most once.
	Add(name string, content io.Reader) (Info, error)
	// Commit makes all added files visible, durably, at once. A committed attempt is final: to commit other
	// files returns ErrFinal, and to commit the same ones returns ErrKept. Both leave the committed files as
	// they are.
	Commit() error
	// Discard leaves nothing behind. After Commit it does nothing.
	Discard()
}

// Reader reads a file that is kept.
type Reader interface {
	io.ReaderAt
	io.Closer
}
