package authority

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// Issued is a certificate with those that lead to a root.
type Issued struct {
	Chain   [][]byte // DER, the certificate first
	Expires time.Time
}

// Request checks a request for a certificate (DER), which its holder signs with the key. It returns the key
// and the name that the request is for.
func Request(der []byte) (key crypto.PublicKey, name string, err error) {
	r, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, "", fmt.Errorf("the request for a certificate cannot be read: %w", err)
	}
	if err := r.CheckSignature(); err != nil {
		return nil, "", fmt.Errorf("the request for a certificate is not signed with its key: %w", err)
	}
	switch k := r.PublicKey.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() && k.Curve != elliptic.P384() {
			return nil, "", errors.New("the key of the request is not on the curve P-256 or P-384")
		}
	default:
		return nil, "", errors.New("the key of the request is of an unknown kind: use P-256, P-384 or Ed25519")
	}
	return r.PublicKey, r.Subject.CommonName, nil
}

// Worker issues the certificate of a worker.
func (a *Authority) Worker(key crypto.PublicKey, name string) (Issued, error) {
	return a.issue(key, "worker", name)
}

func (a *Authority) issue(key crypto.PublicKey, kind, name string) (is Issued, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sign(key, kind, name)
}

// sign is issue for a caller that holds a.mu.
func (a *Authority) sign(key crypto.PublicKey, kind, name string) (is Issued, err error) {
	if len(a.is.Roots) == 0 {
		return is, cmp.Or(a.err, ErrNone)
	}
	r, now := &a.is.Roots[len(a.is.Roots)-1], a.cfg.Now()
	is.Expires = now.Add(a.cfg.Life)
	t := &x509.Certificate{SerialNumber: serial(), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-Skew), NotAfter: is.Expires,
		URIs:     []*url.URL{a.uri(kind, name)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true}
	if kind == "node" {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		t.DNSNames = []string{ServerName}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, r.cert, key, r.key)
	if err != nil {
		return is, fmt.Errorf("issue a certificate: %w", err)
	}
	is.Chain = [][]byte{der, r.Cert}
	if len(r.Cross) > 0 {
		is.Chain = [][]byte{der, r.Cross, r.Cert}
	}
	if old := len(a.is.Roots) - 2; kind == "node" && old >= 0 && a.is.Roots[old].trusted(now) { // an open invitation names it
		is.Chain = append(is.Chain, a.is.Roots[old].Cert)
	}
	return is, nil
}

// uri is the name in a certificate. The caller holds a.mu.
func (a *Authority) uri(kind, name string) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: a.is.Cluster, Path: "/" + kind + "/" + name}
}

// Node returns the certificate of this node. It is made anew at two thirds of its life. It is nil if there is
// no authority.
func (a *Authority) Node(name string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.cfg.Now()
	if a.own != nil && a.node == name && now.Before(a.renew) {
		return a.own, nil
	}
	if len(a.is.Roots) == 0 {
		return nil, a.err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	is, err := a.sign(&key.PublicKey, "node", name)
	if err != nil {
		return nil, err
	}
	a.own, a.node, a.renew = &tls.Certificate{Certificate: is.Chain, PrivateKey: key}, name, now.Add(a.cfg.Life*2/3)
	return a.own, nil
}
