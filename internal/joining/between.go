package joining

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"skein.dev/skein/internal/authority"
)

// NodeTransport is the transport of calls to other nodes. It shows the certificate of this node to nodes that
// request one. A node of an earlier version does not request a certificate, and a node without TLS cannot.
// Calls to these nodes are authenticated by the token, or by the key in the database. A renewed certificate
// requires new connections, because a connection keeps the certificate with which it began.
type NodeTransport struct {
	base *http.Transport
	a    *authority.Authority
	name string // the name of this node

	mu    sync.Mutex // protects following fields
	shows *tls.Certificate
	now   *http.Transport
}

// Bounds of the time after which a call notices that the link to another node is cut. No connection is closed
// then, so the calls on it would wait until the other node counts as dead, which it may never do.
const (
	dialMax  = 3 * time.Second
	pingIdle = 3 * time.Second // without a frame, a connection is tried
	pingMax  = 2 * time.Second // the longest wait for the answer to a ping
)

// NewNodeTransport returns the transport of a node. It bounds the silence of other nodes in base. Until there
// is an authority, the transport is base.
func NewNodeTransport(n *Node, base *http.Transport) *NodeTransport {
	base.DialContext = (&net.Dialer{Timeout: dialMax}).DialContext
	base.TLSHandshakeTimeout = dialMax
	base.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingIdle, PingTimeout: pingMax}
	return &NodeTransport{base: base, a: n.cfg.Authority, name: n.cfg.Name, now: base}
}

// RoundTrip implements http.RoundTripper.
func (b *NodeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return b.transport().RoundTrip(r)
}

// CloseIdleConnections ends the connections that no call uses.
func (b *NodeTransport) CloseIdleConnections() { b.transport().CloseIdleConnections() }

func (b *NodeTransport) transport() *http.Transport {
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
