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

// Info describes one stored file.
type Info struct {
	Name   string `json:"name"` // relative, with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // SHA-256 of the content, in hexadecimal
}

// Store stores artifacts. Any goroutine may call its methods.
type Store interface {
	// Begin begins to store the artifacts of an attempt. None of them is visible before Commit.
	Begin(ctx context.Context, ref Ref) (Deposit, error)
	// List returns the artifacts of an attempt, by name. It returns fs.ErrNotExist if there are none.
	List(ctx context.Context, ref Ref) ([]Info, error)
	// Open opens a file. It returns fs.ErrNotExist if there is no file with this name.
	Open(ctx context.Context, ref Ref, name string) (Reader, Info, error)
	// Used returns the size of the stored artifacts of a run.
	Used(ctx context.Context, run Run) (Usage, error)
	// Delete deletes all artifacts of these runs. Artifacts that do not exist are no error.
	Delete(ctx context.Context, runs []Run) error
}

// Usage is an amount of artifacts.
type Usage struct {
	Files int
	Bytes int64
}

// ErrFinal means that the attempt has already committed other files. ErrKept means that it has already
// committed the same files: the caller missed the first answer, and may treat ErrKept as success.
var (
	ErrFinal = errors.New("other files of this attempt are kept already, and kept files are final")
	ErrKept  = errors.New("these files of this attempt are kept already")
)

// Deposit receives the files of one attempt. A call of Commit or Discard ends it.
type Deposit interface {
	// Add stores a file. Each name is added at most once.
	Add(name string, content io.Reader) (Info, error)
	// Commit makes all added files visible at once, durably. A second Commit for an attempt returns ErrFinal
	// for other files, and ErrKept for the same files. Both leave the committed files unchanged.
	Commit() error
	// Discard removes all added files. After Commit it does nothing.
	Discard()
}

// Reader reads a stored file.
type Reader interface {
	io.ReaderAt
	io.Closer
}
