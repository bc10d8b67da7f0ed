package memory

import (
	"bytes"
	"context"
	"fmt"

	"skein.dev/skein/internal/store"
)

var _ store.Secrets = (*Store)(nil)

// secrets implements store.Secrets for the store that embeds it.
type secrets struct {
	s   *Store
	key store.SecretKey
	all named[store.Secret]
}

func newSecrets(s *Store) secrets {
	return secrets{s: s, all: named[store.Secret]{what: "secret", of: func(n *store.Secret) (string, string) { return n.Namespace, n.Name }}}
}

func (e *secrets) change(ctx context.Context, change func() error) error {
	return e.s.write(ctx, Op{Kind: SecretsBefore}, SecretsAfter, e.s.noted(ctx, change))
}

// PutSecret implements store.Secrets.
func (e *secrets) PutSecret(ctx context.Context, one store.Secret) (store.Secret, error) {
	err := e.change(ctx, func() error {
		old, missing := e.all.get(one.Namespace, one.Name)
		one.Created, one.Modified = e.s.clock(), e.s.clock()
		if missing == nil {
			one.Created = old.Created
		}
		switch {
		case one.Key != e.key.ID || one.Version != old.Version+1:
			return fmt.Errorf("secret %s/%s: %w", one.Namespace, one.Name, store.ErrFenced)
		case missing != nil && len(e.all.rows) >= store.SecretsMax:
			return fmt.Errorf("there are already %d secrets, the limit: %w", store.SecretsMax, store.ErrRefused)
		}
		one.Wrapped, one.Data = bytes.Clone(one.Wrapped), bytes.Clone(one.Data)
		e.all.put(one)
		return nil
	})
	return one, err
}

// RewrapSecret implements store.Secrets.
func (e *secrets) RewrapSecret(ctx context.Context, one store.Secret, from string) error {
	// Re-encrypting a secret for a new key has no separate audit row.
	return e.change(store.WithAudit(ctx, nil), func() error {
		is, missing := e.all.get(one.Namespace, one.Name)
		if missing != nil || is.Version != one.Version || is.Key != from {
			return fmt.Errorf("secret %s/%s: %w", one.Namespace, one.Name, store.ErrFenced)
		}
		is.Key, is.Wrapped = one.Key, bytes.Clone(one.Wrapped)
		e.all.put(is)
		return nil
	})
}

// DropSecret implements store.Secrets.
func (e *secrets) DropSecret(ctx context.Context, namespace, name string) error {
	return e.change(ctx, func() error { return e.all.drop(namespace, name) })
}

// SecretOf implements store.Secrets.
func (e *secrets) SecretOf(ctx context.Context, namespace, name string) (one store.Secret, err error) {
	err = e.s.read(ctx, Read, func() (err error) {
		one, err = e.all.get(namespace, name)
		return err
	})
	return one, err
}

// SecretList implements store.Secrets.
func (e *secrets) SecretList(ctx context.Context, namespace, name string, limit int) (some []store.Secret, err error) {
	err = e.s.read(ctx, Read, func() error {
		some = e.all.after(namespace, name, limit)
		return nil
	})
	return some, err
}

// SecretKey implements store.Secrets.
func (e *secrets) SecretKey(ctx context.Context) (key store.SecretKey, err error) {
	err = e.s.read(ctx, Read, func() error {
		key = e.key
		return nil
	})
	return key, err
}

// SetSecretKey implements store.Secrets.
func (e *secrets) SetSecretKey(ctx context.Context, id, instead string) error {
	return e.change(ctx, func() error {
		if e.key.ID != instead {
			return fmt.Errorf("the key of secrets is %s: %w", e.key.ID, store.ErrFenced)
		}
		e.key = store.SecretKey{ID: id, Since: e.s.clock()}
		return nil
	})
}
