package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/authority"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/store"
)

// newAuthority makes the internal certificate authority of a database. It reads nothing yet.
func newAuthority(n *Node) *authority.Authority {
	return authority.New(authority.Config{Vault: dbadmin.Secrets(n.cfg, n.store), Life: n.cfg.CertificateLife, Log: n.log})
}

// checker verifies the certificates of callers.
type checker struct{ a *authority.Authority }

// Known implements auth.Certificates.
func (c checker) Known(is *x509.Certificate) bool { return c.a.Known(is) }

// Verify implements auth.Certificates.
func (c checker) Verify(ctx context.Context, chain []*x509.Certificate) (auth.Proven, string, error) {
	is, err := c.a.Verify(ctx, chain)
	var refusal *authority.Refusal
	if errors.As(err, &refusal) {
		return auth.Proven{}, refusal.Error(), nil
	}
	return auth.Proven{Worker: is.Worker, Node: is.Node, Key: is.Key}, "", err
}

// provenNode returns the name of the node that the certificate of a call proves, or "".
func provenNode(ctx context.Context) string {
	is, _ := auth.ByCertificate(ctx)
	return is.Node
}

// workerProofs tells a home what the callers have proven.
func workerProofs(n *Node) home.Proofs {
	return home.Proofs{
		Of: func(ctx context.Context) (home.Proof, bool) {
			is, ok := auth.ByCertificate(ctx)
			t, held := auth.Holder(ctx)
			if !ok || !held || is.Worker == "" || t.Kind != store.TokenCertificate {
				return home.Proof{}, false
			}
			return home.Proof{Worker: is.Worker, Groups: strings.Fields(t.Groups), Slots: t.Slots, Namespaces: t.Bound()}, true
		},
		Needed: func(ctx context.Context, worker string) (bool, error) { return n.gate.Certified(ctx, worker) },
	}
}

// askingFor makes a listener ask callers for certificates of the internal authority, once there is one.
// Under the name authority.ServerName the node shows a certificate of that authority itself, so that workers
// know it without any other. Everywhere else it shows the operator's.
func askingFor(a *authority.Authority, cfg *config.Config, base *tls.Config) *tls.Config {
	out := base.Clone()
	out.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		pool := a.Pool(hello.Context(), hello.ServerName == authority.ServerName)
		if pool == nil {
			return nil, nil // no certificate of the authority exists
		}
		own := base.Clone()
		own.ClientAuth, own.ClientCAs = tls.RequestClientCert, pool // the gate verifies it, and says what is wrong with it
		if hello.ServerName == authority.ServerName {
			is, err := a.Node(cfg.Name)
			if err != nil {
				return nil, err
			}
			if is != nil { // otherwise the authority is gone since the pool was read
				own.GetCertificate, own.Certificates = nil, []tls.Certificate{*is}
			}
		}
		return own, nil
	}
	return out
}

// keepAuthority reads the roots again while the node runs. A node without TLS needs none.
func keepAuthority(n *Node) (stop func()) {
	if n.tls == nil {
		return func() {}
	}
	return n.beside(func(ctx context.Context) {
		makeAuthority(ctx, n)
		n.authority.Run(ctx)
	})
}
