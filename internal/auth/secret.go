package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
)

// prefix is the beginning of every token. It makes a leaked token easy to find.
const prefix = "skein_"

// randomBytes is the number of random bytes. sumBytes is the length of the checksum behind them. It reveals
// a cut or mistyped token without a reading of the store.
const (
	randomBytes = 32
	sumBytes    = 4
)

// ErrSecret is returned for a text that is not a token.
var ErrSecret = errors.New("this is not a token of Skein; copy the whole token, which begins with skein_")

// NewSecret makes the secret of a token of a kind. It is shown only once.
func NewSecret(kind string) string {
	b := make([]byte, randomBytes, randomBytes+sumBytes)
	rand.Read(b)
	return prefix + kind + "_" + base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

// HashSecret returns the stored form of a secret. The secret is random enough that one round of hashing
// suffices.
func HashSecret(secret string) ([]byte, error) {
	sum, err := hashSecret(secret)
	if err != nil {
		return nil, err
	}
	return sum[:], nil
}

// hashSecret does the same without an allocation, because each call shows a secret.
func hashSecret(secret string) (sum [sha256.Size]byte, err error) {
	rest, ok := strings.CutPrefix(secret, prefix)
	_, text, kinded := strings.Cut(rest, "_")
	var b [randomBytes + sumBytes]byte
	if !ok || !kinded || len(text) != base64.RawURLEncoding.EncodedLen(len(b)) {
		return sum, ErrSecret
	}
	n, err := base64.RawURLEncoding.Decode(b[:], []byte(text))
	if err != nil || n != len(b) || binary.BigEndian.Uint32(b[randomBytes:]) != crc32.ChecksumIEEE(b[:randomBytes]) {
		return sum, ErrSecret
	}
	return sha256.Sum256([]byte(secret)), nil
}
