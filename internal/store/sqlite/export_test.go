package sqlite

import (
	"skein.dev/skein/internal/store"
)

// StageNow calls Stage, and returns when the batch is written ahead, if it can be.
func (d *DB) StageNow(b *store.Batch) {
	d.handed.Stage(b, stagePacker(b))
	a, _ := d.stages.add(b)
	d.writeAhead(a)
}
