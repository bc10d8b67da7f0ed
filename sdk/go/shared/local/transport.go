package local

import (
	"net/http"
	"net/url"
	"sync"
	"time"
)

// fresh is the time for which a transport uses a record before it reads the file again.
const fresh = time.Second

// addressesMax bounds the number of addresses whose records a transport keeps.
const addressesMax = 100

// transport adds tokens to requests.
type transport struct {
	next http.RoundTripper

	mu   sync.Mutex // protects following fields
	seen map[string]found
}

type found struct {
	token, host string
	at          time.Time
}

// Transport adds a node's local token to each request to a loopback address that has no credential. A node
// makes a new token at each start. So if a request is refused and the record has changed, Transport sends the
// request again.
func Transport(next http.RoundTripper) http.RoundTripper {
	return &transport{next: next, seen: map[string]found{}}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") != "" || !Loopback(r.URL.Hostname()) {
		return t.next.RoundTrip(r)
	}
	is := t.find(r.URL, "")
	resp, err := t.next.RoundTrip(is.added(r))
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	now := t.find(r.URL, is.token)
	if now.token == "" || now.token == is.token {
		return resp, nil
	}
	again := now.added(r)
	if r.Body != nil && r.Body != http.NoBody {
		if r.GetBody == nil {
			return resp, nil // the next request has the new token
		}
		if again.Body, err = r.GetBody(); err != nil {
			return resp, nil //nolint:nilerr // no other token is known, so this answer is returned
		}
	}
	_ = resp.Body.Close()
	return t.next.RoundTrip(again)
}

// find returns the record of an address. If the node refused the token, find reads the record again.
func (t *transport) find(u *url.URL, refused string) found {
	key := u.Scheme + "://" + u.Host
	t.mu.Lock()
	defer t.mu.Unlock()
	if is, ok := t.seen[key]; ok && time.Since(is.at) < fresh && is.token != "" && is.token != refused {
		return is
	}
	is := found{at: time.Now()}
	is.token, is.host, _ = Find(u)
	if len(t.seen) >= addressesMax {
		clear(t.seen)
	}
	t.seen[key] = is
	return is
}

// added returns a copy of r with the token. Over plain HTTP, the copy is sent to the address in the record.
// If there is no token, added returns r.
func (f found) added(r *http.Request) *http.Request {
	if f.token == "" {
		return r
	}
	out := r.Clone(r.Context())
	out.Header.Set("Authorization", "Bearer "+f.token)
	if r.URL.Scheme == "http" { // with TLS, the certificate proves the identity of the server
		if out.Host == "" {
			out.Host = r.URL.Host
		}
		out.URL.Host = f.host
	}
	return out
}

// CloseIdleConnections closes the idle connections of the next transport.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
