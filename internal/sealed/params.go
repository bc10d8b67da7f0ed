package sealed

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"

	"skein.dev/skein/internal/secret"
	"skein.dev/skein/internal/store"
)

// Parameters of the type secret are sealed with a key of their namespace. That key is itself a secret of the
// namespace. So a change of the database's key seals only that key again, and does not change the runs.
// People and tasks can neither read nor set it.

// paramsName is the name of that secret.
const paramsName = "__params"

// ParamPrefix is the prefix of a sealed parameter.
const ParamPrefix = "sealed:1:"

// Reserved reports whether a name belongs to Skein itself. Lists leave out such names.
func Reserved(name string) bool { return name == paramsName || strings.HasPrefix(name, hookPrefix) }

// SealParam seals the value of a parameter, for this parameter of this workflow only. The same value gives
// the same text, so that a repeated start can be recognized.
func (b *Book) SealParam(ctx context.Context, namespace, workflow, name string, value []byte) (string, error) {
	if err := secret.CheckValue(value); err != nil {
		return "", refuse("%v", err)
	}
	key, err := b.paramKey(ctx, namespace)
	if errors.Is(err, ErrNotFound) {
		if err = b.makeParamKey(ctx, namespace); err == nil {
			key, err = b.paramKey(ctx, namespace)
		}
	}
	if err != nil {
		return "", err
	}
	aead, err := chacha20poly1305.NewX(derived(key, "seal", nil))
	if err != nil {
		return "", err
	}
	of := paramOf(namespace, workflow, name)
	nonce := derived(key, "nonce", append(append([]byte{}, of...), value...))[:aead.NonceSize()]
	return ParamPrefix + base64.RawURLEncoding.EncodeToString(aead.Seal(nonce, nonce, value, of)), nil
}

// OpenParam returns the value that SealParam has sealed.
func (b *Book) OpenParam(ctx context.Context, namespace, workflow, name, text string) ([]byte, error) {
	rest, is := strings.CutPrefix(text, ParamPrefix)
	sealed, err := base64.RawURLEncoding.DecodeString(rest)
	if !is || err != nil || len(sealed) < chacha20poly1305.NonceSizeX {
		return nil, fmt.Errorf("parameter %s is not sealed", name)
	}
	key, err := b.paramKey(ctx, namespace)
	if errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("parameter %s: the key of namespace %s no longer exists: start a new run with the value", name, namespace)
	}
	if err != nil {
		return nil, err
	}
	aead, err := chacha20poly1305.NewX(derived(key, "seal", nil))
	if err != nil {
		return nil, err
	}
	nonce, data := sealed[:chacha20poly1305.NonceSizeX], sealed[chacha20poly1305.NonceSizeX:]
	value, err := aead.Open(nil, nonce, data, paramOf(namespace, workflow, name))
	if err != nil {
		return nil, fmt.Errorf("parameter %s: the sealed value belongs to another parameter, or is damaged", name)
	}
	return value, nil
}

// paramOf returns a text that identifies a parameter. No part can contain the separator.
func paramOf(namespace, workflow, name string) []byte {
	return []byte(namespace + "\x00" + workflow + "\x00" + name + "\x00")
}

// derived derives a key of 32 bytes from a key, for one use.
func derived(key []byte, use string, of []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(use + "\x00"))
	h.Write(of)
	return h.Sum(nil)
}

func (b *Book) paramKey(ctx context.Context, namespace string) ([]byte, error) {
	value, _, err := b.value(ctx, Name{namespace, paramsName})
	return value, err
}

// makeParamKey makes the key of a namespace, unless there is one.
func (b *Book) makeParamKey(ctx context.Context, namespace string) error {
	ctx = store.WithAudit(ctx, nil) // the row of the run is the audit record of the start
	value := make([]byte, chacha20poly1305.KeySize)
	_, _ = rand.Read(value)
	for range triesMax {
		key, err := b.present(ctx)
		if err != nil {
			return err
		}
		s := store.Secret{Namespace: namespace, Name: paramsName, Version: 1, Key: key.ID(), By: "skein"}
		if s.Wrapped, s.Data, err = key.Seal(sealName(&s), value); err != nil {
			return err
		}
		_, err = b.Store.PutSecret(ctx, s)
		if errors.Is(err, store.ErrFenced) { // another caller has made it, or the key of the database has changed
			if _, err = b.Store.SecretOf(ctx, namespace, paramsName); errors.Is(err, store.ErrNotFound) {
				continue
			}
		}
		if errors.Is(err, store.ErrRefused) {
			return fmt.Errorf("%w: a database has at most %d: delete one", ErrFull, store.SecretsMax)
		}
		return err
	}
	return fmt.Errorf("the key of the parameters of namespace %s: %w: try again", namespace, ErrBusy)
}
