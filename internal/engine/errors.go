package engine

import (
	"errors"
	"fmt"

	"skein.dev/skein/internal/store"
)

// The kinds of error that callers act on. They meet protocols in one table each (HTTP
// status, exit code).
var (
	ErrNotFound = errors.New("not found")
	ErrInvalid  = errors.New("invalid")
	// ErrNothing answers a request that is right, but leaves nothing to do.
	ErrNothing     = errors.New("nothing to do")
	ErrConflict    = errors.New("conflict")
	ErrBusy        = errors.New("too many submissions are waiting")
	ErrUnavailable = errors.New("unavailable")
	// ErrFull is the ErrUnavailable of a full disk.
	ErrFull = fmt.Errorf("no room on the disk: %w", ErrUnavailable)
	// ErrDamaged says that rows were changed from outside and cannot be used.
	ErrDamaged = errors.New("what is stored is damaged")
	// ErrFenced answers a report under an old token: its sender holds nothing any more.
	ErrFenced = errors.New("fenced")
	// ErrReplayed refuses an occurrence that came before, and means nothing here.
	ErrReplayed = errors.New("it came before")
)

// kinds translates the store's errors into ours, once.
var kinds = []struct{ store, ours error }{
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

// fromStore wraps an error of the store with what was tried.
func fromStore(doing string, err error) error {
	if err == nil {
		return nil
	}
	for _, k := range kinds {
		if errors.Is(err, k.store) {
			return fmt.Errorf("%s: %w: %w", doing, k.ours, err)
		}
	}
	return fmt.Errorf("%s: %w", doing, err)
}
