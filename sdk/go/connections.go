package skein

import (
	"context"
	"net/http"
	"net/url"

	api "skein.dev/skein/sdk/api/v1"
)

// Connections makes the calls about connections.
type Connections struct{ c *Client }

// NewConnections returns the Connections of a client's server.
func NewConnections(c *Client) Connections { return Connections{c} }

// List lists a page of connections, by namespace and name. An empty namespace lists the connections of all
// namespaces.
func (n Connections) List(ctx context.Context, namespace, cursor string, limit int) (page api.List[api.Connection], err error) {
	k := newCall(http.MethodGet, nil, "connections")
	if k.query = pageQuery(cursor, limit); k.query == nil {
		k.query = url.Values{}
	}
	if namespace != "" {
		k.query.Set("namespace", namespace)
	}
	_, err = n.c.do(ctx, k, &page)
	return page, err
}

// Set creates or replaces a connection. Attempts that start later use it.
func (n Connections) Set(ctx context.Context, namespace, name string, config map[string]any) (is api.Connection, err error) {
	k := newCall(http.MethodPut, nil, "connections", namespace, name)
	k.body = api.ConnectionRequest{Config: config}
	_, err = n.c.do(ctx, k, &is)
	return is, err
}

// Delete removes a connection. Tasks that use it fail to start.
func (n Connections) Delete(ctx context.Context, namespace, name string) error {
	_, err := n.c.do(ctx, newCall(http.MethodDelete, nil, "connections", namespace, name), nil)
	return err
}

// Test tests a connection once, from the node that answers.
func (n Connections) Test(ctx context.Context, namespace, name string) (is api.ConnectionTest, err error) {
	k := newCall(http.MethodPost, nil, "connections", namespace, name)
	k.verb = "test"
	_, err = n.c.do(ctx, k, &is)
	return is, err
}
