package skein

import (
	"context"
	"net/http"
	"net/url"

	api "skein.dev/skein/sdk/api/v1"
)

// GitSources makes the calls about git sources.
type GitSources struct{ c *Client }

// NewGitSources returns the GitSources of a client's server.
func NewGitSources(c *Client) GitSources { return GitSources{c} }

// List lists a page of git sources, by namespace and name. An empty namespace lists those of all namespaces.
func (g GitSources) List(ctx context.Context, namespace, cursor string, limit int) (page api.List[api.GitSource], err error) {
	k := newCall(http.MethodGet, nil, "git-sources")
	if k.query = pageQuery(cursor, limit); k.query == nil {
		k.query = url.Values{}
	}
	if namespace != "" {
		k.query.Set("namespace", namespace)
	}
	_, err = g.c.do(ctx, k, &page)
	return page, err
}

// Set creates or replaces a git source. A node reads the repository soon afterwards.
func (g GitSources) Set(ctx context.Context, namespace, name string, req api.GitSourceRequest) (is api.GitSource, err error) {
	k := newCall(http.MethodPut, nil, "git-sources", namespace, name)
	k.body = req
	_, err = g.c.do(ctx, k, &is)
	return is, err
}

// Delete removes a git source. Its workflows stay.
func (g GitSources) Delete(ctx context.Context, namespace, name string) error {
	_, err := g.c.do(ctx, newCall(http.MethodDelete, nil, "git-sources", namespace, name), nil)
	return err
}

// Sync reads the repository now and applies its newest commit. If the state in the result is failing, nothing
// was changed.
func (g GitSources) Sync(ctx context.Context, namespace, name string) (is api.GitSync, err error) {
	return g.look(ctx, namespace, name, "sync", nil)
}

// Plan returns the changes that Sync would make. It makes none of them.
func (g GitSources) Plan(ctx context.Context, namespace, name string) (is api.GitSync, err error) {
	return g.look(ctx, namespace, name, "plan", nil)
}

// Preview returns the changes that the first sync would make if Set were called with the same values. It
// stores nothing.
func (g GitSources) Preview(ctx context.Context, namespace, name string, req api.GitSourceRequest) (is api.GitSync, err error) {
	return g.look(ctx, namespace, name, "plan", req)
}

func (g GitSources) look(ctx context.Context, namespace, name, verb string, body any) (is api.GitSync, err error) {
	k := newCall(http.MethodPost, nil, "git-sources", namespace, name)
	k.verb, k.body = verb, body
	_, err = g.c.do(ctx, k, &is)
	return is, err
}
