package skein

import (
	"context"
	"net/http"

	api "skein.dev/skein/api/v1"
)

// Nodes lists the nodes.
func (c *Client) Nodes(ctx context.Context) (page api.List[api.Node], err error) {
	_, err = c.do(ctx, newCall(http.MethodGet, nil, "nodes"), &page)
	return page, err
}

// Status reads the state of the node that answers.
func (c *Client) Status(ctx context.Context) (s api.Status, err error) {
	_, err = c.do(ctx, newCall(http.MethodGet, nil, "status"), &s)
	return s, err
}

// ServerVersion reads the version of the server.
func (c *Client) ServerVersion(ctx context.Context) (v api.ServerVersion, err error) {
	k := newCall(http.MethodGet, nil, "version")
	k.root = true
	_, err = c.do(ctx, k, &v)
	return v, err
}

// Ready asks whether the server takes submissions; the error says why not.
func (c *Client) Ready(ctx context.Context) error {
	k := newCall(http.MethodGet, nil, "readyz")
	k.root = true
	_, err := c.do(ctx, k, nil)
	return err
}
