//go:build linux

package python

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"skein.dev/skein/internal/egress"
)

// proxy is an HTTP proxy on loopback for pip. It connects only as the egress rules allow. Only pip knows its
// password.
type proxy struct {
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	plain httputil.ReverseProxy // for plain HTTP requests
	token string
	ln    net.Listener
	http  *http.Server
	ctx   context.Context
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu  sync.Mutex // protects why
	why error      // last refusal by the egress rules
}

// openProxy starts a proxy. The caller must close it.
func openProxy(ctx context.Context, raw json.RawMessage) (*proxy, error) {
	var rules egress.Rules
	if len(raw) > 0 && json.Unmarshal(raw, &rules) != nil {
		return nil, errors.New("the rules of egress cannot be read")
	}
	dial, err := egress.Dialer(rules)
	if err != nil {
		return nil, err
	}
	p := &proxy{token: rand.Text()}
	p.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if refused, ok := egress.Refused(err); ok {
			p.mu.Lock()
			p.why = refused
			p.mu.Unlock()
		}
		return conn, err
	}
	p.plain = httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.Header.Del("Proxy-Authorization") },
		Transport: &http.Transport{DialContext: p.dial, DisableKeepAlives: true, DisableCompression: true}}
	if p.ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	p.ctx, p.stop = context.WithCancel(ctx)
	p.http = &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	p.wg.Go(func() { _ = p.http.Serve(p.ln) }) // returns after close
	return p, nil
}

func (p *proxy) url() string { return "http://skein:" + p.token + "@" + p.ln.Addr().String() }

// refusal returns the last refusal of an address by the egress rules, or nil if there was none.
func (p *proxy) refusal() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why
}

// close ends all connections.
func (p *proxy) close() {
	p.stop()
	_ = p.http.Close()
	p.wg.Wait()
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("skein:"+p.token))
	if subtle.ConstantTimeCompare([]byte(req.Header.Get("Proxy-Authorization")), []byte(want)) != 1 {
		w.Header().Set("Proxy-Authenticate", `Basic realm="skein"`)
		http.Error(w, "the proxy needs its password", http.StatusProxyAuthRequired)
		return
	}
	if req.Method != http.MethodConnect {
		p.plain.ServeHTTP(w, req)
		return
	}
	there, err := p.dial(req.Context(), "tcp", req.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer there.Close()
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	defer context.AfterFunc(p.ctx, func() { _ = client.Close(); _ = there.Close() })()
	if _, err := io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(there, client) // the end of the input, or an error, closes the connection
		_ = there.Close()
	}()
	_, _ = io.Copy(client, there)
	_ = client.Close()
	<-done
}
