package sealed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"

	"skein.dev/skein/internal/atomicfile"
	"skein.dev/skein/internal/secret"
	"skein.dev/skein/internal/store"
)

// Errors of a Book. Their texts name the remedy, and never contain a value.
var (
	// ErrNotFound means that there is no such secret.
	ErrNotFound = errors.New("no such secret")
	// ErrInvalid means that a text is no valid name or value of a secret.
	ErrInvalid = errors.New("not valid")
	// ErrKey means that this node does not have the key of the secrets.
	ErrKey = errors.New("the key of the secrets is missing")
	// ErrFull means that the maximum number of secrets is reached.
	ErrFull = errors.New("there are too many secrets")
	// ErrBusy means that other callers changed the same secret, or the key, at the same time.
	ErrBusy = errors.New("it is being changed by another caller")
)

// Bounds of values, in bytes.
const (
	ValueMin = secret.ValueMin
	ValueMax = secret.ValueMax
)

// triesMax bounds how often a change is repeated because another change came first.
const triesMax = 10

var nameOK = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)

// IsName reports whether a text can be the name of a secret.
func IsName(name string) bool { return nameOK.MatchString(name) && !Reserved(name) }

// Book keeps secrets.
type Book struct {
	Store store.Secrets
	// File is the path of the file of keys. The file is read at each use, so that a change needs no restart.
	// The path is "" if the node has no file.
	File string
	// Own is true if the node makes the file when the first secret is set. Otherwise people make the file,
	// with the same content for every node.
	Own bool

	rotating sync.Mutex // protects changes of the file
}

// Set sets the value of a secret.
func (b *Book) Set(ctx context.Context, namespace, name string, value []byte, by string) (store.Secret, error) {
	if err := check(name, value); err != nil {
		return store.Secret{}, err
	}
	for range triesMax {
		key, err := b.present(ctx)
		if err != nil {
			return store.Secret{}, err
		}
		is, err := b.Store.SecretOf(ctx, namespace, name)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return is, err
		}
		next := store.Secret{Namespace: namespace, Name: name, Version: is.Version + 1, Key: key.ID(), By: by}
		if next.Wrapped, next.Data, err = key.Seal(sealName(&next), value); err != nil {
			return next, err
		}
		next, err = b.Store.PutSecret(ctx, next)
		switch {
		case errors.Is(err, store.ErrFenced):
			continue
		case errors.Is(err, store.ErrRefused):
			return next, fmt.Errorf("%w: a database has at most %d: delete one", ErrFull, store.SecretsMax)
		}
		return next, err
	}
	return store.Secret{}, fmt.Errorf("secret %s/%s: %w: try again", namespace, name, ErrBusy)
}

// Name is the name of a secret.
type Name struct{ Namespace, Name string }

// Change replaces the value of a secret by the result of change. old is nil if there is no secret. If
// another caller changes the secret at the same time, change is called again with the new value. Change
// writes nothing if the value stays the same.
func (b *Book) Change(ctx context.Context, at Name, by string, change func(old []byte) ([]byte, error)) ([]byte, error) {
	return b.change(ctx, at, by, func(old []byte) ([]byte, error) {
		value, err := change(old)
		if err == nil && (old == nil || !bytes.Equal(value, old)) {
			err = check(at.Name, value)
		}
		return value, err
	})
}

// change does the work of Change. The name and the values must be valid.
func (b *Book) change(ctx context.Context, at Name, by string, change func(old []byte) ([]byte, error)) ([]byte, error) {
	for range triesMax {
		old, version, err := b.value(ctx, at)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		value, err := change(old)
		if err != nil || old != nil && bytes.Equal(value, old) {
			return value, err
		}
		key, err := b.present(ctx)
		if err != nil {
			return nil, err
		}
		next := store.Secret{Namespace: at.Namespace, Name: at.Name, Version: version + 1, Key: key.ID(), By: by}
		if next.Wrapped, next.Data, err = key.Seal(sealName(&next), value); err != nil {
			return nil, err
		}
		_, err = b.Store.PutSecret(ctx, next)
		switch {
		case err == nil:
			return value, nil
		case errors.Is(err, store.ErrRefused):
			return nil, fmt.Errorf("%w: a database has at most %d: delete one", ErrFull, store.SecretsMax)
		case !errors.Is(err, store.ErrFenced):
			return nil, err
		}
	}
	return nil, fmt.Errorf("secret %s/%s: %w: try again", at.Namespace, at.Name, ErrBusy)
}

// refused is an ErrInvalid with its own text.
type refused struct{ text string }

func (r *refused) Error() string { return r.text }
func (r *refused) Unwrap() error { return ErrInvalid }

func refuse(reason string, values ...any) error { return &refused{fmt.Sprintf(reason, values...)} }

func check(name string, value []byte) error {
	if !IsName(name) {
		return refuse("%.100q cannot be the name of a secret: it is 1 to 100 of A-Z a-z 0-9 _, and does not begin with a digit", name)
	}
	if err := secret.CheckValue(value); err != nil {
		return refuse("%v", err)
	}
	return nil
}

// sealName returns the name under which a version of a secret is sealed. No part can contain the separator.
func sealName(s *store.Secret) string {
	return s.Namespace + "\x00" + s.Name + "\x00" + strconv.FormatInt(s.Version, 10)
}

// Value returns the present value of a secret, and its version.
func (b *Book) Value(ctx context.Context, namespace, name string) ([]byte, int64, error) {
	if Reserved(name) {
		return nil, 0, fmt.Errorf("%w %s/%s: the name belongs to Skein", ErrNotFound, namespace, name)
	}
	return b.value(ctx, Name{namespace, name})
}

// value returns the present value of a secret. The secret may belong to Skein itself.
func (b *Book) value(ctx context.Context, at Name) ([]byte, int64, error) {
	value, version, err := b.read(ctx, at.Namespace, at.Name)
	if errors.Is(err, ErrKey) { // a change of keys may have ended between the two reads
		return b.read(ctx, at.Namespace, at.Name)
	}
	return value, version, err
}

func (b *Book) read(ctx context.Context, namespace, name string) ([]byte, int64, error) {
	s, err := b.Store.SecretOf(ctx, namespace, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, 0, fmt.Errorf("%w %s/%s: set it with: skein secret set %s/%s", ErrNotFound, namespace, name, namespace, name)
	}
	if err != nil {
		return nil, 0, err
	}
	keys, err := b.keys()
	if err != nil {
		return nil, 0, err
	}
	key, err := b.find(keys, s.Key)
	if err != nil {
		return nil, 0, err
	}
	value, err := key.Open(sealName(&s), s.Wrapped, s.Data)
	if err != nil {
		return nil, 0, fmt.Errorf("secret %s/%s: %w: set it again", namespace, name, err)
	}
	return value, s.Version, nil
}

// Delete removes a secret.
func (b *Book) Delete(ctx context.Context, namespace, name string) error {
	err := store.ErrNotFound
	if !Reserved(name) {
		err = b.Store.DropSecret(ctx, namespace, name)
	}
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%w %s/%s", ErrNotFound, namespace, name)
	}
	return err
}

// Check returns an error if this node lacks the present key. It also returns nil if there is no secret yet.
func (b *Book) Check(ctx context.Context) (store.SecretKey, error) {
	is, err := b.Store.SecretKey(ctx)
	if err != nil || is.ID == "" {
		return is, err
	}
	keys, err := b.keys()
	if err == nil {
		_, err = b.find(keys, is.ID)
	}
	return is, err
}

// keys reads the file of keys.
func (b *Book) keys() ([]secret.Key, error) {
	if b.File == "" {
		return nil, fmt.Errorf("%w: all nodes of a cluster need the same key file: make it once with: openssl rand -base64 32 > FILE; "+
			"chmod 600 FILE; and give the same file to every node: --secret-key-file FILE", ErrKey)
	}
	text, err := secret.File(b.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no file %s: restore it from your copy of the key; a backup of the database does not contain it: %w", ErrKey, b.File, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrKey, b.File, err)
	}
	keys, err := secret.ParseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrKey, b.File, err)
	}
	return keys, nil
}

// find returns the key with an id.
func (b *Book) find(keys []secret.Key, id string) (secret.Key, error) {
	for _, k := range keys {
		if k.ID() == id {
			return k, nil
		}
	}
	return secret.Key{}, fmt.Errorf("%w: the secrets are sealed with key %s, and %s holds other keys: restore the file that holds it", ErrKey, id, b.File)
}

// present returns the key that seals new secrets. The first use of a key makes it the present one.
func (b *Book) present(ctx context.Context) (secret.Key, error) {
	for range triesMax {
		is, err := b.Store.SecretKey(ctx)
		if err != nil {
			return secret.Key{}, err
		}
		keys, err := b.keys()
		if is.ID != "" {
			if err != nil {
				return secret.Key{}, err
			}
			return b.find(keys, is.ID)
		}
		if b.Own && errors.Is(err, fs.ErrNotExist) {
			if err = b.write(secret.NewKey() + "\n"); errors.Is(err, fs.ErrExist) {
				continue // another call has made the key
			}
			if err == nil {
				keys, err = b.keys()
			}
		}
		if err != nil {
			return secret.Key{}, err
		}
		last := keys[len(keys)-1]
		if err = b.Store.SetSecretKey(firstKey(ctx, last.ID()), last.ID(), ""); err == nil {
			return last, nil
		}
		if !errors.Is(err, store.ErrFenced) {
			return secret.Key{}, err
		}
	}
	return secret.Key{}, fmt.Errorf("the key of the secrets: %w: try again", ErrBusy)
}

// firstKey returns a context with an audit row for the first key. The secret that caused Skein to make the
// key has its own audit row.
func firstKey(ctx context.Context, id string) context.Context {
	row := store.AuditIn(ctx)
	if row == nil {
		return ctx
	}
	of := *row
	of.Detail = "key " + id + " seals secrets from now on"
	return store.WithAudit(ctx, &of)
}

// write makes the file of keys, which only this user can read. It returns fs.ErrExist if the file exists.
func (b *Book) write(text string) error {
	err := os.MkdirAll(filepath.Dir(b.File), 0o700)
	if err == nil {
		err = atomicfile.Create(b.File, []byte(text), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the key of the secrets: %w", err)
	}
	return nil
}

// replace replaces the keys in the file.
func (b *Book) replace(text string) error {
	err := os.MkdirAll(filepath.Dir(b.File), 0o700)
	if err == nil {
		err = atomicfile.Write(b.File, []byte(text), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the keys of the secrets: %w", err)
	}
	return nil
}
