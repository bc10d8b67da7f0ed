package auth_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
	api "skein.dev/skein/sdk/api/v1"
)

// door is a server behind a gate, with a bound on the connections of an address.
type door struct {
	gate    *auth.Gate
	conns   *auth.Connections
	address string
}

func newDoor(t *testing.T, s auth.Store, connections int, next http.HandlerFunc) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{gate: auth.New(auth.Config{Store: s, Required: true, Route: routeOf}), conns: auth.NewConnections(l, connections, 8*connections), address: l.Addr().String()}
	server := &http.Server{Handler: d.gate.Wrap(next), ConnContext: d.conns.Context, ConnState: d.conns.State, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(d.conns) }()
	t.Cleanup(func() { _ = server.Close() })
	return d
}

// dial opens a connection from an address of this machine and sends some bytes.
func (d *door) dial(t *testing.T, from, text string) (net.Conn, *bufio.Reader) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := dialer.DialContext(t.Context(), "tcp", d.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil { // reached only if the test fails
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewReader(c)
}

func answerOf(t *testing.T, from *bufio.Reader) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp
}

// TestRefusalsEndTheConnection: a call is answered at once if it is refused or if its route takes no body.
// The server does not wait for the rest of its body.
func TestRefusalsEndTheConnection(t *testing.T) {
	s := memory.New(memory.Options{})
	secret, _ := add(t, s, store.TokenAPI, "ann", 0)
	d := newDoor(t, s, 64, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/unread" {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	token := "Authorization: Bearer " + secret + "\r\n"
	for name, c := range map[string]struct {
		path, header string
		status       int
	}{
		"no token":              {"/runs", "Content-Length: 100000\r\n", 401},
		"a wrong token":         {"/runs", "Content-Length: 100000\r\nAuthorization: Bearer nonsense\r\n", 401},
		"another kind of token": {"/internal/x", "Content-Length: 100000\r\n" + token, 403},
		"no token, chunked":     {"/runs", "Transfer-Encoding: chunked\r\n", 401},
		"too large":             {"/runs", fmt.Sprintf("Content-Length: %d\r\n", bodyMax+1) + token, 413},
		"too large for a hook":  {"/hook", fmt.Sprintf("Content-Length: %d\r\n", bodyMax+1), 413},
		"a route without body":  {"/none", "Content-Length: 100000\r\n" + token, 200},
		"a body that is unread": {"/unread", "Content-Length: 100000\r\n" + token, 200},
		"a small one cut off":   {"/unread", "Content-Length: 10\r\n" + token + "\r\n{}", 200},
		"broken chunks":         {"/runs", "Transfer-Encoding: chunked\r\n" + token + "\r\nnonsense\r\n", 400},
	} {
		t.Run(name, func(t *testing.T) {
			_, from := d.dial(t, "127.0.0.1", "POST "+c.path+" HTTP/1.1\r\nHost: x\r\n"+c.header+"\r\n")
			resp := answerOf(t, from)
			if resp.StatusCode != c.status || !resp.Close {
				t.Errorf("%s, closes: %v", resp.Status, resp.Close)
			}
			if _, err := from.ReadByte(); err != io.EOF {
				t.Errorf("the connection goes on: %v", err)
			}
			for _, h := range []string{"X-Content-Type-Options", "Referrer-Policy", "Content-Security-Policy", "Cross-Origin-Opener-Policy",
				"Cross-Origin-Resource-Policy", "Permissions-Policy"} {
				if resp.Header.Get(h) == "" {
					t.Errorf("the answer has no %s", h)
				}
			}
		})
	}
	for _, path := range []string{"/runs", "/unread", "/none"} {
		c, from := d.dial(t, "127.0.0.1", "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"+token+"\r\n{}")
		for range 2 { // the connection stays usable
			if resp := answerOf(t, from); resp.StatusCode != 200 || resp.Close {
				t.Errorf("a good call of %s: %s, closes: %v", path, resp.Status, resp.Close)
			}
			if _, err := io.WriteString(c, "POST /runs HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"+token+"\r\n{}"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := d.gate.BodyBytes(); n != 0 {
		t.Errorf("%d bytes of bodies count when all calls are over", n)
	}
}

// TestBodiesHaveABudget: the bodies of calls without a credential share 16 MiB, of which one address has a
// quarter. A call beyond that is refused, and a call with a token passes.
func TestBodiesHaveABudget(t *testing.T) {
	const budget = 16 << 20
	s := memory.New(memory.Options{})
	secret, _ := add(t, s, store.TokenAPI, "ann", 0)
	g := auth.New(auth.Config{Store: s, Required: true, Route: routeOf})
	read := make(chan struct{})
	h := g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadFull(r.Body, make([]byte, bodyMax)); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if r.URL.Path != "/hook" {
			return
		}
		select {
		case read <- struct{}{}:
		case <-r.Context().Done():
		}
		<-r.Context().Done()
	}))
	call := func(ctx context.Context, from, path, shown string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(strings.Repeat("x", bodyMax)))
		r.RemoteAddr = from + ":1"
		r.Header.Set("Authorization", shown)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	ctx, end := context.WithCancel(t.Context())
	soon, cancel := context.WithTimeout(t.Context(), time.Minute) // reached only if the test fails
	defer cancel()
	var wg sync.WaitGroup
	for i := range budget / bodyMax {
		from := fmt.Sprintf("10.0.0.%d", i/4)
		wg.Go(func() { call(ctx, from, "/hook", "") })
		<-read
		if i%4 != 3 {
			continue
		}
		if w := call(soon, from, "/hook", ""); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), api.ProblemUnavailable) {
			t.Errorf("beyond the budget of one address: %d %s", w.Code, w.Body)
		}
	}
	if w := call(soon, "10.0.0.9", "/hook", ""); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), api.ProblemUnavailable) {
		t.Errorf("beyond the budget: %d %s", w.Code, w.Body)
	}
	if w := call(t.Context(), "10.0.0.1", "/runs", "Bearer "+secret); w.Code != http.StatusOK {
		t.Errorf("with a token: %d %s", w.Code, w.Body)
	}
	end()
	wg.Wait()
	if n := g.BodyBytes(); n != 0 {
		t.Errorf("%d bytes count when all calls are over", n)
	}
	var again sync.WaitGroup
	ctx, end = context.WithCancel(t.Context())
	again.Go(func() { call(ctx, "10.0.0.1", "/hook", "") })
	<-read
	end()
	again.Wait()
}

// TestConnectionsOfAnAddress: connections without a credential are bounded per address. Connections with a
// credential are not counted, and other addresses are not affected. An idle connection makes room.
func TestConnectionsOfAnAddress(t *testing.T) {
	const most = 4
	s := memory.New(memory.Options{})
	secret, _ := add(t, s, store.TokenAPI, "ann", 0)
	d := newDoor(t, s, most, func(http.ResponseWriter, *http.Request) {})
	good := "GET /runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + secret + "\r\n\r\n"
	for range 10 * most { // all stay open
		_, from := d.dial(t, "127.0.0.1", good)
		if resp := answerOf(t, from); resp.StatusCode != 200 || resp.Close {
			t.Fatalf("%s, closes: %v", resp.Status, resp.Close)
		}
	}
	silent := make([]net.Conn, most)
	for i := range silent {
		silent[i], _ = d.dial(t, "127.0.0.1", "GET /ru") // an unfinished request
	}
	waits, from := d.dial(t, "127.0.0.1", good)
	_, other := d.dial(t, "127.0.0.2", good)
	if resp := answerOf(t, other); resp.StatusCode != 200 {
		t.Errorf("another address: %s", resp.Status)
	}
	if err := waits.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if b, err := from.Peek(1); err == nil {
		t.Fatalf("a connection beyond the bound is answered: %q", b)
	}
	_ = silent[0].Close()
	_ = waits.SetReadDeadline(time.Now().Add(time.Minute))
	if resp := answerOf(t, bufio.NewReader(waits)); resp.StatusCode != 200 {
		t.Errorf("after its turn has come: %s", resp.Status)
	}
	// A health check keeps its connection. Being idle, it makes room.
	idle, answer := d.dial(t, "127.0.0.1", "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
	answerOf(t, answer)
	_, from = d.dial(t, "127.0.0.1", good)
	if resp := answerOf(t, from); resp.StatusCode != 200 {
		t.Errorf("in place of an idle one: %s", resp.Status)
	}
	_ = idle.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := answer.ReadByte(); err == nil {
		t.Error("the idle connection goes on")
	}
}

// TestConnectionsOfAllAddresses: silent connections from many addresses, each within its bound, lock no
// caller out. The connection that has been silent for the longest time makes room. One with a request under
// way does not.
func TestConnectionsOfAllAddresses(t *testing.T) {
	const most = 2 // of one address; 16 of all
	s := memory.New(memory.Options{})
	secret, _ := add(t, s, store.TokenAPI, "ann", 0)
	working, work := make(chan struct{}), make(chan struct{})
	d := newDoor(t, s, most, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hook" {
			working <- struct{}{}
			<-work
		}
	})
	good := "GET /runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + secret + "\r\n\r\n"
	hook := "GET /hook HTTP/1.1\r\nHost: x\r\n\r\n"
	_, busy := d.dial(t, "127.0.0.2", hook)
	<-working
	_, first := d.dial(t, "127.0.0.3", "GET /li")
	for i := range 60 {
		d.dial(t, fmt.Sprintf("127.0.1.%d", i/most+1), "GET /li")
	}
	if _, err := first.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the oldest silent connection goes on: %v", err)
	}
	for range 20 { // more than the bound of all
		_, from := d.dial(t, "127.0.0.1", good)
		if resp := answerOf(t, from); resp.StatusCode != 200 {
			t.Errorf("a caller with a token: %s", resp.Status)
		}
	}
	if d.conns.Closed() < 40 {
		t.Errorf("%d connections were closed", d.conns.Closed())
	}
	busies := []*bufio.Reader{busy}
	for i := range 15 { // after these, all connections are busy
		_, from := d.dial(t, fmt.Sprintf("127.0.2.%d", i/most+1), hook)
		busies = append(busies, from)
		<-working
	}
	_, from := d.dial(t, "127.0.0.1", good)
	if resp := answerOf(t, from); resp.StatusCode != 200 {
		t.Errorf("a caller with a token, while all are busy: %s", resp.Status)
	}
	if _, err := busies[0].ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection with the oldest request goes on: %v", err)
	}
	close(work)
	for _, from := range busies[1:] {
		if resp := answerOf(t, from); resp.StatusCode != 200 {
			t.Errorf("a request that was under way: %s", resp.Status)
		}
	}
	_, from = d.dial(t, "127.0.0.1", good)
	if resp := answerOf(t, from); resp.StatusCode != 200 {
		t.Errorf("once there is room: %s", resp.Status)
	}
}

// deadlines is an answer that notes its read deadlines.
type deadlines struct {
	*httptest.ResponseRecorder
	longest time.Duration
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	if !at.IsZero() {
		d.longest = max(d.longest, time.Until(at))
	}
	return nil
}

// TestLargeBodiesHaveMoreTime: a body of 32 MiB may arrive at 64 KiB/s if its caller has shown a
// credential. A small body on the same route gets no extra time.
func TestLargeBodiesHaveMoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
		secret, _ := add(t, s, store.TokenAPI, "ann", 0)
		for _, c := range []struct {
			path string
			size int64
			want time.Duration
		}{{"/hook", 1 << 20, 10 * time.Second}, {"/runs", 1 << 20, 76 * time.Second}, {"/apply", 32 << 20, 572 * time.Second},
			{"/apply", -1, 572 * time.Second}, {"/apply", 100, time.Minute}} {
			g := auth.New(auth.Config{Store: s, Required: true, Route: func(r *http.Request) auth.Route {
				if r.URL.Path == "/apply" {
					return auth.Route{Verb: access.RunRead, BodyMax: 32 << 20}
				}
				return routeOf(r)
			}})
			d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
			r := httptest.NewRequest(http.MethodPost, c.path, strings.NewReader("x"))
			r.ContentLength = c.size
			r.Header.Set("Authorization", "Bearer "+secret)
			g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = r.Body.Read(make([]byte, 1)) })).ServeHTTP(d, r)
			if d.longest != c.want {
				t.Errorf("%s with %d bytes: %v, want %v", c.path, c.size, d.longest, c.want)
			}
		}
	})
}

// TestFloodOfUnknownTokens: any number of unknown tokens costs few readings of the store, and evicts no
// known token. After 20 refusals in a second, an address gets 429 without a reading.
func TestFloodOfUnknownTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &away{Store: memory.New(memory.Options{})}
		secret, _ := add(t, s.Store, store.TokenAPI, "ann", 0)
		g := auth.New(auth.Config{Store: s, Required: true, Route: routeOf})
		h := g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		call := func(from, secret string) int {
			r := httptest.NewRequest(http.MethodGet, "/runs", nil)
			r.RemoteAddr = from + ":1"
			r.Header.Set("Authorization", "Bearer "+secret)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		if code := call("10.0.0.1", secret); code != 200 {
			t.Fatal(code)
		}
		codes := map[int]int{}
		for range 30 { // in one instant of the bubble's clock, except for the waits for the store
			codes[call("10.0.0.2", "nonsense")]++
		}
		if codes[401] != 20 || codes[429] != 10 {
			t.Errorf("one address gets %v", codes)
		}
		var wg sync.WaitGroup
		s.reads.Store(0)
		for i := range 2000 {
			wg.Go(func() { call(fmt.Sprintf("10.1.%d.%d", i/250, i%250), auth.NewSecret("api")) })
		}
		wg.Wait()
		if n := s.reads.Load(); n > 5 {
			t.Errorf("2,000 unknown tokens at once cost %d readings", n)
		}
		s.err = errors.New("away")
		time.Sleep(time.Minute)
		if code := call("10.0.0.1", secret); code != 200 {
			t.Errorf("a known holder gets %d while the store is away, after the flood", code)
		}
		if code := call("10.0.0.2", secret); code != 200 {
			t.Errorf("a known holder at the address of the flood gets %d", code)
		}
	})
}

// TestStreamsEndWithTheirToken: a call that lasts ends within 5 s after its token was revoked or has
// expired.
func TestStreamsEndWithTheirToken(t *testing.T) {
	for _, how := range []string{"revoked", "expired"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory.New(memory.Options{})
				expires := dag.Micros(0)
				if how == "expired" {
					now, err := s.Clock(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					expires = now + 60_000_000
				}
				secret, row := add(t, s, store.TokenAPI, "ann", expires)
				g := auth.New(auth.Config{Store: s, Required: true, Route: routeOf})
				r := httptest.NewRequest(http.MethodGet, "/events", nil)
				r.Header.Set("Authorization", "Bearer "+secret)
				w := httptest.NewRecorder()
				over := make(chan time.Time, 1)
				go func() {
					g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						<-r.Context().Done()
						w.WriteHeader(http.StatusServiceUnavailable) // the answer of a wait that was cut short
					})).ServeHTTP(w, r)
					over <- time.Now()
				}()
				time.Sleep(time.Minute)
				if how == "revoked" {
					synctest.Wait()
					select {
					case <-over:
						t.Fatal("it ended before")
					default:
					}
					if err := s.RevokeToken(t.Context(), row.ID); err != nil {
						t.Fatal(err)
					}
				}
				was := time.Now()
				if at := <-over; at.Sub(was) > 5*time.Second {
					t.Errorf("it ended %v after the token was %s", at.Sub(was), how)
				}
				if w.Code != http.StatusUnauthorized {
					t.Errorf("the answer is %d", w.Code)
				}
			})
		})
	}
}

// TestConnectionsAreWhatNetHTTPWants: a bounded connection has every method of a TCP connection that
// net/http uses.
func TestConnectionsAreWhatNetHTTPWants(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns := auth.NewConnections(l, 1, 1)
	defer conns.Close()
	there, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	here, err := conns.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	if _, err := io.WriteString(here, "all"); err != nil {
		t.Fatal(err)
	}
	if err := here.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(there); err != nil || string(got) != "all" {
		t.Errorf("%q %v", got, err)
	}
	if _, err := io.WriteString(there, "still heard"); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(io.LimitReader(here, 11)); err != nil || string(got) != "still heard" {
		t.Errorf("%q %v", got, err)
	}
}
