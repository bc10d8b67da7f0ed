package skein

import (
	"context"
	"net/http"
	"net/url"

	api "skein.dev/skein/sdk/api/v1"
)

// Orphans makes the calls about orphans: work outside of processes that no run waits for any more.
type Orphans struct{ c *Client }

// NewOrphans returns the Orphans of a client's server.
func NewOrphans(c *Client) Orphans { return Orphans{c} }

// List lists a page of orphans, the newest release first. An empty namespace lists those of all
// namespaces. A page can be empty and have a next one.
func (o Orphans) List(ctx context.Context, namespace, cursor string, limit int) (page api.List[api.Orphan], err error) {
	k := newCall(http.MethodGet, nil, "orphans")
	if k.query = pageQuery(cursor, limit); k.query == nil {
		k.query = url.Values{}
	}
	if namespace != "" {
		k.query.Set("namespace", namespace)
	}
	_, err = o.c.do(ctx, k, &page)
	return page, err
}

// Release tries again to end the orphans of a task.
func (o Orphans) Release(ctx context.Context, run, task string, req api.OrphanRequest) (api.Task, error) {
	return o.c.taskVerb(ctx, run, task, "release", req, nil)
}

// Dismiss removes the orphans of a task from the list, and stops their release.
func (o Orphans) Dismiss(ctx context.Context, run, task string, req api.OrphanRequest) (api.Task, error) {
	return o.c.taskVerb(ctx, run, task, "dismiss", req, nil)
}
