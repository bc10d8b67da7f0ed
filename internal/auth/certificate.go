package auth

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/store"
)

// Certificates checks the TLS certificates of callers.
type Certificates interface {
	// Known reports whether Verify has accepted the certificate of a connection before.
	Known(c *x509.Certificate) bool
	// Verify returns the identity that the certificates of a connection prove. If they prove none, refused is
	// the reason. err is set if this node cannot check them.
	Verify(ctx context.Context, chain []*x509.Certificate) (is Proven, refused string, err error)
}

// Proven is the identity that a certificate proves. Exactly one of Worker and Node is set.
type Proven struct {
	Worker, Node string
	Key          []byte // SHA-256 of the public key
}

// certified reports whether a route with this verb accepts certificates. Only routes of workers and nodes do.
func certified(v access.Verb) bool { return v == access.WorkerCall || v == access.NodeCall }

// chainOf returns the certificates of a call, if the route of the verb accepts certificates.
func (g *Gate) chainOf(r *http.Request, v access.Verb) []*x509.Certificate {
	if g.cfg.Certificates == nil || !certified(v) || r.TLS == nil {
		return nil
	}
	return r.TLS.PeerCertificates
}

// proven returns the credential of a call with certificates. The certificate of a worker is valid as long as
// its row is.
func (g *Gate) proven(ctx context.Context, chain []*x509.Certificate) (is Proven, t store.Token, err error) {
	is, refused, err := g.cfg.Certificates.Verify(ctx, chain)
	switch {
	case err != nil:
		return is, t, err
	case refused != "":
		return is, t, fmt.Errorf("%w: %s", errRefused, refused)
	case is.Node != "":
		return is, store.Token{Kind: store.TokenNode, Name: is.Node}, g.enrolled(ctx, &is)
	}
	t, ok, err := g.book.find(ctx, is.Key)
	if err == nil && (!ok || t.Kind != store.TokenCertificate || t.Name != WorkerName(is.Worker)) {
		err = fmt.Errorf("%w: the certificate of the worker %s was revoked, or has expired; let it join again: skein worker invite %s", errRefused, is.Worker, is.Worker)
	}
	return is, t, err
}

// enrolled refuses the certificate of a node without a valid row. A thief of the root's key could make
// certificates, but no rows.
func (g *Gate) enrolled(ctx context.Context, is *Proven) error {
	t, ok, err := g.book.find(ctx, is.Key)
	if err == nil && (!ok || t.Kind != store.TokenCertificate || t.Name != store.NodeTokenName(is.Node)) {
		err = fmt.Errorf("%w: the certificate of the node %s was revoked or has no row; the node makes another one by itself", errRefused, is.Node)
	}
	return err
}

// errUncertified is the text of a refusal because the calling node shows no certificate.
const errUncertified = "this node accepts other nodes by their certificates only (node_certificates_only): give each node a certificate " +
	"for TLS and the key of the secrets, and look for authority_not_made in its log"

// uncertified refuses a call of a node that shows no certificate, if NodesCertified is set. passed is set if
// the call is passed on for a caller.
func (g *Gate) uncertified(r *http.Request, c *credential, v access.Verb, passed bool) bool {
	switch {
	case !g.cfg.NodesCertified || v != access.NodeCall && !passed, c.proven != nil && c.proven.Node != "":
		return false
	case g.cfg.Certificates == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0:
		return true
	}
	is, _, err := g.proven(r.Context(), r.TLS.PeerCertificates)
	return err != nil || is.Node == ""
}

// byCertificate returns the credential of a call with certificates. It calls over before it verifies the
// certificates of an unknown caller.
func (g *Gate) byCertificate(ctx context.Context, chain []*x509.Certificate, over func() bool) (c credential, err error) {
	if over != nil && !g.cfg.Certificates.Known(chain[0]) && over() {
		return c, errOften
	}
	is, t, err := g.proven(ctx, chain)
	c.token, c.proven = t, &is
	c.again = func(ctx context.Context) (store.Token, error) {
		_, t, err := g.proven(ctx, chain)
		return t, err
	}
	return c, err
}

// WorkerName returns the name of the row for a worker's certificate. Tokens of other kinds have no such name.
func WorkerName(worker string) string { return workerPrefix + worker }

const workerPrefix = "worker "

// ByCertificate returns the identity that the certificate of a call proves. ok is false if a token
// authenticated the call.
func ByCertificate(ctx context.Context) (is Proven, ok bool) {
	if p, _ := ctx.Value(provenKey{}).(*Proven); p != nil {
		return *p, true
	}
	return is, false
}

// Certified reports whether a worker has a valid certificate. In this case no token may authenticate the
// worker.
func (g *Gate) Certified(ctx context.Context, worker string) (bool, error) {
	return g.book.certified(ctx, nameKeyOf(WorkerName(worker)))
}

// certified reports whether the store has a valid row with a key. In contrast to find, it does not read the
// tokens again if it finds no row, because most workers have no certificate. It uses the tokens in memory for
// as long as they are used for callers.
func (b *book) certified(ctx context.Context, key string) (bool, error) {
	b.mu.Lock()
	t, known := b.tokens[key]
	now := time.Now()
	if fresh := !b.outdated && now.Sub(b.read) < staleAfter; fresh {
		defer b.mu.Unlock()
		return known && b.valid(&t, now), nil
	}
	b.mu.Unlock()
	_, ok, err := b.find(ctx, []byte(key))
	return ok, err
}

// nameKeyOf returns the key in the book for the row of a certificate with a name.
func nameKeyOf(name string) string { return "@" + name }
