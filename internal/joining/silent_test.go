package joining

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"skein.dev/skein/internal/authority"
)

// mutable forwards data in both directions until it is cut. Afterwards it drops all data, but closes no
// connection.
type mutable struct {
	l   net.Listener
	cut atomic.Bool
}

func newMutable(t *testing.T, to string) *mutable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	m := &mutable{l: l}
	carry := func(to, from net.Conn) {
		defer to.Close()
		b := make([]byte, 4<<10)
		for {
			n, err := from.Read(b)
			if err != nil {
				return
			}
			if !m.cut.Load() {
				_, _ = to.Write(b[:n])
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d, err := net.Dial("tcp", to)
			if err != nil {
				_ = c.Close()
				continue
			}
			go carry(c, d)
			go carry(d, c)
		}
	}()
	return m
}

// TestSilentPeer cuts the link to another node during a working connection. A call on that connection must
// end with an error, and so must a call that needs a new connection. Without a bound, both would wait as long
// as the kernel does.
func TestSilentPeer(t *testing.T) {
	other := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	other.EnableHTTP2 = true
	other.StartTLS()
	t.Cleanup(other.Close)
	link := newMutable(t, other.Listener.Addr().String())
	pool := x509.NewCertPool()
	pool.AddCert(other.Certificate())
	b := NewNodeTransport(NewNode(Config{Name: "n1", Authority: authority.New(authority.Config{Now: time.Now})}),
		&http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true})
	t.Cleanup(b.CloseIdleConnections)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	call := func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+link.l.Addr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := b.RoundTrip(req)
		if err != nil {
			return err
		}
		if resp.ProtoMajor != 2 {
			t.Errorf("the nodes speak %s", resp.Proto)
		}
		return resp.Body.Close()
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
	link.cut.Store(true)
	for range 2 {
		if err := call(); err == nil || ctx.Err() != nil {
			t.Errorf("over a cut link: %v", err)
		}
	}
}
