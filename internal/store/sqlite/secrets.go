package sqlite

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/store"
)

var _ store.Secrets = (*DB)(nil)

// errNoChange ends a transaction that would change nothing.
var errNoChange = errors.New("no change")

// secrets implements store.Secrets for the database that embeds it.
type secrets struct{ d *DB }

// PutSecret implements store.Secrets.
func (e secrets) PutSecret(ctx context.Context, s store.Secret) (store.Secret, error) {
	d := e.d
	n := 0
	err := changeNoted(ctx, d, "change of secrets", func() (err error) {
		n, err = d.stmts.putSecret.row().text(s.Namespace).text(s.Name).int(s.Version).text(s.Key).blob(s.Wrapped).blob(s.Data).
			text(s.By).int(int64(wall())).int(store.SecretsMax).exec(d.conn)
		if err == nil && n == 0 {
			err = errNoChange
		}
		return err
	})
	if err != nil && !errors.Is(err, errNoChange) {
		return s, err
	}
	is, err := e.SecretOf(ctx, s.Namespace, s.Name)
	switch {
	case n > 0:
		return is, err
	case errors.Is(err, store.ErrNotFound) && s.Version == 1:
		if key, err := e.SecretKey(ctx); err != nil || key.ID == s.Key {
			return s, errors.Join(err, fmt.Errorf("there are already %d secrets, the limit: %w", store.SecretsMax, store.ErrRefused))
		}
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return s, err
	}
	return s, fmt.Errorf("secret %s/%s: %w", s.Namespace, s.Name, store.ErrFenced)
}

// RewrapSecret implements store.Secrets.
func (e secrets) RewrapSecret(ctx context.Context, s store.Secret, from string) error {
	// Re-encrypting a secret for a new key has no separate audit row.
	return e.one(store.WithAudit(ctx, nil), store.ErrFenced, s.Name, func() (int, error) {
		return e.d.stmts.rewrapSecret.row().text(s.Namespace).text(s.Name).int(s.Version).text(from).text(s.Key).blob(s.Wrapped).exec(e.d.conn)
	})
}

// DropSecret implements store.Secrets.
func (e secrets) DropSecret(ctx context.Context, namespace, name string) error {
	return e.one(ctx, store.ErrNotFound, name, func() (int, error) {
		return e.d.stmts.dropSecret.row().text(namespace).text(name).exec(e.d.conn)
	})
}

// SecretOf implements store.Secrets.
func (e secrets) SecretOf(ctx context.Context, namespace, name string) (store.Secret, error) {
	return first(e.d, ctx, "secret", []any{namespace, name}, scanSecret)
}

// SecretList implements store.Secrets.
func (e secrets) SecretList(ctx context.Context, namespace, name string, limit int) ([]store.Secret, error) {
	return list(e.d, ctx, "secrets", []any{namespace, name, int64(limit)}, scanSecret)
}

// SecretKey implements store.Secrets.
func (e secrets) SecretKey(ctx context.Context) (store.SecretKey, error) {
	is, err := first(e.d, ctx, "secretKey", nil, func(s *sqlite.Stmt, k *store.SecretKey) error {
		r := row{s: s}
		k.ID, k.Since = r.text(), r.micros()
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return store.SecretKey{}, nil
	}
	return is, err
}

// SetSecretKey implements store.Secrets.
func (e secrets) SetSecretKey(ctx context.Context, id, instead string) error {
	return e.one(ctx, store.ErrFenced, id, func() (int, error) {
		return e.d.stmts.setSecretKey.row().text(id).text(instead).int(int64(wall())).exec(e.d.conn)
	})
}

// one makes a change and returns an error of the given kind if it changed no row.
func (e secrets) one(ctx context.Context, kind error, which string, change func() (int, error)) error {
	return changeNoted(ctx, e.d, "change of secrets", func() error {
		n, err := change()
		if err == nil && n == 0 {
			err = fmt.Errorf("secret %s: %w", which, kind)
		}
		return err
	})
}

func scanSecret(s *sqlite.Stmt, one *store.Secret) error {
	c := row{s: s}
	one.Namespace, one.Name, one.Version, one.Key, one.Wrapped, one.Data = c.text(), c.text(), c.int(), c.text(), c.blob(), c.blob()
	one.By, one.Created, one.Modified = c.text(), c.micros(), c.micros()
	return nil
}
