package app

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/certificate/certtest"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/peer"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres/pgtest"
)

// openNode is a node that requires tokens, with a token of each kind.
type openNode struct {
	*Node
	tokens map[string]string // by kind
	config *tls.Config       // nil means in plain text
	host   string
	web    *http.Client // calls by HTTP/2
}

// newOpenNode runs a node with tokens, and with a certificate or in plain text. Bodies that do not arrive are
// given up after a second.
func newOpenNode(t *testing.T, flags map[string]string, encrypted bool) *openNode {
	t.Helper()
	cert, key := certtest.Files(t)
	flags["listen"], flags["ca-cert"] = "0.0.0.0:0", cert
	flags["connections-per-address"] = "100000" // all connections come from one address
	flags["advertise"] = "https://localhost:1"  // no other node is there
	if encrypted {
		flags["tls-cert"], flags["tls-key"] = cert, key
	} else {
		flags["insecure-plaintext"] = "true"
	}
	c := testConfig(t, flags)
	st, err := openDatabase(t, c)
	if err != nil {
		t.Fatal(err)
	}
	o := &openNode{tokens: map[string]string{}}
	for i, kind := range []string{store.TokenAPI, store.TokenAPI, store.TokenWorker, store.TokenNode} {
		// The second API token replaces the first one here, because the walk over all routes revokes the
		// first one.
		o.tokens[kind] = auth.NewSecret(kind)
		hash, err := auth.HashSecret(o.tokens[kind])
		if err == nil {
			_, err = st.AddToken(t.Context(), store.WholeToken(kind, fmt.Sprint(kind, i, " of ", c.Name), hash))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	c.APIToken = o.tokens[store.TokenNode]
	if o.Node, err = Open(t.Context(), c, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	o.gate = auth.New(auth.Config{Store: o.store, Required: true, Route: o.route, Channel: o.members.proofs(), Refusals: 1 << 20,
		StrangerBody: time.Second, CallerBody: time.Second})
	o.http.Handler = o.gate.Wrap(o.handler)
	o.http.ReadTimeout = time.Second
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the node ended: %v", err)
		}
	})
	<-o.Ready()
	_, port, _ := net.SplitHostPort(o.listener.Addr().String())
	o.host = net.JoinHostPort("localhost", port)
	transport := &http.Transport{MaxConnsPerHost: 4, Protocols: new(http.Protocols)}
	if encrypted {
		text, err := os.ReadFile(cert)
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(text)
		o.config = &tls.Config{RootCAs: pool, ServerName: "localhost", ClientSessionCache: tls.NewLRUClientSessionCache(0)}
		transport.TLSClientConfig = o.config.Clone()
	}
	transport.Protocols.SetHTTP2(encrypted)
	transport.Protocols.SetUnencryptedHTTP2(!encrypted)
	o.web = &http.Client{Transport: transport}
	t.Cleanup(o.web.CloseIdleConnections)
	return o
}

func (o *openNode) url(path string) string {
	if o.config == nil {
		return "http://" + o.host + path
	}
	return "https://" + o.host + path
}

func openDatabase(t *testing.T, c *config.Config) (store.Store, error) {
	t.Helper()
	if err := datadir.Prepare(c.Data); err != nil {
		return nil, err
	}
	return dbadmin.Open(t.Context(), c, nil)
}

// endpoint is one method of one path, with the kind of token that it requires.
type endpoint struct{ method, path, kind string }

// endpoints returns every row of the table of access, and calls of paths and methods that the table does not
// have.
func (o *openNode) endpoints(t *testing.T) []endpoint {
	t.Helper()
	var all []endpoint
	name := regexp.MustCompile(`\{[a-z_.]+\}`)
	for _, row := range access.Table() {
		e := endpoint{row.Method, name.ReplaceAllString(row.Path, "1"), store.TokenAPI}
		switch {
		case row.Verb == access.Public:
			e.kind = ""
		case row.Of == access.OfWorker:
			e.kind = store.TokenWorker
		case row.Of == access.OfNode:
			e.kind = store.TokenNode
		}
		all = append(all, e)
	}
	for _, path := range []string{"/", "/nothing/here", "/version", "/metrics", "/api/docs", "/api/v1/openapi.json", "/api/v1/nothing"} {
		all = append(all, endpoint{http.MethodPost, path, store.TokenAPI})
	}
	all = append(all, endpoint{http.MethodPost, "/livez", ""}, endpoint{http.MethodPost, peer.Prefix + "nothing", store.TokenNode})
	if len(all) < 200 {
		t.Fatalf("only %d endpoints", len(all))
	}
	return all
}

// endless returns bytes as long as its reader reads.
type endless struct{ ctx context.Context }

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), e.ctx.Err()
}

// unfinished gives a few bytes, and then none until it is closed.
type unfinished struct {
	said atomic.Bool
	over chan struct{}
	once sync.Once
}

func newUnfinished() *unfinished { return &unfinished{over: make(chan struct{})} }

func (u *unfinished) Read(p []byte) (int, error) {
	if !u.said.Swap(true) {
		return copy(p, "  "), nil
	}
	<-u.over
	return 0, io.ErrUnexpectedEOF
}

func (u *unfinished) Close() error {
	u.once.Do(func() { close(u.over) })
	return nil
}

// TestEveryRouteIsBounded calls everything that a node serves, alone and in a cluster, in plain text and
// over TLS, by HTTP/1.1 and by HTTP/2. The bodies stop in the middle or never end. Some calls have the right
// token, and some have none. Every call is answered, and no goroutine and no byte in flight is left.
func TestEveryRouteIsBounded(t *testing.T) {
	pg, err := pgtest.Start(pgtest.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pg.Close() }()
	for _, node := range []struct {
		name, db  string
		encrypted bool
	}{
		{name: "alone plain"},
		{name: "alone TLS", encrypted: true},
		{name: "cluster plain", db: pg.URL("postgres")},
		{name: "cluster TLS", db: pg.URL("postgres"), encrypted: true},
	} {
		t.Run(node.name, func(t *testing.T) {
			flags := map[string]string{}
			if node.db != "" {
				flags["db"], flags["name"] = node.db, strings.Fields(node.name)[1]
			}
			o := newOpenNode(t, flags, node.encrypted)
			t.Run("HTTP/1.1", func(t *testing.T) { o.walk(t, o.byOne) })
			t.Run("HTTP/2", func(t *testing.T) { o.walk(t, o.byTwo) })
		})
	}
}

// TestOddRequestsEnd checks requests that net/http answers itself, without a handler: they end, too, even if
// their body does not end.
func TestOddRequestsEnd(t *testing.T) {
	o := newOpenNode(t, map[string]string{}, false)
	for _, head := range []string{"OPTIONS * HTTP/1.1", "OPTIONS * HTTP/1.1\r\nExpect: nonsense", "POST /api/v1/runs HTTP/1.1\r\nExpect: nonsense",
		"POST /api/v1/runs HTTP/1.1\r\nExpect: 100-continue", "CONNECT localhost:1 HTTP/1.1", "TRACE / HTTP/1.1", "PRI / HTTP/1.1", "POST //api//v1//runs HTTP/1.1"} {
		t.Run(head, func(t *testing.T) {
			c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", o.host)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			if _, err := io.WriteString(c, head+"\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n  "); err != nil {
				t.Fatal(err)
			}
			if said, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the connection goes on after %.100q", said)
			}
		})
	}
}

// caller makes one call, with an unfinished body or an endless one, and returns the status of the answer.
type caller func(ctx context.Context, e endpoint, token string, endless bool) (int, error)

// walk calls every route in every way.
func (o *openNode) walk(t *testing.T, call caller) {
	room := make(chan struct{}, 48)
	var wg sync.WaitGroup
	var calls, answered [2]atomic.Int64 // [0] counts calls whose body stops, [1] calls whose body never ends
	for _, e := range o.endpoints(t) {
		for _, token := range []string{"", o.tokens[e.kind]} {
			for _, endless := range []bool{false, true} {
				room <- struct{}{}
				if n := o.gate.BodyBytes(); n > 272<<20 {
					t.Errorf("%d bytes of bodies at once", n)
				}
				wg.Go(func() {
					defer func() { <-room }()
					kind := 0
					if endless {
						kind = 1
					}
					calls[kind].Add(1)
					if bounded(t, call, e, token, endless) {
						answered[kind].Add(1)
					}
				})
			}
		}
	}
	wg.Wait()
	// On a busy machine, many callers miss the answer: they are still sending, or their handshake takes too long.
	if n, all := answered[0].Load(), calls[0].Load(); n < all/4 {
		t.Errorf("%d of %d calls whose body stops were answered", n, all)
	}
	if n, all := answered[1].Load(), calls[1].Load(); n < all/4 {
		t.Errorf("%d of %d calls whose body never ends were answered", n, all)
	}
	for began := time.Now(); o.gate.BodyBytes() != 0; time.Sleep(time.Millisecond) { // a handler may end after its answer
		if time.Since(began) > time.Minute {
			t.Fatalf("%d bytes of bodies are left", o.gate.BodyBytes())
		}
	}
}

// bounded makes one call. It must end: with an answer, which is 401 for a call without a token, or with the
// end of the connection. A caller that still sends when the node closes the connection may miss the answer;
// then bounded returns false.
func bounded(t *testing.T, call caller, e endpoint, token string, endless bool) (answered bool) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	status, err := call(ctx, e, token, endless)
	// The last one occurs over TLS.
	for _, end := range []error{syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, end) {
			return false
		}
	}
	if err != nil || token == "" && e.kind != "" && status != http.StatusUnauthorized {
		t.Errorf("%s %s, token %.12q, endless %v: %d, %v", e.method, e.path, token, endless, status, err)
	}
	return true
}

// byTwo makes a call by HTTP/2.
func (o *openNode) byTwo(ctx context.Context, e endpoint, token string, ends bool) (int, error) {
	body := func() (io.ReadCloser, error) {
		if ends {
			return io.NopCloser(endless{ctx}), nil
		}
		return newUnfinished(), nil
	}
	first, _ := body()
	req, err := http.NewRequestWithContext(ctx, e.method, o.url(e.path), first)
	if err != nil {
		return 0, err
	}
	req.GetBody = body // needed if the node ends the connection at that moment because of another call
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := o.web.Transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	if resp.ProtoMajor != 2 {
		err = errors.New("this was " + resp.Proto)
	}
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

// byOne makes a call over a connection of its own, which must end.
func (o *openNode) byOne(ctx context.Context, e endpoint, token string, ends bool) (int, error) {
	var dialer interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	} = &net.Dialer{}
	if o.config != nil {
		dialer = &tls.Dialer{Config: o.config} // the dialer offers no other protocol
	}
	c, err := dialer.DialContext(ctx, "tcp", o.host)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	deadline, _ := ctx.Deadline()
	_ = c.SetDeadline(deadline)
	head := e.method + " " + e.path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	if token != "" {
		head += "Authorization: Bearer " + token + "\r\n"
	}
	if !ends {
		_, err = io.WriteString(c, head+"Content-Length: 100000\r\n\r\n  ")
	} else if _, err = io.WriteString(c, head+"Transfer-Encoding: chunked\r\n\r\n"); err == nil {
		go func() {
			chunk := "8000\r\n" + strings.Repeat(" ", 0x8000) + "\r\n"
			for {
				if _, err := io.WriteString(c, chunk); err != nil {
					return // the server has closed the connection
				}
			}
		}()
	}
	if err != nil {
		return 0, err
	}
	from := bufio.NewReader(c)
	resp, err := http.ReadResponse(from, nil)
	if err != nil {
		return 0, err
	}
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		return resp.StatusCode, nil
	}
	// The rest of the request may cut a long answer short.
	if _, err := io.Copy(io.Discard, resp.Body); err != nil && !ends {
		return 0, fmt.Errorf("the body of the answer: %w", err)
	}
	if _, err := from.ReadByte(); err == nil || os.IsTimeout(err) {
		return 0, fmt.Errorf("the connection goes on: %w", err)
	}
	return resp.StatusCode, nil
}
