package app

import (
	"context"
	"crypto/tls"
	"net/http"
	"sync"

	"skein.dev/skein/internal/authority"
	"skein.dev/skein/internal/store"
)

// between is the transport of calls to other nodes. It shows the certificate of this node to nodes that ask
// for one. A node of an earlier version does not ask, and a node without TLS cannot: these go by the token,
// or by the key in the database. A renewed certificate begins new connections, because a connection keeps
// the certificate with which it began.
type between struct {
	base *http.Transport
	a    *authority.Authority
	name string // of this node

	mu    sync.Mutex // protects following fields
	shows *tls.Certificate
	now   *http.Transport
}

// newBetween returns the transport of a node. Until there is an authority it is base.
func newBetween(n *Node, base *http.Transport) *between {
	return &between{base: base, a: n.authority, name: n.cfg.Name, now: base}
}

// RoundTrip implements http.RoundTripper.
func (b *between) RoundTrip(r *http.Request) (*http.Response, error) {
	return b.transport().RoundTrip(r)
}

// CloseIdleConnections ends the connections that no call uses.
func (b *between) CloseIdleConnections() { b.transport().CloseIdleConnections() }

func (b *between) transport() *http.Transport {
	own, err := b.a.Node(b.name)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil || own == nil || own == b.shows {
		return b.now
	}
	next := b.base.Clone()
	if next.TLSClientConfig == nil {
		next.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	next.TLSClientConfig.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if authority.Asks(asked, own) {
			return own, nil
		}
		return &tls.Certificate{}, nil // a proxy that asks for certificates of others
	}
	b.now.CloseIdleConnections()
	b.now, b.shows = next, own
	return next
}

// makeAuthority makes the authority of a cluster, so that its nodes know each other by certificates. A
// cluster without the key of the secrets goes on with tokens.
func makeAuthority(ctx context.Context, n *Node) {
	if store.Can(n.store).Cluster == nil {
		return
	}
	if err := n.authority.Make(ctx, "node "+n.cfg.Name); err != nil {
		n.log.Info("nodes prove who they are by tokens, because the certificate authority cannot be made", "code", "authority_not_made", "err", err)
	}
}
