package app

import (
	"context"
	"errors"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/sealed"
	"skein.dev/skein/internal/store"
)

// bookOf returns the secrets of a database.
func bookOf(cfg *config.Config, st store.Secrets) *sealed.Book {
	file, made := cfg.SecretKey()
	return &sealed.Book{Store: st, File: file, Own: made}
}

// checkSecretKey says whether this node has the key of the secrets.
func checkSecretKey(ctx context.Context, cfg *config.Config, st store.Secrets) Check {
	c := Check{Name: "secrets", State: CheckGood}
	is, err := bookOf(cfg, st).Check(ctx)
	switch {
	case errors.Is(err, sealed.ErrKey):
		c.State, c.Found, c.Remedy = CheckBad, err.Error(), "give this node the file with key "+is.ID+": --secret-key-file FILE; tasks that use a secret fail here until then"
	case err != nil:
		c.State, c.Found = CheckWarn, err.Error()
	case is.ID == "":
		c.Found = "there is none yet"
	default:
		c.Found = "sealed with key " + is.ID + ", which this node has"
	}
	return c
}

// sayKey warns if this node lacks the key of the secrets.
func (n *Node) sayKey(ctx context.Context) {
	if is, err := bookOf(n.cfg, n.store).Check(ctx); errors.Is(err, sealed.ErrKey) {
		n.log.Warn("this node lacks the key of the secrets; tasks that use a secret fail here", "code", "secret_key_missing", "key", is.ID, "err", err)
	}
}
