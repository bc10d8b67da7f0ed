package gitsync

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"skein.dev/skein/internal/egress"
)

// dialer opens connections that the rules of egress permit.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// relay connects one process of git with one host and port, which the rules of egress check. Git connects to
// a port on loopback. For http and https, this port is a proxy with a password. For ssh, it passes all bytes
// to the server. Connections go through the proxy of the setting egress_proxy: for https and ssh, by a
// tunnel.
type relay struct {
	dial   dialer
	target string
	token  string // the password of the proxy
	ln     net.Listener
	ctx    context.Context
	stop   context.CancelFunc
	wg     sync.WaitGroup

	plain *http.Transport // for http

	mu   sync.Mutex // protects why
	why  error      // the error of the last connection
	http *http.Server
}

// openRelay opens a relay to an address, as a proxy or as a port that passes all bytes. The caller closes it.
func openRelay(ctx context.Context, rules egress.Rules, target string, proxy bool) (*relay, error) {
	dial, err := egress.Tunnel(rules)
	if err != nil {
		return nil, err
	}
	r := &relay{dial: dial, target: target, token: rand.Text()}
	if r.plain, err = egress.Transport(rules); err != nil {
		return nil, err
	}
	r.plain.DisableCompression, r.plain.DisableKeepAlives, r.plain.ForceAttemptHTTP2 = true, true, false
	if r.ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	r.ctx, r.stop = context.WithCancel(ctx)
	if proxy {
		r.http = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
		r.wg.Go(func() { _ = r.http.Serve(r.ln) })
	} else {
		r.wg.Go(r.accept)
	}
	return r, nil
}

// address returns the address of the relay.
func (r *relay) address() *net.TCPAddr { return r.ln.Addr().(*net.TCPAddr) }

// failure returns the error of the last connection. It returns nil if the connection succeeded.
func (r *relay) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why
}

func (r *relay) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.why = err
}

// close ends all connections.
func (r *relay) close() {
	r.stop()
	_ = r.ln.Close()
	if r.http != nil {
		_ = r.http.Close()
	}
	r.wg.Wait()
}

func (r *relay) accept() {
	for {
		conn, err := r.ln.Accept()
		if err != nil {
			return
		}
		r.wg.Go(func() { r.connect(conn) })
	}
}

// connect connects a client with the target.
func (r *relay) connect(client net.Conn) {
	defer client.Close()
	there, err := r.dial(r.ctx, "tcp", r.target)
	if err != nil {
		r.failed(err)
		return
	}
	r.join(client, there)
}

// join copies in both directions until both have ended, or until the relay ends.
func (r *relay) join(a, b net.Conn) {
	defer b.Close()
	undo := context.AfterFunc(r.ctx, func() { _ = a.Close(); _ = b.Close() })
	defer undo()
	var both sync.WaitGroup
	one := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}
	both.Go(func() { one(a, b) })
	both.Go(func() { one(b, a) })
	both.Wait()
}

// ServeHTTP implements the proxy for http and https.
func (r *relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("git:"+r.token))
	if subtle.ConstantTimeCompare([]byte(req.Header.Get("Proxy-Authorization")), []byte(want)) != 1 {
		w.Header().Set("Proxy-Authenticate", `Basic realm="skein"`)
		http.Error(w, "this proxy serves only the git of its own node", http.StatusProxyAuthRequired)
		return
	}
	host := req.Host
	if req.Method != http.MethodConnect && req.URL.Port() == "" {
		host = net.JoinHostPort(req.URL.Hostname(), "80")
	}
	if host != r.target {
		r.failed(errors.New("git called another host: " + host))
		http.Error(w, "this proxy reaches only the host of the git source", http.StatusForbidden)
		return
	}
	if req.Method != http.MethodConnect {
		r.forward(w, req)
		return
	}
	there, err := r.dial(req.Context(), "tcp", r.target)
	if err != nil {
		r.failed(err)
		http.Error(w, "the host of the git source does not answer", http.StatusBadGateway)
		return
	}
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = there.Close()
		return
	}
	defer client.Close()
	if _, err := io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n"); err == nil {
		r.join(client, there)
	}
}

// forward sends one plain request.
func (r *relay) forward(w http.ResponseWriter, req *http.Request) {
	out := req.Clone(req.Context())
	out.RequestURI = ""
	out.Header.Del("Proxy-Authorization")
	out.Header.Del("Proxy-Connection")
	resp, err := r.plain.RoundTrip(out)
	if err != nil {
		r.failed(err)
		http.Error(w, "the host of the git source does not answer", http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for name, all := range resp.Header {
		for _, value := range all {
			w.Header().Add(name, value)
		}
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body) // the copy ends when either side ends
}
