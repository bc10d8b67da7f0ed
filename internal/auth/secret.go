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

// prefix makes a token that lies where it should not easy to find.
const prefix = "skein_"

// randomBytes is what cannot be guessed; sumBytes behind them catch what was cut or mistyped,
// so that rubbish costs no look into the store.
const (
	randomBytes = 32
	sumBytes    = 4
)

// ErrSecret is a text that was never a token.
var ErrSecret = errors.New("this is no token of Skein: it begins with skein_ and is copied as a whole")

// NewSecret makes what the holder of a token of a kind shows. It is seen once, here.
func NewSecret(kind string) string {
	b := make([]byte, randomBytes, randomBytes+sumBytes)
	rand.Read(b)
	return prefix + kind + "_" + base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

// HashSecret is what is stored of a secret. It has so much chance in it that one round is enough.
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
