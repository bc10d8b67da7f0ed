package skein

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	api "skein.dev/skein/sdk/api/v1"
)

// pageMax is the largest page that a server returns.
const pageMax = 1000

// answerMax bounds the bytes that are read from one JSON answer.
const answerMax = 1 << 30

// call is one request.
type call struct {
	method string
	path   []string // segments before escaping
	verb   string   // verb after a colon
	root   bool     // the path is not below api.Prefix
	at     *url.URL // complete address, used instead of path, verb, root and query; nil if not set
	query  url.Values
	header http.Header
	body   any // nil if there is no body; a rawBody is sent unchanged
}

// rawBody is a body that is not JSON. The header has its Content-Type.
type rawBody []byte

func newCall(method string, opts []CallOption, path ...string) *call {
	k := &call{method: method, path: path, query: url.Values{}, header: http.Header{}}
	for _, o := range opts {
		o(k)
	}
	return k
}

func set(v url.Values, key, value string) {
	if value != "" {
		v.Set(key, value)
	}
}

func setInt(v url.Values, key string, value int64) {
	if value != 0 {
		v.Set(key, strconv.FormatInt(value, 10))
	}
}

func pageQuery(cursor string, limit int) url.Values {
	v := url.Values{}
	set(v, "cursor", cursor)
	setInt(v, "limit", int64(limit))
	return v
}

func (c *Client) url(k *call) *url.URL {
	if k.at != nil {
		return k.at
	}
	u := *c.base
	var path, raw strings.Builder
	path.WriteString(u.Path)
	raw.WriteString(u.EscapedPath())
	if !k.root {
		path.WriteString(api.Prefix)
		raw.WriteString(api.Prefix)
	}
	for _, s := range k.path {
		path.WriteString("/" + s)
		raw.WriteString("/" + url.PathEscape(s))
	}
	if k.verb != "" {
		path.WriteString(":" + k.verb)
		raw.WriteString(":" + k.verb)
	}
	u.Path, u.RawPath, u.RawQuery = path.String(), raw.String(), k.query.Encode()
	return &u
}

// send sends a request. It repeats a refused request if the client has patience. If the status is below 300,
// the caller closes the body of the answer. For any other status, send returns an error.
func (c *Client) send(ctx context.Context, k *call) (*http.Response, error) {
	body, raw := k.body.(rawBody)
	if k.body != nil && !raw {
		var err error
		if body, err = json.Marshal(k.body); err != nil {
			return nil, fmt.Errorf("%w: encode the request: %w", ErrInvalid, err)
		}
		k.header.Set("Content-Type", "application/json")
	}
	// A caller of Call may put the key into the body. In this case the header must not have a key.
	if k.at == nil && c.patience > 0 && k.method == http.MethodPost && k.header.Get(api.HeaderIdempotencyKey) == "" {
		k.header.Set(api.HeaderIdempotencyKey, api.KeyOnce+uuid.NewString())
	}
	for began, first := time.Now(), true; ; first = false {
		resp, err := c.sendOnce(ctx, k, body)
		var e *Error
		if err == nil || !errors.As(err, &e) || e.Problem.Status != http.StatusServiceUnavailable || e.RetryAfter == 0 ||
			time.Since(began)+e.RetryAfter > c.patience {
			return resp, err
		}
		if first && c.waiting != nil {
			c.waiting(e)
		}
		select {
		case <-ctx.Done():
			return nil, err
		// Random, so that callers that were refused together do not return together.
		case <-time.After(e.RetryAfter + rand.N(e.RetryAfter/4)):
		}
	}
}

func (c *Client) sendOnce(ctx context.Context, k *call, body []byte) (*http.Response, error) {
	var b io.Reader
	if body != nil {
		b = bytes.NewReader(body)
	}
	u := c.url(k).String()
	req, err := http.NewRequestWithContext(ctx, k.method, u, b)
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", u, err)
	}
	req.Header = k.header.Clone()
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	if c.user != "" {
		req.Header.Set(api.HeaderClaimedBy, c.user)
	}
	if c.trace != "" {
		req.Header.Set("Traceparent", c.trace)
	}
	switch {
	case c.token != "":
		req.Header.Set("Authorization", "Bearer "+c.token)
	case c.session != nil:
		req.AddCookie(c.session)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, unreachable(c.base.String(), err)
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		err := refusal(resp)
		if c.base.Scheme == "http" && err.Problem.Detail == notTLS {
			return nil, fmt.Errorf("%w: %s", ErrSpeaksTLS, c.base)
		}
		return nil, err
	}
	return resp, nil
}

// notTLS is the plain-text answer of a Go server that speaks TLS to a client that does not.
const notTLS = "Client sent an HTTP request to an HTTPS server."

// do sends a request, and decodes its JSON answer into out unless out is nil.
func (c *Client) do(ctx context.Context, k *call, out any) (status int, err error) {
	resp, err := c.send(ctx, k)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if out == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, answerMax)) // lets the connection be used again
		return resp.StatusCode, nil
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	if err != nil {
		return 0, unreachable(c.base.String(), err)
	}
	if err := json.Unmarshal(b, out); err != nil {
		return 0, fmt.Errorf("answer of %s: %w", c.base, err)
	}
	return resp.StatusCode, nil
}

// problemMax bounds the bytes that are read of a refusal.
const problemMax = 4 << 20

// retryAfterMax bounds the seconds that a server can make a client wait.
const retryAfterMax = 24 * 3600

func refusal(resp *http.Response) *Error {
	e := &Error{}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		e.RetryAfter = time.Duration(min(s, retryAfterMax)) * time.Second
	}
	b, _ := io.ReadAll(io.LimitReader(resp.Body, problemMax))
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind != "application/problem+json" || json.Unmarshal(b, &e.Problem) != nil {
		e.Problem.Title = http.StatusText(resp.StatusCode)
		e.Problem.Detail = "the server answered " + resp.Status
		if resp.StatusCode == http.StatusBadRequest && strings.TrimSpace(string(b)) == notTLS {
			e.Problem.Detail = notTLS
		}
	}
	e.Problem.Status = resp.StatusCode
	return e
}

// each iterates over all pages.
func each[T any](cursor string, page func(cursor string) (api.List[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			p, err := page(cursor)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, it := range p.Items {
				if !yield(it, nil) {
					return
				}
			}
			if p.Next == nil {
				return
			}
			cursor = *p.Next
		}
	}
}
