package store

import (
	"context"

	"skein.dev/skein/internal/dag"
)

// Secret is a sealed value that tasks of a namespace use by its name. The store has neither the value nor the
// key that opens it.
type Secret struct {
	Namespace, Name string
	Version         int64  // version of the value, from 1
	Key             string // the id of the key with which Wrapped is sealed
	Wrapped         []byte // the key of the value, sealed
	Data            []byte // the value, sealed with the key of the value
	By              string // the user who set it last
	Created         dag.Micros
	Modified        dag.Micros
}

// SecretsMax bounds the secrets of a database.
const SecretsMax = 10_000

// SecretKey identifies the key with which new secrets are sealed.
type SecretKey struct {
	ID    string // "" if there is no key yet
	Since dag.Micros
}

// Secrets is the part of a store that keeps sealed secrets. They belong to no shard.
type Secrets interface {
	// PutSecret adds or replaces a secret. The store sets the times. It returns ErrFenced unless the version
	// follows the present one and Key is the present key, and ErrRefused if there are SecretsMax secrets.
	PutSecret(ctx context.Context, s Secret) (Secret, error)
	// RewrapSecret replaces Key and Wrapped of a version. It returns ErrFenced if the secret has another
	// version, or if its Key is another one than the parameter from.
	RewrapSecret(ctx context.Context, s Secret, from string) error
	// DropSecret removes a secret. It returns ErrNotFound if there is none.
	DropSecret(ctx context.Context, namespace, name string) error
	// SecretOf returns a secret, or ErrNotFound.
	SecretOf(ctx context.Context, namespace, name string) (Secret, error)
	// SecretList lists at most limit secrets after the given name, ordered by namespace and name.
	SecretList(ctx context.Context, namespace, name string, limit int) ([]Secret, error)
	// SecretKey returns the present key.
	SecretKey(ctx context.Context) (SecretKey, error)
	// SetSecretKey makes id the present key. The caller names the key that id replaces. If another key is
	// present, SetSecretKey returns ErrFenced.
	SetSecretKey(ctx context.Context, id, instead string) error
}
