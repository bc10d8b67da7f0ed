package authority

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Proven holds what a certificate proves. Exactly one of Worker and Node is set.
type Proven struct {
	Worker, Node string
	Key          []byte // SHA-256 of the public key
}

// Refusal says why a certificate proves nothing.
type Refusal struct{ text string }

func (r *Refusal) Error() string { return r.text }

func refused(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// verified is the result for a certificate of a connection.
type verified struct {
	is    Proven
	until time.Time
}

const (
	// verifiedMax bounds the certificates that are remembered.
	verifiedMax = 4096
	// chainMax bounds the certificates that a caller shows: its own, the new root under the old one, and both
	// roots.
	chainMax = 4
)

// KeyHash returns the SHA-256 of a public key, by which the row of a certificate is found.
func KeyHash(key any) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	sum := sha256.Sum256(der)
	return sum[:], nil
}

// Known reports whether the certificate of a connection was accepted before.
func (a *Authority) Known(c *x509.Certificate) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.verified[c]
	return ok
}

// Verify returns what the certificates of a connection prove. It returns a *Refusal if they prove nothing,
// and another error if this node cannot check them.
func (a *Authority) Verify(ctx context.Context, chain []*x509.Certificate) (Proven, error) {
	if len(chain) > chainMax {
		return Proven{}, refused("the caller shows %d certificates, and a chain of the internal certificate authority has at most %d", len(chain), chainMax)
	}
	is, err := a.verify(chain)
	var unknown x509.UnknownAuthorityError
	if err != nil && (errors.As(err, &unknown) || errors.Is(err, ErrNone)) && a.reload(ctx) {
		is, err = a.verify(chain)
	}
	var refusal *Refusal
	var invalid x509.CertificateInvalidError
	switch {
	case err == nil, errors.As(err, &refusal):
		return is, err
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return is, refused("the certificate is not valid at this time: it is valid from %s until %s; let the worker join again: skein worker invite",
			chain[0].NotBefore.UTC().Format(time.DateTime), chain[0].NotAfter.UTC().Format(time.DateTime))
	case errors.As(err, &unknown), errors.As(err, &invalid), errors.Is(err, ErrNone):
		return is, refused("the internal certificate authority of this cluster did not issue the certificate: %v", err)
	}
	return is, err
}

// again reports whether the roots may be read again now.
func (a *Authority) again() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cfg.Now().Sub(a.tried) >= lookAgain
}

// verify verifies a chain by the known roots, without holding a lock.
func (a *Authority) verify(chain []*x509.Certificate) (is Proven, err error) {
	now := a.cfg.Now()
	a.mu.Lock()
	was, ok := a.verified[chain[0]]
	by, version, failed := a.is, a.version, a.err
	a.mu.Unlock()
	if ok && now.Before(was.until) {
		return was.is, nil
	}
	if len(by.Roots) == 0 {
		return is, cmp.Or(failed, ErrNone)
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	found, err := chain[0].Verify(x509.VerifyOptions{Roots: by.trusted(now), Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return is, err
	}
	if is, err = by.read(chain[0]); err != nil {
		return is, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.version == version { // otherwise the roots have changed meanwhile
		if len(a.verified) >= verifiedMax {
			clear(a.verified)
		}
		a.verified[chain[0]] = verified{is, by.until(found)}
	}
	return is, nil
}

// until returns the time until which a chain is valid.
func (s *state) until(chains [][]*x509.Certificate) (end time.Time) {
	for _, chain := range chains {
		ends := chain[0].NotAfter
		for _, c := range chain {
			if c.NotAfter.Before(ends) {
				ends = c.NotAfter
			}
			for i := range s.Roots {
				if r := &s.Roots[i]; equal(r.Cert, c.Raw) && !r.Until.IsZero() && r.Until.Before(ends) {
					ends = r.Until
				}
			}
		}
		if ends.After(end) {
			end = ends
		}
	}
	return end
}

// read parses the name in a certificate.
func (s *state) read(c *x509.Certificate) (is Proven, err error) {
	if len(c.URIs) != 1 || c.URIs[0].Scheme != "spiffe" || c.URIs[0].Host != s.Cluster {
		return is, refused("the certificate has no name that belongs to this cluster")
	}
	kind, name, ok := strings.Cut(strings.TrimPrefix(c.URIs[0].Path, "/"), "/")
	switch {
	case !ok || name == "":
		return is, refused("the certificate names neither a worker nor a node")
	case kind == "worker":
		is.Worker = name
	case kind == "node":
		is.Node = name
	default:
		return is, refused("the certificate is for a %.20q, a kind that this node does not know", kind)
	}
	is.Key, err = KeyHash(c.PublicKey)
	return is, err
}
