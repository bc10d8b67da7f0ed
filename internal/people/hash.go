package people

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
	"golang.org/x/text/unicode/norm"
)

// cost is the cost of one hash.
type cost struct {
	memoryKiB, rounds uint32
	lanes             uint8
}

// present is the cost of new hashes. A hash with another cost is replaced at the next sign-in.
var present = cost{memoryKiB: 19 << 10, rounds: 2, lanes: 1}

const (
	saltBytes = 16
	sumBytes  = 32
	// The bounds of the cost of a stored hash. A row that was changed by hand must not use up the node's memory.
	memoryMaxKiB = 256 << 10
	roundsMax    = 16
	lanesMax     = 4
)

var errHash = errors.New("the stored hash is not one of argon2id; set the password again: skein user passwd NAME")

// hash returns the PHC text of a password.
func hash(password string, c cost) string {
	salt := make([]byte, saltBytes)
	rand.Read(salt)
	sum := sumOf(password, salt, c, sumBytes)
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, c.memoryKiB, c.rounds, c.lanes,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(sum))
}

// matches reports whether a hash belongs to a password. It also returns the cost of the hash.
func matches(password, phc string) (same bool, c cost, err error) {
	c, salt, sum, err := parse(phc)
	if err != nil {
		return false, c, err
	}
	return subtle.ConstantTimeCompare(sumOf(password, salt, c, len(sum)), sum) == 1, c, nil
}

// sumOf returns the hash of a password. It first converts the password to the normal form of RFC 8265, so
// that the hash does not depend on the keyboard.
func sumOf(password string, salt []byte, c cost, size int) []byte {
	return argon2.IDKey(norm.NFC.Bytes([]byte(password)), salt, c.rounds, c.memoryKiB, c.lanes, uint32(size))
}

// parse reads a PHC text.
func parse(phc string) (c cost, salt, sum []byte, err error) {
	parts := strings.Split(phc, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return c, nil, nil, errHash
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &c.memoryKiB, &c.rounds, &c.lanes); err != nil {
		return c, nil, nil, errHash
	}
	salt, err = base64.RawStdEncoding.DecodeString(parts[4])
	if err == nil {
		sum, err = base64.RawStdEncoding.DecodeString(parts[5])
	}
	switch {
	case err != nil, len(salt) < 8, len(salt) > 64, len(sum) < 16, len(sum) > 64,
		c.memoryKiB < 8, c.memoryKiB > memoryMaxKiB, c.rounds < 1, c.rounds > roundsMax, c.lanes < 1, c.lanes > lanesMax:
		return c, nil, nil, errHash
	}
	return c, salt, sum, nil
}
