package authority

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Proven is what a certificate proves. One of Worker and Node is set.
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

// verifiedMax bounds the certificates that are remembered.
const verifiedMax = 4096

// KeyHash returns the SHA-256 of a public key, by which the row of a certificate is found.
func KeyHash(key any) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	sum := sha256.Sum256(der)
	return sum[:], nil
}

// Verify returns what the certificates of a connection prove. It returns a *Refusal if they prove nothing,
// and another error if this node cannot tell.
func (a *Authority) Verify(ctx context.Context, chain []*x509.Certificate) (Proven, error) {
	is, err := a.verify(chain)
	var unknown x509.UnknownAuthorityError
	if err != nil && (errors.As(err, &unknown) || errors.Is(err, ErrNone)) && a.again() {
		if err := a.Load(ctx); err != nil {
			return is, err
		}
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
		return is, refused("the certificate is none of the internal certificate authority of this cluster: %v", err)
	}
	return is, err
}

// again reports whether the roots may be read again now.
func (a *Authority) again() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cfg.Now().Sub(a.tried) >= lookAgain
}

func (a *Authority) verify(chain []*x509.Certificate) (is Proven, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.cfg.Now()
	if was, ok := a.verified[chain[0]]; ok && now.Before(was.until) {
		return was.is, nil
	}
	if a.err != nil {
		return is, a.err
	}
	if len(a.is.Roots) == 0 {
		return is, ErrNone
	}
	a.trust()
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	found, err := chain[0].Verify(x509.VerifyOptions{Roots: a.pool, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return is, err
	}
	if is, err = a.read(chain[0]); err != nil {
		return is, err
	}
	if len(a.verified) >= verifiedMax {
		clear(a.verified)
	}
	a.verified[chain[0]] = verified{is, a.until(found)}
	return is, nil
}

// until returns the time until which a chain is valid. The caller holds a.mu.
func (a *Authority) until(chains [][]*x509.Certificate) (end time.Time) {
	for _, chain := range chains {
		ends := chain[0].NotAfter
		for _, c := range chain {
			if c.NotAfter.Before(ends) {
				ends = c.NotAfter
			}
			for i := range a.is.Roots {
				if r := &a.is.Roots[i]; equal(r.Cert, c.Raw) && !r.Until.IsZero() && r.Until.Before(ends) {
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

// read returns what the name in a certificate says. The caller holds a.mu.
func (a *Authority) read(c *x509.Certificate) (is Proven, err error) {
	if len(c.URIs) != 1 || c.URIs[0].Scheme != "spiffe" || c.URIs[0].Host != a.is.Cluster {
		return is, refused("the certificate has no name of this cluster")
	}
	kind, name, ok := strings.Cut(strings.TrimPrefix(c.URIs[0].Path, "/"), "/")
	switch {
	case !ok || name == "":
		return is, refused("the certificate has no name of a worker or node")
	case kind == "worker":
		is.Worker = name
	case kind == "node":
		is.Node = name
	default:
		return is, refused("the certificate is for a %.20q, which this node does not know", kind)
	}
	is.Key, err = KeyHash(c.PublicKey)
	return is, err
}
