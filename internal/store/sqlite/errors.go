package sqlite

import (
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/store"
)

// translate gives a driver's error a kind, by its code, and a sentence with what was
// tried. Errors that have a kind keep it.
func translate(doing string, err error) error {
	if err == nil {
		return nil
	}
	for _, kind := range []error{store.ErrFormat, store.ErrFenced, store.ErrRefused, store.ErrUnavailable, store.ErrNotFound, store.ErrUnknown, store.ErrCorrupt} {
		if errors.Is(err, kind) {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	kind := store.ErrUnavailable
	switch code := sqlite.ErrCode(err); code.ToPrimary() {
	case sqlite.ResultConstraint, sqlite.ResultTooBig, sqlite.ResultMismatch, sqlite.ResultRange:
		kind = store.ErrRefused
	case sqlite.ResultFull:
		kind = store.ErrFull
	case sqlite.ResultNotADB, sqlite.ResultCorrupt:
		kind = store.ErrFormat
	}
	return fmt.Errorf("%s: %w: %w", doing, kind, err)
}
