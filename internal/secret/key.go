package secret

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"
)

// ErrSeal says that sealed bytes cannot be opened: they were changed, or belong to another name or key.
var ErrSeal = errors.New("the sealed bytes do not open: they were changed, or belong to another secret")

const (
	// keyBytes is the size of a key.
	keyBytes = 32
	// keysMax bounds the keys of a file: the present one, the next one, and some old ones.
	keysMax = 8
	// idBytes is the length of the part of a digest that names a key. This name is no secret.
	idBytes = 8
)

// Key seals secrets. It is never in the database.
type Key struct {
	id   string
	aead cipher.AEAD
}

// NewKey returns the text of a new key.
func NewKey() string {
	var key [keyBytes]byte
	_, _ = rand.Read(key[:]) // rand.Read never fails
	return base64.StdEncoding.EncodeToString(key[:])
}

// ParseKeys reads the keys of a file: one a line, each 32 random bytes in base64.
func ParseKeys(text []byte) (keys []Key, err error) {
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		raw, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(raw) != keyBytes { // the error would show a part of the line
			return nil, fmt.Errorf("key %d is not %d bytes in base64: make one with: openssl rand -base64 %d", len(keys)+1, keyBytes, keyBytes)
		}
		k, err := newKey(raw)
		if err != nil {
			return nil, err
		}
		if keys = append(keys, k); len(keys) > keysMax {
			return nil, fmt.Errorf("there are more than %d keys", keysMax)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("it contains no key")
	}
	return keys, nil
}

func newKey(raw []byte) (k Key, err error) {
	id, err := hkdf.Expand(sha256.New, raw, "skein secrets: id", idBytes)
	if err != nil {
		return k, err
	}
	wrap, err := hkdf.Expand(sha256.New, raw, "skein secrets: wrap", chacha20poly1305.KeySize)
	if err != nil {
		return k, err
	}
	k.id = hex.EncodeToString(id)
	k.aead, err = chacha20poly1305.NewX(wrap)
	return k, err
}

// ID names the key. It says nothing about the key itself.
func (k Key) ID() string { return k.id }

// Seal seals a value with a new key, and seals that new key with this key. The value opens only for the same
// name.
func (k Key) Seal(name string, value []byte) (wrapped, data []byte, err error) {
	var own [chacha20poly1305.KeySize]byte
	_, _ = rand.Read(own[:])
	aead, err := chacha20poly1305.NewX(own[:])
	if err != nil {
		return nil, nil, err
	}
	return box(k.aead, "key", name, own[:]), box(aead, "value", name, value), nil
}

// Open returns the value of Seal, or ErrSeal.
func (k Key) Open(name string, wrapped, data []byte) ([]byte, error) {
	own, err := open(k.aead, "key", name, wrapped)
	if err != nil {
		return nil, err
	}
	aead, err := chacha20poly1305.NewX(own)
	if err != nil {
		return nil, ErrSeal
	}
	return open(aead, "value", name, data)
}

// Rewrap seals the key of a value with another key. The sealed value stays as it is.
func (k Key) Rewrap(name string, wrapped []byte, with Key) ([]byte, error) {
	own, err := open(k.aead, "key", name, wrapped)
	if err != nil {
		return nil, err
	}
	return box(with.aead, "key", name, own), nil
}

// box seals bytes: a random nonce, then the ciphertext.
func box(aead cipher.AEAD, what, name string, plain []byte) []byte {
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	_, _ = rand.Read(nonce)
	return aead.Seal(nonce, nonce, plain, []byte(what+"\x00"+name))
}

func open(aead cipher.AEAD, what, name string, sealed []byte) ([]byte, error) {
	if len(sealed) < aead.NonceSize() {
		return nil, ErrSeal
	}
	plain, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], []byte(what+"\x00"+name))
	if err != nil {
		return nil, ErrSeal
	}
	return plain, nil
}
