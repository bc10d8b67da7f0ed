package inspect

import (
	"context"

	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/tally"
)

// Tally passes the rows of the tally that a query selects to the function see. counted reports whether ended
// runs are counted.
func (l *Ledger) Tally(ctx context.Context, q store.TallyQuery, see func(*store.TallyRow) error) (counted bool, err error) {
	return l.store.TallyStands(), errkind.FromStore("read the tally", tally.Rows(ctx, l.store, q, see))
}
