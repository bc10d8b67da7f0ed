// Package errkind names the kinds of error that callers act on. Each protocol translates them in one table:
// the server into HTTP statuses, the command line into exit codes, node-to-node calls into Connect codes.
package errkind

import (
	"errors"
	"fmt"
	"runtime/debug"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var (
	ErrNotFound = errors.New("not found")
	ErrInvalid  = errors.New("invalid")
	// ErrNothing answers a valid request that has no effect.
	ErrNothing     = errors.New("nothing to do")
	ErrConflict    = errors.New("conflict")
	ErrBusy        = errors.New("too many submissions are waiting")
	ErrUnavailable = errors.New("unavailable")
	// ErrFull is the ErrUnavailable of a full disk.
	ErrFull = fmt.Errorf("no room on the disk: %w", ErrUnavailable)
	// ErrDamaged says that rows were changed from outside and cannot be used.
	ErrDamaged = errors.New("the stored data are damaged")
	// ErrFenced answers a report under an old token: its sender no longer holds the attempt.
	ErrFenced = errors.New("fenced")
	// ErrReplayed refuses an occurrence that came before and has no meaning here.
	ErrReplayed = errors.New("the same call came before")
	// ErrPanic is a bug or a damaged row that was found while a run was processed: the fault is in the item, and
	// not in the store.
	ErrPanic = errors.New("panic")
)

// kinds translates the errors of the store.
var kinds = []struct{ store, kind error }{
	{store.ErrNotFound, ErrNotFound},
	{store.ErrRefused, ErrInvalid},
	{store.ErrFenced, ErrUnavailable},
	{store.ErrUnknown, ErrUnavailable},
	{store.ErrFull, ErrFull},
	{store.ErrUnavailable, ErrUnavailable},
	{store.ErrFormat, ErrUnavailable},
	{store.ErrCorrupt, ErrDamaged},
	{store.ErrDamaged, ErrDamaged},
}

// FromStore gives an error of the store its kind, and adds the name of the operation. It returns nil for
// nil.
func FromStore(doing string, err error) error {
	if err == nil {
		return nil
	}
	for _, k := range kinds {
		if errors.Is(err, k.store) {
			return fmt.Errorf("%s: %w: %w", doing, k.kind, err)
		}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Told is an error whose text has a code with values, for clients that show it in another language.
type Told struct {
	Code string
	Args map[string]string
	err  error
}

// Tell gives the text of an error a code, and the names and values of its arguments.
func Tell(err error, code string, args ...string) error {
	return &Told{Code: code, Args: ArgsOf(args), err: err}
}

// ArgsOf returns the map of a list of names and values.
func ArgsOf(list []string) map[string]string {
	args := map[string]string{}
	for i := 0; i+1 < len(list); i += 2 {
		args[list[i]] = list[i+1]
	}
	return args
}

func (t *Told) Error() string { return t.err.Error() }

// Unwrap gives it the kind of its error.
func (t *Told) Unwrap() error { return t.err }

// NoRun is the ErrNotFound of a run.
func NoRun(id dag.RunID) error {
	return Tell(fmt.Errorf("run %s: %w", id, ErrNotFound), "no_run", "run", id.String())
}

// NoTask is the ErrNotFound of a task.
func NoTask(task string, id dag.RunID) error {
	return Tell(fmt.Errorf("task %s of run %s: %w", task, id, ErrNotFound), "no_task", "task", task, "run", id.String())
}

// Guarded calls f and returns a panic in it as an ErrPanic with the stack.
func Guarded(f func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", ErrPanic, p, debug.Stack())
		}
	}()
	f()
	return nil
}

// Elsewhere is the ErrUnavailable of a shard that another node owns.
type Elsewhere struct{ Shard dag.ShardID }

func (e *Elsewhere) Error() string {
	return fmt.Sprintf("shard %d belongs to another node", e.Shard)
}

// Unwrap makes it an ErrUnavailable for callers that know no other node.
func (e *Elsewhere) Unwrap() error { return ErrUnavailable }

// IsElsewhere reports whether another node has to answer, because it owns the shard.
func IsElsewhere(err error) bool {
	var e *Elsewhere
	return errors.As(err, &e)
}
