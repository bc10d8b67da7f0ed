package objects

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"skein.dev/skein/internal/artifact"
)

// deliveriesMax bounds the number of attempts whose artifacts are written at the same time.
const deliveriesMax = 4

// Delivery moves the artifacts of this machine's attempts to a store, from the folder in which the keeper of
// the attempts has stored them.
type Delivery struct {
	to    *Store
	from  artifact.Folder
	log   *slog.Logger
	turns chan struct{}
}

// NewDelivery returns a delivery from a folder.
func NewDelivery(to *Store, from artifact.Folder, log *slog.Logger) *Delivery {
	return &Delivery{to: to, from: from, log: log, turns: make(chan struct{}, deliveriesMax)}
}

// Waiting reports whether artifacts of an attempt wait for their delivery.
func (d *Delivery) Waiting(ref artifact.Ref) bool {
	_, err := d.from.List(context.Background(), ref)
	return !errors.Is(err, fs.ErrNotExist)
}

// Deliver moves the artifacts of an attempt to the store. If it returns an error other than the cause of ctx,
// the store has none of them. It removes them from the folder, unless ctx has ended.
func (d *Delivery) Deliver(ctx context.Context, ref artifact.Ref) error {
	select {
	case d.turns <- struct{}{}:
		defer func() { <-d.turns }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := d.to.Keep(ctx, ref, d.from)
	if ctx.Err() == nil {
		d.Forget(ref)
	}
	return err
}

// Forget removes the artifacts of an attempt from the folder.
func (d *Delivery) Forget(ref artifact.Ref) {
	if err := d.from.Forget(ref); err != nil {
		d.log.Warn("delivered artifacts cannot be removed from this machine", "code", "artifacts_left", "run", ref.ID, "task", ref.Task, "err", err)
	}
}

// Clean removes the local artifacts of runs without an attempt on this node, because no delivery needs them
// any more. It is called before attempts begin.
func (d *Delivery) Clean(here map[string]bool) {
	runs, _ := filepath.Glob(filepath.Join(d.from.Path, "artifacts", "*", "*", "*")) // the only possible error is a wrong pattern
	for _, at := range runs {
		if here[filepath.Base(at)] {
			continue
		}
		if err := os.RemoveAll(at); err != nil {
			d.log.Warn("artifacts of an earlier process cannot be removed", "code", "artifacts_left", "folder", at, "err", err)
		}
	}
}
