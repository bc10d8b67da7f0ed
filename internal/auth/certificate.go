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

// Certificates checks the certificates that callers show over TLS.
type Certificates interface {
	// Known reports whether Verify has accepted the certificate of a connection before.
	Known(c *x509.Certificate) bool
	// Verify returns what the certificates of a connection prove. If they prove nothing, refused is the reason.
	// err is set if this node cannot check them.
	Verify(ctx context.Context, chain []*x509.Certificate) (is Proven, refused string, err error)
}

// Proven holds what a certificate proves. Exactly one of Worker and Node is set.
type Proven struct {
	Worker, Node string
	Key          []byte // SHA-256 of the public key
}

// certified reports whether a certificate counts for a verb. It counts for nothing that people call.
func certified(v access.Verb) bool { return v == access.WorkerCall || v == access.NodeCall }

// chainOf returns the certificates that a call shows, if they count for its verb.
func (g *Gate) chainOf(r *http.Request, v access.Verb) []*x509.Certificate {
	if g.cfg.Certificates == nil || !certified(v) || r.TLS == nil {
		return nil
	}
	return r.TLS.PeerCertificates
}

// proven finds the credential of certificates. The certificate of a worker counts as long as its row does.
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

// enrolled refuses the certificate of a node whose row does not count. A thief of the root can make
// certificates, and no rows.
func (g *Gate) enrolled(ctx context.Context, is *Proven) error {
	t, ok, err := g.book.find(ctx, is.Key)
	if err == nil && (!ok || t.Kind != store.TokenCertificate || t.Name != store.NodeTokenName(is.Node)) {
		err = fmt.Errorf("%w: the certificate of the node %s was revoked or has no row; the node makes another one by itself", errRefused, is.Node)
	}
	return err
}

// errUncertified is the refusal of a node without a certificate.
const errUncertified = "this node accepts other nodes by their certificates only (node_certificates_only): give each node a certificate " +
	"for TLS and the key of the secrets, and look for authority_not_made in its log"

// uncertified refuses a call of a node that shows no certificate, where that is required. passed is set if
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

// byCertificate is the credential of a call that shows certificates. It calls over before it verifies those
// of a caller that is not known.
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

// WorkerName is the name of the row of a worker's certificate. Tokens of other kinds have no such name.
func WorkerName(worker string) string { return workerPrefix + worker }

const workerPrefix = "worker "

type provenKey struct{}

// ByCertificate returns what the certificate of a call proves. ok is false if the call was authenticated by
// a token instead.
func ByCertificate(ctx context.Context) (is Proven, ok bool) {
	if p, _ := ctx.Value(provenKey{}).(*Proven); p != nil {
		return *p, true
	}
	return is, false
}

// Certified reports whether a worker has a certificate that counts. Then no token may speak for it.
func (g *Gate) Certified(ctx context.Context, worker string) (bool, error) {
	return g.book.certified(ctx, nameKeyOf(WorkerName(worker)))
}

// certified reports whether a valid row has a key. Most workers have none, so it does not read the tokens
// again to be sure, as find does: those in memory suffice while they are used for callers, too.
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

// nameKeyOf returns the key under which the book holds the row of a certificate by its name.
func nameKeyOf(name string) string { return "@" + name }
