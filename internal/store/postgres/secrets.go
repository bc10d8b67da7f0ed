package postgres

import (
	"context"
	"errors"
	"fmt"

	"skein.dev/skein/internal/store"
)

var _ store.Secrets = (*DB)(nil)

// secrets implements store.Secrets for the database that embeds it.
type secrets struct{ d *DB }

// PutSecret implements store.Secrets.
func (e secrets) PutSecret(ctx context.Context, s store.Secret) (store.Secret, error) {
	found, err := e.change(ctx, "putSecret", args{}.text(s.Namespace).text(s.Name).int8(s.Version).text(s.Key).blob(s.Wrapped).
		blob(s.Data).text(s.By).int8(store.SecretsMax))
	switch {
	case err != nil:
		return s, fmt.Errorf("secret %s/%s: %w", s.Namespace, s.Name, err)
	case len(found) > 0:
		return found[0], nil
	}
	_, err = e.SecretOf(ctx, s.Namespace, s.Name)
	switch {
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
	return e.one(store.WithAudit(ctx, nil), store.ErrFenced, "rewrapSecret", args{}.text(s.Namespace).text(s.Name).int8(s.Version).text(from).text(s.Key).blob(s.Wrapped))
}

// DropSecret implements store.Secrets.
func (e secrets) DropSecret(ctx context.Context, namespace, name string) error {
	return e.one(ctx, store.ErrNotFound, "dropSecret", args{}.text(namespace).text(name))
}

// SecretOf implements store.Secrets.
func (e secrets) SecretOf(ctx context.Context, namespace, name string) (store.Secret, error) {
	return first(ctx, e.d, query{name: "secret", args: args{}.text(namespace).text(name)}, scanSecret)
}

// SecretList implements store.Secrets.
func (e secrets) SecretList(ctx context.Context, namespace, name string, limit int) ([]store.Secret, error) {
	return list(ctx, e.d, query{name: "secrets", args: args{}.text(namespace).text(name).int8(int64(limit))}, scanSecret)
}

// SecretKey implements store.Secrets.
func (e secrets) SecretKey(ctx context.Context) (store.SecretKey, error) {
	is, err := first(ctx, e.d, query{name: "secretKey"}, scanSecretKey)
	if errors.Is(err, store.ErrNotFound) {
		return store.SecretKey{}, nil
	}
	return is, err
}

// SetSecretKey implements store.Secrets.
func (e secrets) SetSecretKey(ctx context.Context, id, instead string) error {
	if err := ended(ctx, "setSecretKey"); err != nil {
		return err
	}
	var found []store.SecretKey
	err := e.d.change(ctx, nil, notedQuery(ctx, query{"setSecretKey", args{}.text(id).text(instead), into(&found, scanSecretKey)}))
	if err == nil && len(found) == 0 {
		err = store.ErrFenced
	}
	if err != nil {
		return fmt.Errorf("set the key of secrets: %w", err)
	}
	return nil
}

// one makes a change. If no row has changed, it returns an error of the given kind.
func (e secrets) one(ctx context.Context, kind error, name string, a args) error {
	found, err := e.change(ctx, name, a)
	if err == nil && len(found) == 0 {
		err = kind
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (e secrets) change(ctx context.Context, name string, a args) (found []store.Secret, err error) {
	if err := ended(ctx, name); err != nil {
		return nil, err
	}
	err = e.d.change(ctx, nil, notedQuery(ctx, query{name, a, into(&found, scanSecret)}))
	return found, err
}

func scanSecret(r *row, s *store.Secret) error {
	s.Namespace, s.Name, s.Version, s.Key, s.Wrapped, s.Data = r.text(), r.text(), r.int(), r.text(), r.blob(), r.blob()
	s.By, s.Created, s.Modified = r.text(), r.micros(), r.micros()
	return r.damaged("secret %s/%s", s.Namespace, s.Name)
}

func scanSecretKey(r *row, k *store.SecretKey) error {
	k.ID, k.Since = r.text(), r.micros()
	return r.damaged("the key of secrets")
}
