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

// HeaderPrincipal names the caller for whom a node passes a request on. Without a valid proof it is ignored.
const HeaderPrincipal = "X-Skein-Principal"

// HeaderNode names the node that sends a request with its token. The token is the credential of the request,
// and this header proves which node shows it. Without a valid proof it is ignored.
const HeaderNode = "X-Skein-Node"

// Principal is the caller for whom a node passes a request on.
type Principal struct {
	// Token is the caller's token. Its Kind is "" if the caller showed none. In that case the request is
	// accepted only where no token is required.
	Token store.Token
	// Remote is the address of the caller in the form of http.Request.RemoteAddr. It is "" if the other node
	// does not send it.
	Remote string
	// Digest is the SHA-256 sum of the body.
	Digest [sha256.Size]byte
}

// Channel lets a node prove to another node that a request comes from a node, and on whose behalf.
type Channel interface {
	// Vouch adds the proof to a request that the node passes on for the caller in its context. body is the
	// whole body.
	Vouch(r *http.Request, body []byte) error
	// Passed returns the caller for whom a node passed a request on. ok is false if the request has no valid
	// proof.
	Passed(r *http.Request) (Principal, bool)
	// Sign adds the proof that the node with a name sends a request. body is the whole body.
	Sign(r *http.Request, name string, body []byte) error
	// Signed returns the node that sends a request, as the token's name, and the digest of the body. ok is
	// false if the request has no valid proof of Sign.
	Signed(r *http.Request) (Principal, bool)
}

// Purposes of proofs. A proof for one purpose is invalid for the other.
const (
	forCaller = "skein passed request 1"
	forNode   = "skein node 1"
)

const (
	// passedMax is how long a proof is valid, by the store's clock.
	passedMax = 30 * time.Second
	// keyFresh is the age up to which the key and the clock in memory are used without another reading. A failed
	// reading is repeated after keyRetry. A reading takes at most keyReadMax.
	keyFresh   = time.Minute
	keyRetry   = 5 * time.Second
	keyReadMax = 5 * time.Second
	// principalMax bounds the header, in bytes.
	principalMax = 4096
)

// KeyStore holds the key of the nodes, and the clock that they share.
type KeyStore interface {
	NodeKey(ctx context.Context) ([]byte, error)
	Clock(ctx context.Context) (dag.Micros, error)
}

// KeyChannel is the Channel of nodes that share a key in their store.
type KeyChannel struct {
	store KeyStore

	mu      sync.Mutex // protects following fields
	key     []byte
	clock   dag.Micros // time of the store at the last reading
	read    time.Time
	tried   time.Time
	reading bool
}

// NewKeyChannel reads the key from the store and returns a KeyChannel.
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

// now returns the key and the time of the store. If the store does not answer, the values of the last
// reading count.
func (c *KeyChannel) now(ctx context.Context) ([]byte, dag.Micros) {
	c.mu.Lock()
	stale := !c.reading && time.Since(c.read) > keyFresh && time.Since(c.tried) > keyRetry
	c.reading = c.reading || stale
	c.mu.Unlock()
	if stale {
		_ = c.look(ctx) // after an error, the last reading stays valid
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.key, c.clock + dag.Micros(time.Since(c.read).Microseconds())
}

// claim is the content of a proof.
type claim struct {
	ID     int64      `json:"id,omitempty"`
	Kind   string     `json:"kind,omitempty"`
	Name   string     `json:"name,omitempty"`
	At     dag.Micros `json:"at"`
	Digest []byte     `json:"digest"`
	Remote string     `json:"remote,omitempty"`
}

// Vouch implements Channel. The proof is bound to method, path, query and body, and is valid for passedMax.
func (c *KeyChannel) Vouch(r *http.Request, body []byte) error {
	t := holder(r.Context())
	if t == nil { // the caller has shown no token
		t = new(store.Token)
	}
	return c.prove(r, HeaderPrincipal, forCaller, &claim{ID: t.ID, Kind: t.Kind, Name: t.Name, Remote: r.RemoteAddr}, body)
}

// Sign implements Channel. The proof is that of Vouch, for another purpose.
func (c *KeyChannel) Sign(r *http.Request, name string, body []byte) error {
	return c.prove(r, HeaderNode, forNode, &claim{Kind: store.TokenNode, Name: name}, body)
}

// Calls returns a function that adds the proof of the node with a name to a request of that node itself.
// token says that the node shows a token; otherwise the proof is its credential.
func (c *KeyChannel) Calls(name string, token bool) func(r *http.Request, body []byte) error {
	return func(r *http.Request, body []byte) error {
		if token {
			return c.Sign(r, name, body)
		}
		return c.Vouch(AsNode(r, name), body)
	}
}

// prove sets a header of a request to a claim with its proof.
func (c *KeyChannel) prove(r *http.Request, header, purpose string, is *claim, body []byte) error {
	key, now := c.now(r.Context())
	digest := sha256.Sum256(body)
	is.At, is.Digest = now, digest[:]
	said, err := json.Marshal(is)
	if err != nil {
		return fmt.Errorf("encode the caller of a request to another node: %w", err)
	}
	text := base64.RawURLEncoding.EncodeToString(said)
	r.Header.Set(header, text+"."+base64.RawURLEncoding.EncodeToString(proof(key, r, purpose, text)))
	return nil
}

// Passed implements Channel.
func (c *KeyChannel) Passed(r *http.Request) (p Principal, ok bool) {
	return c.proved(r, HeaderPrincipal, forCaller)
}

// Signed implements Channel.
func (c *KeyChannel) Signed(r *http.Request) (p Principal, ok bool) {
	return c.proved(r, HeaderNode, forNode)
}

// proved reads a header of prove and verifies its proof.
func (c *KeyChannel) proved(r *http.Request, header, purpose string) (p Principal, ok bool) {
	shown := r.Header[header]
	if len(shown) != 1 || len(shown[0]) > principalMax {
		return p, false
	}
	text, tag, _ := strings.Cut(shown[0], ".")
	mac, err := base64.RawURLEncoding.DecodeString(tag)
	key, now := c.now(r.Context())
	if err != nil || !hmac.Equal(mac, proof(key, r, purpose, text)) {
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
	p.Remote = said.Remote
	p.Token = store.Token{ID: said.ID, Kind: said.Kind, Name: said.Name}
	copy(p.Digest[:], said.Digest)
	return p, true
}

// proof returns the authentication code of a request that a node sends.
func proof(key []byte, r *http.Request, purpose, said string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range []string{purpose, r.Method, r.URL.EscapedPath(), r.URL.RawQuery, said} {
		fmt.Fprintf(mac, "%d:%s\n", len(part), part)
	}
	return mac.Sum(nil)
}

// fits reports whether the digest of a body equals the digest in the proof.
func (p *Principal) fits(digest []byte) bool {
	return subtle.ConstantTimeCompare(p.Digest[:], digest) == 1
}

// dropOutside removes the headers that are accepted only from nodes. It leaves the number of hops, which can
// only shorten a detour. It leaves the signature of a webhook, which the caller has made.
func dropOutside(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, "X-Skein-") && name != "X-Skein-Hops" && name != "X-Skein-Signature" {
			delete(h, name)
		}
	}
}
