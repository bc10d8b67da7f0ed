package app

import (
	"context"
	"errors"

	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/sealed"
)

// sayKey logs a warning if this node does not have the key of the secrets.
func (n *Node) sayKey(ctx context.Context) {
	if is, err := dbadmin.Secrets(n.cfg, n.store).Check(ctx); errors.Is(err, sealed.ErrKey) {
		n.log.Warn("this node lacks the key of the secrets; tasks that use a secret fail here; name its file with --secret-key-file", "code", "secret_key_missing", "key", is.ID, "err", err)
	}
}
