package app

import (
	"context"

	"skein.dev/skein/internal/dbadmin"
)

// patiently calls ask until the store answers, for as long as a start may wait for the database.
func (n *Node) patiently(ctx context.Context, ask func() error) error {
	return dbadmin.WaitFor(ctx, n.cfg, n.patient(), ask)
}
