package notify

import (
	"context"
	"time"

	"skein.dev/skein/internal/store"
)

// Call returns a function that sends one and the same message through a channel at each call.
func Call(s *Sender, row *store.AlertChannel) func(context.Context) error {
	msg := testMessage(row.Namespace, row.Name, "ann", "0199", time.Now())
	return func(ctx context.Context) error { return s.through(ctx, row, msg) }
}
