package app

import (
	"context"

	"skein.dev/skein/internal/dbadmin"
)

// patiently asks the store until it answers, for as long as a start waits.
func (n *Node) patiently(ctx context.Context, ask func() error) error {
	return dbadmin.WaitFor(ctx, n.cfg, n.patient(), ask)
}
