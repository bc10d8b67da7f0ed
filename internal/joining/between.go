package joining

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"skein.dev/skein/internal/authority"
)

// NodeTransport is the transport for calls to other nodes. It shows the certificate of this node to nodes
// that request one. A node of an earlier version requests no certificate, and a node without TLS cannot.
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

// These bound the time until a call notices that the link to another node is cut. A cut link does not close
// the connection. Without the bounds, a call would wait until the other node is declared dead, which may
// never happen.
const (
	dialMax  = 3 * time.Second
	pingIdle = 3 * time.Second // after this time without a frame, a ping is sent
	pingMax  = 2 * time.Second // longest wait for the answer to a ping
)

// NewNodeTransport returns the transport of a node. It bounds in base how long another node may be silent. It
// uses base without a certificate until there is an authority.
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

// CloseIdleConnections closes the connections that no call uses.
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
		// The requester is a proxy that expects certificates of another authority.
		return &tls.Certificate{}, nil
	}
	b.now.CloseIdleConnections()
	b.now, b.shows = next, own
	return next
}
