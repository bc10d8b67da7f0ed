package sqlite

import (
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

// StageNow is Stage that returns when the batch is written ahead, if it can be.
func (d *DB) StageNow(b *store.Batch) {
	d.handed.Stage(b, packed.HandPacker{Hands: true, Ends: true, History: packed.Tells(b)})
	a, _ := d.stages.add(b)
	d.writeAhead(a)
}
