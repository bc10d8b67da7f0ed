package skein

import (
	"context"
	"net/http"

	api "skein.dev/skein/api/v1"
)

// ApproveTask says yes, or with reject no, to a task of a run that waits for a person.
func (c *Client) ApproveTask(ctx context.Context, run, task string, in api.ApproveRequest, opts ...CallOption) (t api.Task, err error) {
	k := newCall(http.MethodPost, opts, "runs", run, "tasks", task)
	k.verb, k.body = "approve", in
	_, err = c.do(ctx, k, &t)
	return t, err
}
