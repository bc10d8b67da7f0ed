package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// HeaderPrincipal says on whose behalf a node passes on a request. It counts only with its proof.
const HeaderPrincipal = "X-Skein-Principal"

// Principal is on whose behalf a node passes on a request.
type Principal struct {
	// Token is the one that the caller showed; no Kind: none, so it counts only where no token is required.
	Token store.Token
	// Digest is that of the body.
	Digest [sha256.Size]byte
}

// Channel is how nodes prove to each other that a request comes from a node, and for whom.
type Channel interface {
	// Vouch adds the proof to a request that is passed on for the caller in its context; body is its whole body.
	Vouch(r *http.Request, body []byte) error
	// Passed returns for whom a request was passed on; false: it carries no proof that counts.
	Passed(r *http.Request) (Principal, bool)
}

const (
	// passedMax is for how long a proof counts, by the clock of the store.
	passedMax = 30 * time.Second
	// keyFresh is for how long the key and the clock that were read count without another look. A look that
	// fails is repeated after keyRetry, and takes keyReadMax at most.
	keyFresh   = time.Minute
	keyRetry   = 5 * time.Second
	keyReadMax = 5 * time.Second
	// principalMax bounds the header, in bytes.
	principalMax = 4096
)

// KeyStore is where the key of the nodes is, and the clock that they share.
type KeyStore interface {
	NodeKey(ctx context.Context) ([]byte, error)
	Clock(ctx context.Context) (dag.Micros, error)
}

// KeyChannel is the Channel of nodes that share a key in their store.
type KeyChannel struct {
	store KeyStore

	mu      sync.Mutex // protects following fields
	key     []byte
	clock   dag.Micros // of the store, at that time
	read    time.Time
	tried   time.Time
	reading bool
}

// NewKeyChannel reads the key.
func NewKeyChannel(ctx context.Context, s KeyStore) (*KeyChannel, error) {
	c := &KeyChannel{store: s}
	return c, c.look(ctx)
}

// look reads the key and the clock.
func (c *KeyChannel) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keyReadMax)
	defer cancel()
	began := time.Now()
	key, err := c.store.NodeKey(ctx)
	var clock dag.Micros
	if err == nil {
		clock, err = c.store.Clock(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading, c.tried = false, time.Now()
	if err == nil {
		c.key, c.clock, c.read = key, clock, began
	}
	return err
}

// now returns the key and the clock of the store. What was read before goes on if the store does not answer.
func (c *KeyChannel) now(ctx context.Context) ([]byte, dag.Micros) {
	c.mu.Lock()
	stale := !c.reading && time.Since(c.read) > keyFresh && time.Since(c.tried) > keyRetry
	c.reading = c.reading || stale
	c.mu.Unlock()
	if stale {
		_ = c.look(ctx) // what was read before still counts
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.key, c.clock + dag.Micros(time.Since(c.read).Microseconds())
}

// claim is what a proof says.
type claim struct {
	ID     int64      `json:"id,omitempty"`
	Kind   string     `json:"kind,omitempty"`
	Name   string     `json:"name,omitempty"`
	At     dag.Micros `json:"at"`
	Digest []byte     `json:"digest"`
}

// Vouch implements Channel. The proof is bound to method, path, query and body, and counts for passedMax.
func (c *KeyChannel) Vouch(r *http.Request, body []byte) error {
	t, _ := holder(r.Context())
	key, now := c.now(r.Context())
	digest := sha256.Sum256(body)
	said, err := json.Marshal(claim{ID: t.ID, Kind: t.Kind, Name: t.Name, At: now, Digest: digest[:]})
	if err != nil {
		return fmt.Errorf("write for whom a request is passed on: %w", err)
	}
	text := base64.RawURLEncoding.EncodeToString(said)
	r.Header.Set(HeaderPrincipal, text+"."+base64.RawURLEncoding.EncodeToString(proof(key, r, text)))
	return nil
}

// Passed implements Channel.
func (c *KeyChannel) Passed(r *http.Request) (p Principal, ok bool) {
	shown := r.Header[HeaderPrincipal]
	if len(shown) != 1 || len(shown[0]) > principalMax {
		return p, false
	}
	text, tag, _ := strings.Cut(shown[0], ".")
	mac, err := base64.RawURLEncoding.DecodeString(tag)
	key, now := c.now(r.Context())
	if err != nil || !hmac.Equal(mac, proof(key, r, text)) {
		return p, false
	}
	var said claim
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, &said) != nil || len(said.Digest) != len(p.Digest) {
		return p, false
	}
	if age := time.Duration(now-said.At) * time.Microsecond; age.Abs() > passedMax {
		return p, false
	}
	p.Token = store.Token{ID: said.ID, Kind: said.Kind, Name: said.Name}
	copy(p.Digest[:], said.Digest)
	return p, true
}

// proof is the authentication code of a request that is passed on.
func proof(key []byte, r *http.Request, said string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range []string{"skein passed request 1", r.Method, r.URL.EscapedPath(), r.URL.RawQuery, said} {
		fmt.Fprintf(mac, "%d:%s\n", len(part), part)
	}
	return mac.Sum(nil)
}

// fits reports whether a body has the digest that was proved.
func (p *Principal) fits(digest []byte) bool {
	return subtle.ConstantTimeCompare(p.Digest[:], digest) == 1
}

// dropOutside takes the headers away that count only between nodes. The number of hops stays: it can only end
// a detour early. So does the proof of a webhook, which is its caller's.
func dropOutside(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, "X-Skein-") && name != "X-Skein-Hops" && name != "X-Skein-Signature" {
			delete(h, name)
		}
	}
}
