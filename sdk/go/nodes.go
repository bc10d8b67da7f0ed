package skein

import (
	"context"
	"net/http"
	"strconv"

	api "skein.dev/skein/sdk/api/v1"
)

// Nodes lists the nodes.
func (c *Client) Nodes(ctx context.Context) (page api.List[api.Node], err error) {
	_, err = c.do(ctx, newCall(http.MethodGet, nil, "nodes"), &page)
	return page, err
}

// WorkerGroups lists the groups that tasks can choose.
func (c *Client) WorkerGroups(ctx context.Context) (page api.List[api.WorkerGroup], err error) {
	_, err = c.do(ctx, newCall(http.MethodGet, nil, "worker-groups"), &page)
	return page, err
}

// Node reads a node.
func (c *Client) Node(ctx context.Context, name string) (n api.Node, err error) {
	_, err = c.do(ctx, newCall(http.MethodGet, nil, "nodes", name), &n)
	return n, err
}

// Cordon moves all shards away from a node and assigns it no new ones. Running attempts finish. Afterwards
// the node's state is drained.
func (c *Client) Cordon(ctx context.Context, name string) (api.Node, error) {
	return c.orderNode(ctx, name, "cordon")
}

// Uncordon lets a node get shards again.
func (c *Client) Uncordon(ctx context.Context, name string) (api.Node, error) {
	return c.orderNode(ctx, name, "uncordon")
}

func (c *Client) orderNode(ctx context.Context, name, verb string) (n api.Node, err error) {
	k := newCall(http.MethodPost, nil, "nodes", name)
	k.verb = verb
	_, err = c.do(ctx, k, &n)
	return n, err
}

// LogLevel reads the level of a node's log.
func (c *Client) LogLevel(ctx context.Context, node string) (l api.LogLevel, err error) {
	_, err = c.do(ctx, newCall(http.MethodGet, nil, "nodes", node, "log-level"), &l)
	return l, err
}

// SetLogLevel changes the level of a node's log to debug, info, warn or error, until the node ends or reads
// its settings again.
func (c *Client) SetLogLevel(ctx context.Context, node, level string) (l api.LogLevel, err error) {
	k := newCall(http.MethodPost, nil, "nodes", node)
	k.verb, k.body = "log-level", api.LogLevelRequest{Level: level}
	_, err = c.do(ctx, k, &l)
	return l, err
}

// MoveShard moves a shard to a node. The node "-" stands for any node.
func (c *Client) MoveShard(ctx context.Context, id int32, node string) (api.Shard, error) {
	return c.move(ctx, node, "shards", strconv.Itoa(int(id)))
}

// MoveWorkflow moves the shard of a workflow to a node. The node "-" stands for any node.
func (c *Client) MoveWorkflow(ctx context.Context, name, node string) (api.Shard, error) {
	namespace, short := splitName(name)
	return c.move(ctx, node, "workflows", namespace, short)
}

func (c *Client) move(ctx context.Context, node string, path ...string) (s api.Shard, err error) {
	k := newCall(http.MethodPost, nil, path...)
	k.verb, k.body = "move", api.MoveRequest{Node: node}
	_, err = c.do(ctx, k, &s)
	return s, err
}

// Scheduler returns the stopped nodes, and whether the whole cluster is stopped.
func (c *Client) Scheduler(ctx context.Context) (s api.Scheduler, err error) {
	_, err = c.do(ctx, newCall(http.MethodGet, nil, "admin", "scheduler"), &s)
	return s, err
}

// StopScheduler stops a node from advancing runs. An empty node stops the whole cluster.
func (c *Client) StopScheduler(ctx context.Context, node string) (api.Scheduler, error) {
	return c.scheduler(ctx, node, "stop")
}

// StartScheduler lets a node advance runs again. An empty node starts the whole cluster.
func (c *Client) StartScheduler(ctx context.Context, node string) (api.Scheduler, error) {
	return c.scheduler(ctx, node, "start")
}

func (c *Client) scheduler(ctx context.Context, node, verb string) (s api.Scheduler, err error) {
	k := newCall(http.MethodPost, nil, "admin", "scheduler")
	k.verb = verb
	set(k.query, "node", node)
	_, err = c.do(ctx, k, &s)
	return s, err
}

// Status reads the state of the node that answers. The counts of runs exclude the runs of built-in
// workflows, unless WithSystem is given.
func (c *Client) Status(ctx context.Context, opts ...CallOption) (s api.Status, err error) {
	k := newCall(http.MethodGet, nil, "status")
	for _, o := range opts {
		o(k)
	}
	_, err = c.do(ctx, k, &s)
	return s, err
}

// Verify makes the server check every invariant against all stored rows, which may take long.
func (c *Client) Verify(ctx context.Context) (v api.Verification, err error) {
	_, err = c.do(ctx, newCall(http.MethodGet, nil, "verify"), &v)
	return v, err
}

// ServerVersion reads the version of the server.
func (c *Client) ServerVersion(ctx context.Context) (v api.ServerVersion, err error) {
	k := newCall(http.MethodGet, nil, "version")
	k.root = true
	_, err = c.do(ctx, k, &v)
	return v, err
}

// Ready asks whether the server accepts submissions. The error is the reason if it does not.
func (c *Client) Ready(ctx context.Context) error {
	k := newCall(http.MethodGet, nil, "readyz")
	k.root = true
	_, err := c.do(ctx, k, nil)
	return err
}
