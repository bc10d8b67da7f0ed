package skein

import (
	"context"
	"net/http"
	"strings"

	api "skein.dev/skein/sdk/api/v1"
)

// Classes lists the resource classes: first the built-in ones, then the others by name.
func (c *Client) Classes(ctx context.Context) (page api.List[api.Class], err error) {
	_, err = c.do(ctx, newCall(http.MethodGet, nil, "classes"), &page)
	return page, err
}

// classCall makes a call about a class: NAME, which all namespaces share, or NAMESPACE/NAME.
func classCall(method, name string) *call {
	return newCall(method, nil, append([]string{"classes"}, strings.SplitN(name, "/", 2)...)...)
}

// SetClass creates a resource class, or changes it for workflows that are applied later. name is NAME for a
// class that all namespaces share, or NAMESPACE/NAME.
func (c *Client) SetClass(ctx context.Context, name string, def api.ClassRequest) (class api.Class, err error) {
	k := classCall(http.MethodPut, name)
	k.body = def
	_, err = c.do(ctx, k, &class)
	return class, err
}

// DeleteClass removes a resource class. Applied workflows that use it do not change.
func (c *Client) DeleteClass(ctx context.Context, name string) error {
	_, err := c.do(ctx, classCall(http.MethodDelete, name), nil)
	return err
}
