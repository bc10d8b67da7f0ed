package skein

import (
	"context"
	"net/http"

	api "skein.dev/skein/sdk/api/v1"
)

// ApproveTask approves a task of a run that waits for an approval. With reject it rejects the task.
func (c *Client) ApproveTask(ctx context.Context, run, task string, in api.ApproveRequest, opts ...CallOption) (t api.Task, err error) {
	k := newCall(http.MethodPost, opts, "runs", run, "tasks", task)
	k.verb, k.body = "approve", in
	_, err = c.do(ctx, k, &t)
	return t, err
}
