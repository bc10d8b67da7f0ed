package skein

import (
	"context"
	"net/http"

	api "skein.dev/skein/sdk/api/v1"
)

// Authority reads the roots of the internal certificate authority.
func Authority(ctx context.Context, c *Client) (a api.Authority, err error) {
	_, err = c.do(ctx, newCall(http.MethodGet, nil, "authority"), &a)
	return a, err
}

// ReplaceAuthority changes the root of the internal certificate authority, and ends the old one at once.
// Every worker has to join again.
func ReplaceAuthority(ctx context.Context, c *Client) (a api.Authority, err error) {
	k := newCall(http.MethodPost, nil, "authority")
	k.verb = "rotate"
	k.query.Set("now", "true")
	_, err = c.do(ctx, k, &a)
	return a, err
}

// RotateAuthority changes the root of the internal certificate authority.
func RotateAuthority(ctx context.Context, c *Client) (a api.Authority, err error) {
	k := newCall(http.MethodPost, nil, "authority")
	k.verb = "rotate"
	_, err = c.do(ctx, k, &a)
	return a, err
}
