package skein

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	api "skein.dev/skein/sdk/api/v1"
)

// Call sends a request to a path of the REST API, such as /runs?limit=5, and returns the answer. The caller
// closes the body of the answer. The path may begin with /api/v1 or leave it out. If the status is 300 or
// more, Call returns an *Error. The body of the request is JSON, unless header has another Content-Type. Use
// Call for routes that no method of Client covers.
func (c *Client) Call(ctx context.Context, method, path string, body json.RawMessage, header http.Header) (*http.Response, error) {
	at, err := addressOf(c.base, path)
	if err != nil {
		return nil, err
	}
	k := &call{method: method, at: at, query: url.Values{}, header: http.Header{}}
	if header != nil {
		k.header = header.Clone()
	}
	switch kind := k.header.Get("Content-Type"); {
	case body == nil:
	case kind == "" || strings.HasPrefix(strings.ToLower(kind), "application/json"):
		k.body = body
	default:
		k.body = rawBody(body)
	}
	return c.send(ctx, k)
}

// addressOf returns the address of a path of the REST API. It refuses a path that would send the client's
// token to another server, or to another route of this server.
func addressOf(base *url.URL, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: path: %w", ErrInvalid, err)
	case u.Scheme != "" || u.Host != "" || u.User != nil || u.Fragment != "" || !strings.HasPrefix(u.Path, "/"):
		return nil, fmt.Errorf("%w: path %q: use a path such as /runs?limit=5, without the address of a server", ErrInvalid, text)
	case u.Path != "/" && path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/"):
		return nil, fmt.Errorf("%w: path %q: use a path without . and .. and empty parts", ErrInvalid, text)
	}
	below := strings.TrimPrefix(u.EscapedPath(), api.Prefix)
	if below == "" || below[0] != '/' { // there is no path, or one such as /api/v1x
		below = u.EscapedPath()
	}
	at, err := url.Parse(base.String() + api.Prefix + below)
	if err != nil {
		return nil, fmt.Errorf("%w: path %q: %w", ErrInvalid, text, err)
	}
	at.RawQuery = u.RawQuery
	return at, nil
}
