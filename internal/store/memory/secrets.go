package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"skein.dev/skein/internal/store"
)

var _ store.Secrets = (*Store)(nil)

// secrets implements store.Secrets for the store that embeds it.
type secrets struct {
	s   *Store
	key store.SecretKey
	all []store.Secret // sorted by namespace and name
}

func (e *secrets) at(namespace, name string) (int, bool) {
	return slices.BinarySearchFunc(e.all, store.Secret{Namespace: namespace, Name: name}, compareSecrets)
}

func compareSecrets(a, b store.Secret) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func (e *secrets) change(ctx context.Context, change func() error) error {
	return e.s.write(ctx, Op{Kind: SecretsBefore}, SecretsAfter, e.s.noted(ctx, change))
}

// PutSecret implements store.Secrets.
func (e *secrets) PutSecret(ctx context.Context, one store.Secret) (store.Secret, error) {
	err := e.change(ctx, func() error {
		i, there := e.at(one.Namespace, one.Name)
		one.Created, one.Modified = e.s.clock(), e.s.clock()
		was := int64(0)
		if there {
			was, one.Created = e.all[i].Version, e.all[i].Created
		}
		switch {
		case one.Key != e.key.ID || one.Version != was+1:
			return fmt.Errorf("secret %s/%s: %w", one.Namespace, one.Name, store.ErrFenced)
		case !there && len(e.all) >= store.SecretsMax:
			return fmt.Errorf("there are already %d secrets, the limit: %w", store.SecretsMax, store.ErrRefused)
		}
		one.Wrapped, one.Data = bytes.Clone(one.Wrapped), bytes.Clone(one.Data)
		if there {
			e.all[i] = one
			return nil
		}
		e.all = slices.Insert(e.all, i, one)
		return nil
	})
	return one, err
}

// RewrapSecret implements store.Secrets.
func (e *secrets) RewrapSecret(ctx context.Context, one store.Secret, from string) error {
	return e.change(store.WithAudit(ctx, nil), func() error { // a step of a change of keys
		i, there := e.at(one.Namespace, one.Name)
		if !there || e.all[i].Version != one.Version || e.all[i].Key != from {
			return fmt.Errorf("secret %s/%s: %w", one.Namespace, one.Name, store.ErrFenced)
		}
		e.all[i].Key, e.all[i].Wrapped = one.Key, bytes.Clone(one.Wrapped)
		return nil
	})
}

// DropSecret implements store.Secrets.
func (e *secrets) DropSecret(ctx context.Context, namespace, name string) error {
	return e.change(ctx, func() error {
		i, there := e.at(namespace, name)
		if !there {
			return fmt.Errorf("secret %s/%s: %w", namespace, name, store.ErrNotFound)
		}
		e.all = slices.Delete(e.all, i, i+1)
		return nil
	})
}

// SecretOf implements store.Secrets.
func (e *secrets) SecretOf(ctx context.Context, namespace, name string) (one store.Secret, err error) {
	err = e.s.read(ctx, Read, func() error {
		i, there := e.at(namespace, name)
		if !there {
			return fmt.Errorf("secret %s/%s: %w", namespace, name, store.ErrNotFound)
		}
		one = e.all[i]
		return nil
	})
	return one, err
}

// SecretList implements store.Secrets.
func (e *secrets) SecretList(ctx context.Context, namespace, name string, limit int) (some []store.Secret, err error) {
	err = e.s.read(ctx, Read, func() error {
		i, there := e.at(namespace, name)
		if there {
			i++
		}
		some = slices.Clone(e.all[i:min(len(e.all), i+limit)])
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
