package skein

import (
	"context"
	"net/http"
	"strings"

	api "skein.dev/skein/sdk/api/v1"
)

// Queues lists a page of the named queues, by name.
func (c *Client) Queues(ctx context.Context, cursor string, limit int) (page api.List[api.Queue], err error) {
	k := newCall(http.MethodGet, nil, "queues")
	k.query = pageQuery(cursor, limit)
	_, err = c.do(ctx, k, &page)
	return page, err
}

// queueCall makes a call about a queue: NAME, which all namespaces share, or NAMESPACE/NAME.
func queueCall(method string, opts []CallOption, name string) *call {
	return newCall(method, opts, append([]string{"queues"}, strings.SplitN(name, "/", 2)...)...)
}

// Queue reads a queue. In each call, name is NAME for a queue that all namespaces share, or NAMESPACE/NAME.
func (c *Client) Queue(ctx context.Context, name string) (q api.Queue, err error) {
	_, err = c.do(ctx, queueCall(http.MethodGet, nil, name), &q)
	return q, err
}

// SetQueue creates a queue, or changes its definition. Options: [IfRevision].
func (c *Client) SetQueue(ctx context.Context, name string, def api.QueueRequest, opts ...CallOption) (q api.Queue, err error) {
	k := queueCall(http.MethodPut, opts, name)
	k.body = def
	_, err = c.do(ctx, k, &q)
	return q, err
}

// PauseQueue stops a queue from granting slots until it is resumed. New runs wait.
func (c *Client) PauseQueue(ctx context.Context, name string, why api.QueueStateRequest) (api.Queue, error) {
	return c.queueVerb(ctx, name, "pause", why)
}

// DrainQueue admits the waiting runs and refuses new ones, until the queue is resumed.
func (c *Client) DrainQueue(ctx context.Context, name string, why api.QueueStateRequest) (api.Queue, error) {
	return c.queueVerb(ctx, name, "drain", why)
}

// ResumeQueue ends a pause or a drain.
func (c *Client) ResumeQueue(ctx context.Context, name string) (api.Queue, error) {
	return c.queueVerb(ctx, name, "resume", api.QueueStateRequest{})
}

func (c *Client) queueVerb(ctx context.Context, name, verb string, why api.QueueStateRequest) (q api.Queue, err error) {
	k := queueCall(http.MethodPost, nil, name)
	k.verb, k.body = verb, why
	_, err = c.do(ctx, k, &q)
	return q, err
}

// DeleteQueue removes a queue that no run uses.
func (c *Client) DeleteQueue(ctx context.Context, name string, opts ...CallOption) error {
	_, err := c.do(ctx, queueCall(http.MethodDelete, opts, name), nil)
	return err
}

// Locks lists the named locks that runs hold, by name.
func (c *Client) Locks(ctx context.Context) (page api.List[api.Lock], err error) {
	_, err = c.do(ctx, newCall(http.MethodGet, nil, "locks"), &page)
	return page, err
}
