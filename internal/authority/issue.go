package authority

import (
	"cmp"
	"context"
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

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Issued is a certificate with the intermediate certificates that lead to a root.
type Issued struct {
	Chain   [][]byte // DER, the certificate first
	Expires time.Time
}

// Request checks a request for a certificate (DER), which the holder of the key has signed. It returns the
// key and the name in the request.
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

// sign does the work of issue. The caller must hold a.mu.
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

// uri returns the name for a certificate. The caller must hold a.mu.
func (a *Authority) uri(kind, name string) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: a.is.Cluster, Path: "/" + kind + "/" + name}
}

const (
	// enrollMax bounds the change of the row of a certificate. After a failure no other certificate is made for
	// enrollPause.
	enrollMax   = 2 * time.Second
	enrollPause = 2 * time.Second
)

// Node returns the certificate of this node, or nil if there is no authority. At two thirds of a
// certificate's life, Node makes another one for the same key. It writes the row of a certificate before it
// uses the certificate. While that fails, the previous certificate stays in use.
func (a *Authority) Node(name string) (*tls.Certificate, error) {
	if own, done, err := a.present(name); done {
		return own, err
	}
	if own, _, _ := a.present(name); own == nil {
		a.making.Lock()
	} else if !a.making.TryLock() { // another caller makes the next one
		return own, nil
	}
	defer a.making.Unlock()
	own, done, err := a.present(name)
	if done {
		return own, err
	}
	next, key, version, err := a.makeOwn(name)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.pause = a.cfg.Now().Add(enrollPause)
		if own != nil {
			return own, nil
		}
		return nil, err
	}
	a.key, a.node = key, name
	if a.version == version { // otherwise the roots were changed meanwhile, and the next call makes another certificate
		a.own, a.renew = next, a.cfg.Now().Add(a.cfg.Life*2/3)
	}
	return next, nil
}

// present returns the certificate of this node. done is false if another certificate must be made.
func (a *Authority) present(name string) (own *tls.Certificate, done bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.cfg.Now()
	switch {
	case a.own != nil && a.node == name && now.Before(a.renew):
		return a.own, true, nil
	case len(a.is.Roots) == 0:
		return nil, true, a.err
	case now.Before(a.pause):
		return a.own, true, nil
	}
	return a.own, false, nil
}

// makeOwn makes a certificate of this node and its row. If the row of the key was revoked, it makes another
// key. version is the version that the roots had before.
func (a *Authority) makeOwn(name string) (own *tls.Certificate, key *ecdsa.PrivateKey, version int64, err error) {
	a.mu.Lock()
	key, version = a.key, a.version
	a.mu.Unlock()
	for range 2 {
		if key == nil {
			if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
				return nil, nil, 0, err
			}
		}
		is, err := a.issue(&key.PublicKey, "node", name)
		if err != nil {
			return nil, nil, 0, err
		}
		if err = a.enroll(name, key); errors.Is(err, store.ErrFenced) {
			key = nil
			continue
		}
		if err != nil {
			return nil, nil, 0, fmt.Errorf("write the row of this node's certificate: %w", err)
		}
		return &tls.Certificate{Certificate: is.Chain, PrivateKey: key}, key, version, nil
	}
	return nil, nil, 0, errors.New("the key that this node has just made is revoked")
}

func (a *Authority) enroll(name string, key *ecdsa.PrivateKey) error {
	if a.cfg.Rows == nil {
		return nil
	}
	hash, err := KeyHash(&key.PublicKey)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), enrollMax)
	defer cancel()
	_, err = a.cfg.Rows.EnrollNode(ctx, store.Enrolling{Name: store.NodeTokenName(name), Hash: hash, Life: dag.Micros(a.cfg.Life.Microseconds())})
	return err
}

// checkOwn gives up the key of this node if its row was revoked or has another key. The next call of Node
// makes another key.
func (a *Authority) checkOwn(ctx context.Context) {
	a.mu.Lock()
	key := a.key
	a.mu.Unlock()
	if key == nil || a.cfg.Rows == nil {
		return
	}
	hash, err := KeyHash(&key.PublicKey)
	if err != nil {
		return
	}
	t, err := a.cfg.Rows.TokenByHash(ctx, hash)
	if err != nil && !errors.Is(err, store.ErrNotFound) || err == nil && t.Revoked == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.key == key {
		a.key, a.own = nil, nil
		a.cfg.Log.Warn("the certificate of this node was revoked, or another process has its name; the node makes another key", "code", "node_certificate_replaced", "node", a.node)
	}
}
