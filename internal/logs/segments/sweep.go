package segments

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"skein.dev/skein/internal/blob"
)

const (
	// strayMax is the age from which segments of a deleted run are deleted.
	strayMax = 7 * 24 * time.Hour
	// pagesMax bounds the number of pages that one Sweep reads.
	pagesMax = 2
)

// Sweeper deletes segments of deleted runs.
type Sweeper struct {
	s *Store

	mu    sync.Mutex // held during a Sweep
	after string     // the next Sweep continues here
}

// NewSweeper returns a Sweeper that begins at the first run.
func NewSweeper(s *Store) *Sweeper { return &Sweeper{s: s} }

// Sweep deletes segments of deleted runs. Each call examines a part of the objects, and the next call
// continues there.
func (w *Sweeper) Sweep(ctx context.Context, gone func(ctx context.Context, run string) (bool, error)) error {
	return w.sweep(ctx, time.Now(), gone)
}

func (w *Sweeper) sweep(ctx context.Context, now time.Time, gone func(ctx context.Context, run string) (bool, error)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	after, last := w.after, ""
	for range pagesMax {
		page, err := w.s.blobs.List(ctx, root, after, blob.PageMax)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for i := range page {
			after = page[i].Key
			parts := strings.SplitN(page[i].Key, "/", 5)
			if len(parts) < 5 || now.Sub(page[i].Modified) < strayMax {
				continue
			}
			prefix := runFolder(parts[1], parts[2], parts[3])
			if prefix == last {
				continue
			}
			last = prefix
			is, err := gone(ctx, parts[3])
			if err == nil && is {
				err = w.s.deleteBelow(ctx, prefix)
			}
			errs = append(errs, err)
		}
		if len(page) < blob.PageMax {
			after = ""
			break
		}
	}
	w.after = after
	return errors.Join(errs...)
}
