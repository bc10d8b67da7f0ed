package identity

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// A provider announces with a logout token that a session of a person, or all of them, have ended at the
// provider (OpenID Connect Back-Channel Logout 1.0).

const (
	// logoutEvent is the claim that distinguishes a logout token.
	logoutEvent = "http://schemas.openid.net/event/backchannel-logout"
	// logoutAge bounds the age of a logout token. The time of a token may also be in the future by at most
	// logoutAge.
	logoutAge = 2 * time.Minute
	// LogoutBytesMax bounds the body of a logout, in bytes.
	LogoutBytesMax = 16 << 10
	// logoutsMax bounds the number of remembered logout tokens. If a provider sends more within logoutAge,
	// further ones are refused. The provider can send them again later.
	logoutsMax = 10_000
)

// logouts remembers the accepted logout tokens of a provider, so that this node accepts none twice.
type logouts struct {
	mu   sync.Mutex           // protects the following field
	seen map[string]time.Time // identifier → the time at which the token is too old
}

// take remembers a token. It reports whether the token is new, and whether there was room for the token.
func (l *logouts) take(id string, until, now time.Time) (fresh, room bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if end, known := l.seen[id]; known && end.After(now) {
		return false, true
	}
	if len(l.seen) >= logoutsMax {
		for id, end := range l.seen {
			if !end.After(now) {
				delete(l.seen, id)
			}
		}
	}
	if len(l.seen) >= logoutsMax {
		return true, false
	}
	if l.seen == nil {
		l.seen = map[string]time.Time{}
	}
	l.seen[id] = until
	return true, true
}

// forget permits a token to be accepted again, because it had no effect.
func (l *logouts) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seen, id)
}

// Ended says which sessions have ended at a provider: a session of the person, or all of them. At least one
// of the fields is not "".
type Ended struct {
	Subject string // the person; "" if the provider names only the session
	Session string // the session, as in Person; "" stands for all of the person
}

// sessionOf returns the name of a provider's session: a hash of its claim sid and of the issuer, because
// another provider may use the same values. It returns "" for no claim.
func (p *Provider) sessionOf(sid string) string {
	if sid == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(p.of.Issuer + "\n" + sid))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Logout verifies a logout token, and calls end with the sessions that have ended. This node accepts each
// token once. If end returns an error, the provider may send the token again.
func (p *Provider) Logout(ctx context.Context, token string, end func(Ended) error) error {
	d, err := p.describe(ctx)
	if err != nil {
		return err
	}
	bad := func(err error) error {
		return refuse(BadLogout, "the logout token is not one of the identity provider %s for this server", p.of.Name).because(err)
	}
	is, err := d.verifier.Verify(p.with(ctx), token)
	if err != nil {
		return bad(err)
	}
	var said struct {
		ID     string                     `json:"jti"`
		Events map[string]json.RawMessage `json:"events"`
		Nonce  json.RawMessage            `json:"nonce"`
		SID    string                     `json:"sid"`
	}
	now := time.Now()
	if err := is.Claims(&said); err != nil {
		return bad(err)
	}
	event := map[string]json.RawMessage{}
	switch age := now.Sub(is.IssuedAt); {
	case !logoutType(token):
		err = errors.New("it is a token of another type")
	case json.Unmarshal(said.Events[logoutEvent], &event) != nil:
		err = errors.New("its claim events contains no logout event")
	case said.Nonce != nil:
		err = errors.New("it has a nonce, so it is an ID token")
	case age > logoutAge || age < -logoutAge:
		err = fmt.Errorf("it was issued at %s", is.IssuedAt.UTC().Format(time.RFC3339))
	case said.ID == "" || len(said.ID) > textMax:
		err = errors.New("it has no jti, or one that is too long")
	case is.Subject == "" && said.SID == "":
		err = errors.New("it has neither sub nor sid; let the provider send one of them")
	case len(is.Subject) > textMax:
		err = fmt.Errorf("its sub has %d bytes, and at most %d are allowed", len(is.Subject), textMax)
	}
	if err != nil {
		return bad(err)
	}
	fresh, room := p.logouts.take(said.ID, is.IssuedAt.Add(logoutAge), now)
	switch {
	case !fresh:
		return bad(errors.New("it was used before"))
	case !room:
		return p.away(errors.New("it sends more logouts than this server remembers"))
	}
	if err := end(Ended{is.Subject, p.sessionOf(said.SID)}); err != nil {
		p.logouts.forget(said.ID)
		return err
	}
	return nil
}

// logoutType reports whether the header of a verified token permits a logout token.
func logoutType(token string) bool {
	head, _, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(head)
	var is struct {
		Type string `json:"typ"`
	}
	if err != nil || json.Unmarshal(text, &is) != nil {
		return false
	}
	switch strings.ToLower(is.Type) {
	case "", "jwt", "logout+jwt", "application/logout+jwt":
		return true
	}
	return false
}
