package auth

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/netip"
	"strings"
	"time"
	"unicode"

	"skein.dev/skein/internal/store"
)

// The names of the session cookie. A browser accepts the first one only over TLS and only from the host
// itself, so no neighbouring host can set it.
const (
	cookieTLS   = "__Host-skein"
	cookiePlain = "skein"
)

// Secure reports whether a person's connection uses TLS, to this node or to a proxy that says so. A caller
// that claims TLS without a proxy changes only its own cookie.
func Secure(tls bool, forwardedProto string) bool {
	return tls || strings.EqualFold(forwardedProto, "https")
}

func secure(r *http.Request) bool { return Secure(r.TLS != nil, r.Header.Get("X-Forwarded-Proto")) }

func cookieName(secure bool) string {
	if secure {
		return cookieTLS
	}
	return cookiePlain
}

// SessionCookie returns the header that stores a session in a browser. With an empty secret, the header
// deletes the cookie. The path is / even under a base path: the prefix of the name requires it, and a path
// keeps no page of the same host away from the cookie.
func SessionCookie(secret string, secure bool) string {
	c := http.Cookie{Name: cookieName(secure), Value: secret, Path: "/", HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
		MaxAge: int(time.Duration(store.SessionMax) * time.Microsecond / time.Second)}
	if secret == "" {
		c.MaxAge = -1
	}
	return c.String()
}

// cookieOf returns the session secret of a request. It is "" if the request has several cookies of that
// name, because another host may have set one of them.
func cookieOf(r *http.Request, secure bool) string {
	all := r.CookiesNamed(cookieName(secure))
	if len(all) != 1 {
		return ""
	}
	return all[0].Value
}

var (
	errForeign = errors.New("another origin")
	errMedia   = errors.New("another media type")
)

// crossOrigin stops pages of other origins from using a browser's session.
var crossOrigin = http.NewCrossOriginProtection()

// ownPage refuses a change by a session if a page of another origin or a form could have sent it.
func ownPage(r *http.Request) error {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return nil
	}
	if err := crossOrigin.Check(r); err != nil {
		return fmt.Errorf("%w: only this server's own page may make changes with a session", errForeign)
	}
	if r.ContentLength == 0 {
		return nil
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" && media != "application/yaml" {
		return fmt.Errorf("%w: a change with a session needs Content-Type: application/json or application/yaml", errMedia)
	}
	return nil
}

// AddressOf returns the address of the caller of a request as a text, without the port.
func AddressOf(r *http.Request) string { return addressText(r.RemoteAddr) }

// addressText returns the address of a caller without its port.
func addressText(remote string) string {
	a, err := netip.ParseAddrPort(remote)
	if err != nil {
		return ""
	}
	return a.Addr().Unmap().WithZone("").String()
}

// printable removes the characters that a terminal must not get.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, text)
}
