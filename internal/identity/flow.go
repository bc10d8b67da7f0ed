package identity

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// FlowLife bounds the time between the click in the page and the answer of the provider.
const FlowLife = 10 * time.Minute

// backMax bounds the path to which a sign-in returns, in bytes; the cookie holds it.
const backMax = 1500

// flow is a sign-in under way. The browser stores it in a cookie, so every node can continue it. Every value
// that the provider gets is derived from the secret, the name of the provider and the address of the answer.
// So the cookie of one provider does not match an answer of another provider. The cookie is not sealed,
// because the browser may know its content.
type flow struct {
	secret  string
	expires int64 // Unix seconds
	back    string
}

func newFlow(back string, now time.Time) flow {
	b := make([]byte, 32)
	rand.Read(b)
	if len(back) > backMax {
		back = "/"
	}
	return flow{base64.RawURLEncoding.EncodeToString(b), now.Add(FlowLife).Unix(), back}
}

// cookie returns the value of the cookie.
func (f flow) cookie() string {
	return fmt.Sprintf("%s.%d.%s", f.secret, f.expires, base64.RawURLEncoding.EncodeToString([]byte(f.back)))
}

// flowOf reads the value of a cookie.
func flowOf(cookie string, now time.Time) (f flow, ok bool) {
	parts := strings.Split(cookie, ".")
	if len(parts) != 3 {
		return f, false
	}
	secret, err := base64.RawURLEncoding.DecodeString(parts[0])
	if err != nil || len(secret) != 32 {
		return f, false
	}
	expires, err := strconv.ParseInt(parts[1], 10, 64)
	left := time.Unix(expires, 0).Sub(now)
	if err != nil || left <= 0 || left > FlowLife {
		return f, false
	}
	back, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || len(back) > backMax {
		return f, false
	}
	return flow{parts[0], expires, string(back)}, true
}

// value derives a value that cannot be guessed without the secret.
func (f flow) value(what, provider, redirect string) string {
	m := hmac.New(sha256.New, []byte(f.secret))
	fmt.Fprintf(m, "%s\n%s\n%d\n%s", what, provider, f.expires, redirect)
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}
