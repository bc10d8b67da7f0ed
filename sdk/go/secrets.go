package skein

import (
	"context"
	"net/http"
	"net/url"

	api "skein.dev/skein/sdk/api/v1"
)

// Secrets makes the calls about secrets. No call returns a value.
type Secrets struct{ c *Client }

// NewSecrets returns the Secrets of a client's server.
func NewSecrets(c *Client) Secrets { return Secrets{c} }

// List lists a page of secrets, by namespace and name. An empty namespace lists the secrets of all
// namespaces.
func (s Secrets) List(ctx context.Context, namespace, cursor string, limit int) (page api.List[api.Secret], err error) {
	k := newCall(http.MethodGet, nil, "secrets")
	if k.query = pageQuery(cursor, limit); k.query == nil {
		k.query = url.Values{}
	}
	if namespace != "" {
		k.query.Set("namespace", namespace)
	}
	_, err = s.c.do(ctx, k, &page)
	return page, err
}

// Set sets the value of a secret. Attempts that start later get the value.
func (s Secrets) Set(ctx context.Context, namespace, name, value string) (is api.Secret, err error) {
	k := newCall(http.MethodPut, nil, "secrets", namespace, name)
	k.body = api.SecretRequest{Value: value}
	_, err = s.c.do(ctx, k, &is)
	return is, err
}

// Delete removes a secret. Tasks that use it fail to start.
func (s Secrets) Delete(ctx context.Context, namespace, name string) error {
	_, err := s.c.do(ctx, newCall(http.MethodDelete, nil, "secrets", namespace, name), nil)
	return err
}

// RotateKey changes the key of the secrets, or continues a change. Call it until no secret is left to
// encrypt again.
func (s Secrets) RotateKey(ctx context.Context, more bool) (r api.KeyRotation, err error) {
	k := newCall(http.MethodPost, nil, "keys")
	k.verb = "rotate"
	k.body = api.KeyRotateRequest{Continue: more}
	_, err = s.c.do(ctx, k, &r)
	return r, err
}
