package skein

import (
	"context"
	"net/http"
	"net/url"

	api "skein.dev/skein/sdk/api/v1"
)

// Namespaces makes the calls about namespaces and their quotas.
type Namespaces struct{ c *Client }

// NewNamespaces returns the Namespaces of a client's server.
func NewNamespaces(c *Client) Namespaces { return Namespaces{c} }

// List lists a page of namespaces by name. An empty namespace lists all.
func (n Namespaces) List(ctx context.Context, namespace, cursor string, limit int) (page api.List[api.Namespace], err error) {
	k := newCall(http.MethodGet, nil, "namespaces")
	if k.query = pageQuery(cursor, limit); k.query == nil {
		k.query = url.Values{}
	}
	if namespace != "" {
		k.query.Set("namespace", namespace)
	}
	_, err = n.c.do(ctx, k, &page)
	return page, err
}

// Set sets all quotas of a namespace.
func (n Namespaces) Set(ctx context.Context, namespace string, quotas api.Quotas) (api.Namespace, error) {
	return n.Put(ctx, namespace, api.NamespaceRequest{Quotas: quotas})
}

// Put sets all quotas of a namespace, and its isolation unless the request leaves it out.
func (n Namespaces) Put(ctx context.Context, namespace string, to api.NamespaceRequest) (is api.Namespace, err error) {
	k := newCall(http.MethodPut, nil, "namespaces", namespace)
	k.body = to
	_, err = n.c.do(ctx, k, &is)
	return is, err
}
