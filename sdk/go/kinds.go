package skein

import (
	"context"
	"net/http"

	api "skein.dev/skein/sdk/api/v1"
)

// Kinds makes the calls about the kinds of tasks of a cluster.
type Kinds struct{ c *Client }

// NewKinds returns the Kinds of a client's server.
func NewKinds(c *Client) Kinds { return Kinds{c} }

// List lists the kinds that nodes and workers can run, one row for each declaration.
func (k Kinds) List(ctx context.Context) ([]api.Kind, error) {
	var page api.List[api.Kind]
	_, err := k.c.do(ctx, newCall(http.MethodGet, nil, "kinds"), &page)
	return page.Items, err
}

// Refused lists the folders of extensions that nodes and workers do not use.
func (k Kinds) Refused(ctx context.Context) ([]api.RefusedExtension, error) {
	var page api.List[api.RefusedExtension]
	_, err := k.c.do(ctx, newCall(http.MethodGet, nil, "refused-extensions"), &page)
	return page.Items, err
}
