package skein

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"skein.dev/skein/sdk/shared/local"
)

// Client talks to one server. It may be used from several goroutines.
type Client struct {
	base  *url.URL
	http  *http.Client
	user  string
	token string
	trace string
	// session is sent instead of a token. It is nil if there is no session.
	session *http.Cookie

	patience time.Duration // 0 if the client never repeats a request
	waiting  func(*Error)
}

// Option configures a Client.
type Option func(*Client)

// WithHTTPClient makes the client send its requests through c. c must have no Timeout, because streams of
// logs and events last as long as their contexts.
func WithHTTPClient(c *http.Client) Option { return func(k *Client) { k.http = c } }

// WithTransport makes the client send its requests through rt.
func WithTransport(rt http.RoundTripper) Option {
	return func(k *Client) { k.http = newHTTPClient(rt) }
}

// WithHandler makes h answer the requests in this process, without a socket. h must accept the base URL as
// its own address.
func WithHandler(h http.Handler) Option { return WithTransport(handlerTransport{h}) }

// WithUser names the user of a program that sends no token. Servers show the name as claimed_by, and base no
// decision on it.
func WithUser(name string) Option { return func(k *Client) { k.user = name } }

// WithTraceparent sends a W3C trace context with every request, such as the value of the environment variable
// TRACEPARENT. The runs that the client starts belong to that trace. A transport may replace the header. The
// client leaves out a text that no header can hold.
func WithTraceparent(text string) Option {
	return func(k *Client) {
		if sendable(text) {
			k.trace = text
		}
	}
}

// traceMax bounds the bytes of a trace context, because servers ignore longer ones.
const traceMax = 512

func sendable(text string) bool {
	return len(text) <= traceMax && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// WithToken sends an API token with every request. Without this option, a client of a loopback address sends
// the local token of this user's node at that address.
func WithToken(token string) Option { return func(k *Client) { k.token = token } }

// WithSession authenticates calls with a session, which is the cookie that POST /session has set. A token
// takes precedence. nil means that there is no session.
func WithSession(cookie *http.Cookie) Option { return func(k *Client) { k.session = cookie } }

// WithPatience repeats a request for up to d if the server answers 503 with Retry-After. Servers give this
// answer while no node owns the shards of a dead node, or while the database does not answer. At the first
// refusal of a request, the client calls waiting, unless waiting is nil. Each POST without an idempotency key
// gets one.
func WithPatience(d time.Duration, waiting func(*Error)) Option {
	return func(k *Client) { k.patience, k.waiting = d, waiting }
}

// newHTTPClient makes a client that follows no redirect, because a redirect would send the request and its
// token to another address.
func newHTTPClient(rt http.RoundTripper) *http.Client {
	return &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// New makes a client of the server at a base URL, such as http://127.0.0.1:8080. It sends nothing yet.
func New(baseURL string, opts ...Option) (*Client, error) {
	if !strings.Contains(baseURL, "://") {
		baseURL = "http://" + baseURL
	}
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil, fmt.Errorf("server address: %w", err)
	}
	if u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("server address " + baseURL + ": use http://HOST:PORT or https://HOST:PORT")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	c := &Client{base: u, http: newHTTPClient(newTransport())}
	for _, o := range opts {
		o(c)
	}
	if _, inProcess := c.http.Transport.(handlerTransport); c.token == "" && c.session == nil && !inProcess && local.Loopback(u.Hostname()) {
		own := *c.http
		own.Transport = ownNodes(own.Transport)
		c.http = &own
	}
	return c, nil
}

// ownNodes adds the recorded local token to requests to nodes of this user on this machine.
func ownNodes(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return local.Transport(next)
}

// newTransport is the default transport with a bound on the time to the first byte of an answer. The server
// may delay an answer until the end of a run.
func newTransport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // use the transport by which the program has replaced the default
		return http.DefaultTransport
	}
	t = t.Clone()
	t.ResponseHeaderTimeout = waitMax + 30*time.Second
	return t
}

// waitMax bounds the time for which one request waits at the server for the end of a run.
const waitMax = 5 * time.Minute

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// URL returns the address of the server.
func (c *Client) URL() string { return c.base.String() }
