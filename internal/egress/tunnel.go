package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"time"
)

// answerMax bounds the answer of a proxy, in bytes.
const answerMax = 64 << 10

// Tunnel returns a function that connects to the servers of https URLs. If the rules name a proxy for such a
// URL, the connection is a tunnel of the proxy. Otherwise it is made as by Dialer.
func Tunnel(r Rules) (func(ctx context.Context, network, address string) (net.Conn, error), error) {
	g, err := newGuard(r)
	if err != nil {
		return nil, err
	}
	t, err := g.transport()
	if err != nil || t.Proxy == nil {
		return g.dial, err
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		u, err := t.Proxy((&http.Request{URL: &url.URL{Scheme: "https", Host: address}}).WithContext(ctx))
		switch {
		case err != nil:
			return nil, err
		case u == nil:
			return g.dial(ctx, network, address)
		}
		return g.tunnel(ctx, u, address)
	}, nil
}

// tunnel asks a proxy for a tunnel to an address.
func (g *guard) tunnel(ctx context.Context, proxy *url.URL, address string) (conn net.Conn, err error) {
	at := hostPort(proxy)
	if conn, err = g.dial(ctx, "tcp", at); err != nil {
		return nil, fmt.Errorf("the proxy %s: %w", at, err)
	}
	defer func() {
		if err != nil {
			_ = conn.Close()
			err = fmt.Errorf("the proxy %s: %w", at, err)
		}
	}()
	if err := conn.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return conn, err
	}
	if proxy.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: proxy.Hostname(), MinVersion: tls.VersionTLS12})
	}
	ask := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if proxy.User != nil {
		password, _ := proxy.User.Password()
		ask.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(proxy.User.Username()+":"+password)))
	}
	if err := ask.Write(conn); err != nil {
		return conn, err
	}
	bound := &io.LimitedReader{R: conn, N: answerMax}
	from := bufio.NewReader(bound)
	answer, err := http.ReadResponse(from, ask)
	if err != nil {
		return conn, err
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return conn, fmt.Errorf("it answered %s to a tunnel to %s", answer.Status, address)
	}
	bound.N = math.MaxInt64 // from here on, the bytes come from the server behind the proxy
	return &tunnelled{conn, from}, conn.SetDeadline(time.Time{})
}

// tunnelled is a connection whose first bytes were read together with the answer of the proxy.
type tunnelled struct {
	net.Conn
	from *bufio.Reader
}

func (t *tunnelled) Read(p []byte) (int, error) { return t.from.Read(p) }
