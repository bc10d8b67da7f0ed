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
	rest, ok := strings.CutPrefix(secret, prefix)
	_, text, kinded := strings.Cut(rest, "_")
	b, err := base64.RawURLEncoding.DecodeString(text)
	if !ok || !kinded || err != nil || len(b) != randomBytes+sumBytes ||
		binary.BigEndian.Uint32(b[randomBytes:]) != crc32.ChecksumIEEE(b[:randomBytes]) {
		return nil, ErrSecret
	}
	sum := sha256.Sum256([]byte(secret))
	return sum[:], nil
}
