package skein

import (
	"context"
	"net/http"
	"strconv"

	api "skein.dev/skein/sdk/api/v1"
)

// Tokens lists the tokens, including revoked ones.
func (c *Client) Tokens(ctx context.Context) (page api.List[api.Token], err error) {
	_, err = c.do(ctx, newCall(http.MethodGet, nil, "tokens"), &page)
	return page, err
}

// CreateToken makes a token. Only this answer contains its secret.
func (c *Client) CreateToken(ctx context.Context, req api.TokenRequest) (t api.NewToken, err error) {
	k := newCall(http.MethodPost, nil, "tokens")
	k.body = req
	_, err = c.do(ctx, k, &t)
	return t, err
}

// RevokeToken ends a token. Every node refuses the token within seconds.
func (c *Client) RevokeToken(ctx context.Context, id int64) (t api.Token, err error) {
	k := newCall(http.MethodPost, nil, "tokens", strconv.FormatInt(id, 10))
	k.verb = "revoke"
	_, err = c.do(ctx, k, &t)
	return t, err
}

// RotateToken makes the successor of a token. Only this answer contains the successor's secret. The old
// token stays valid until the time in the answer.
func RotateToken(ctx context.Context, c *Client, id int64, req api.RotateRequest) (t api.RotatedToken, err error) {
	k := newCall(http.MethodPost, nil, "tokens", strconv.FormatInt(id, 10))
	k.verb, k.body = "rotate", req
	_, err = c.do(ctx, k, &t)
	return t, err
}
