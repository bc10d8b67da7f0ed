package skein

import (
	"context"
	"net/http"

	api "skein.dev/skein/sdk/api/v1"
)

// ApproveTask answers a task that waits for an approval. It approves the task, or rejects it if in.Reject is
// set.
func (c *Client) ApproveTask(ctx context.Context, run, task string, in api.ApproveRequest, opts ...CallOption) (t api.Task, err error) {
	k := newCall(http.MethodPost, opts, "runs", run, "tasks", task)
	k.verb, k.body = "approve", in
	_, err = c.do(ctx, k, &t)
	return t, err
}
