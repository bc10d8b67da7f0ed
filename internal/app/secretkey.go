package app

import (
	"context"
	"errors"
	"path/filepath"

	"skein.dev/skein/internal/sealed"
	"skein.dev/skein/internal/store"
)

// secretKeySetting names the file with the keys of the secrets.
func secretKeySetting() setting {
	return setting{name: "secret_key_file", def: text(""), credential: "secret-key",
		set: func(c *Config, v string) error { return setPath(&c.SecretKeyFile, v) }}
}

// secretKeyFile is where a node on SQLite keeps the key that it makes for its secrets.
func secretKeyFile(data string) string { return filepath.Join(data, "access", "secret.key") }

// book returns the secrets of a database.
func (c *Config) book(st store.Secrets) *sealed.Book {
	b := &sealed.Book{Store: st, File: c.SecretKeyFile}
	if b.File == "" && c.Postgres == "" {
		b.File, b.Own = secretKeyFile(c.Data), true
	}
	return b
}

// checkSecretKey says whether this node has the key of the secrets.
func checkSecretKey(ctx context.Context, cfg *Config, st store.Secrets) Check {
	c := Check{Name: "secrets", State: CheckGood}
	is, err := cfg.book(st).Check(ctx)
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
	if is, err := n.cfg.book(n.store).Check(ctx); errors.Is(err, sealed.ErrKey) {
		n.log.Warn("this node lacks the key of the secrets; tasks that use a secret fail here", "code", "secret_key_missing", "key", is.ID, "err", err)
	}
}
