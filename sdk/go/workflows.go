package skein

import (
	"context"
	"iter"
	"net/http"
	"strconv"
	"strings"

	api "skein.dev/skein/sdk/api/v1"
)

// splitName splits NAME or NS/NAME.
func splitName(workflow string) (namespace, name string) {
	if ns, n, ok := strings.Cut(workflow, "/"); ok {
		return ns, n
	}
	return api.NamespaceDefault, workflow
}

func workflowCall(method, workflow string, opts []CallOption, more ...string) *call {
	ns, name := splitName(workflow)
	return newCall(method, opts, append([]string{"workflows", ns, name}, more...)...)
}

// WorkflowsQuery selects workflows. Zero fields select everything except the built-in workflows.
type WorkflowsQuery struct {
	Namespace string
	Tags      map[string]string // workflows that have all of these tags
	System    bool              // include the built-in workflows
	Limit     int               // 0 lets the server choose
	Cursor    string
}

// ListWorkflows lists one page of workflows by name.
func (c *Client) ListWorkflows(ctx context.Context, q WorkflowsQuery) (page api.List[api.Workflow], err error) {
	k := newCall(http.MethodGet, nil, "workflows")
	k.query = pageQuery(q.Cursor, q.Limit)
	set(k.query, "namespace", q.Namespace)
	for key, value := range q.Tags {
		k.query.Add("tag", key+"="+value)
	}
	setTrue(k.query, "system", q.System)
	_, err = c.do(ctx, k, &page)
	return page, err
}

// EachListedWorkflow iterates over all pages from q on. An error is the last pair.
func (c *Client) EachListedWorkflow(ctx context.Context, q WorkflowsQuery) iter.Seq2[api.Workflow, error] {
	return each(q.Cursor, func(cursor string) (api.List[api.Workflow], error) {
		q.Cursor = cursor
		return c.ListWorkflows(ctx, q)
	})
}

// Workflows lists one page of workflows by name. If namespace is "", it lists all. If limit is 0, the
// server chooses it.
func (c *Client) Workflows(ctx context.Context, namespace, cursor string, limit int) (page api.List[api.Workflow], err error) {
	return c.ListWorkflows(ctx, WorkflowsQuery{Namespace: namespace, Cursor: cursor, Limit: limit})
}

// EachWorkflow iterates over all workflows. An error is the last pair.
func (c *Client) EachWorkflow(ctx context.Context, namespace string) iter.Seq2[api.Workflow, error] {
	return each("", func(cursor string) (api.List[api.Workflow], error) {
		return c.Workflows(ctx, namespace, cursor, pageMax)
	})
}

// Workflow reads a workflow (NAME or NS/NAME) with the source of its current version.
func (c *Client) Workflow(ctx context.Context, workflow string) (w api.Workflow, err error) {
	_, err = c.do(ctx, workflowCall(http.MethodGet, workflow, nil), &w)
	return w, err
}

// Apply creates a version of a definition, unless the newest version is equal. name must be the name in the
// document. Options: [IfRevision].
func (c *Client) Apply(ctx context.Context, workflow string, req api.ApplyRequest, opts ...CallOption) (a api.Applied, err error) {
	k := workflowCall(http.MethodPut, workflow, opts)
	k.body = req
	_, err = c.do(ctx, k, &a)
	return a, err
}

// DeleteWorkflow hides a workflow. Its name can be used again, and its runs stay. Options: [IfRevision].
func (c *Client) DeleteWorkflow(ctx context.Context, workflow string, opts ...CallOption) error {
	_, err := c.do(ctx, workflowCall(http.MethodDelete, workflow, opts), nil)
	return err
}

// PauseWorkflow stops a workflow from starting runs. Options: [IfRevision], [Key].
func (c *Client) PauseWorkflow(ctx context.Context, workflow string, opts ...CallOption) (w api.Workflow, err error) {
	return c.workflowVerb(ctx, workflow, "pause", nil, opts)
}

// ResumeWorkflow ends a pause. Options: [IfRevision], [Key].
func (c *Client) ResumeWorkflow(ctx context.Context, workflow string, opts ...CallOption) (w api.Workflow, err error) {
	return c.workflowVerb(ctx, workflow, "resume", nil, opts)
}

// Rollback makes an earlier version the version of new runs. Options: [IfRevision], [Key].
func (c *Client) Rollback(ctx context.Context, workflow string, version int32, opts ...CallOption) (w api.Workflow, err error) {
	return c.workflowVerb(ctx, workflow, "rollback", api.RollbackRequest{Version: version}, opts)
}

func (c *Client) workflowVerb(ctx context.Context, workflow, verb string, body any, opts []CallOption) (w api.Workflow, err error) {
	k := workflowCall(http.MethodPost, workflow, opts)
	k.verb, k.body = verb, body
	_, err = c.do(ctx, k, &w)
	return w, err
}

// Versions lists one page of a workflow's versions, newest first, without their sources.
func (c *Client) Versions(ctx context.Context, workflow, cursor string, limit int) (page api.List[api.Version], err error) {
	k := workflowCall(http.MethodGet, workflow, nil, "versions")
	k.query = pageQuery(cursor, limit)
	_, err = c.do(ctx, k, &page)
	return page, err
}

// EachVersion iterates over all versions of a workflow. An error is the last pair.
func (c *Client) EachVersion(ctx context.Context, workflow string) iter.Seq2[api.Version, error] {
	return each("", func(cursor string) (api.List[api.Version], error) {
		return c.Versions(ctx, workflow, cursor, pageMax)
	})
}

// WithFiles includes the content of the files of a version, and the folder that it was applied from.
func WithFiles() CallOption { return func(c *call) { c.query.Set("include", "files") } }

// Version reads one version with its source and the names of its files. Options: [WithFiles].
func (c *Client) Version(ctx context.Context, workflow string, version int32, opts ...CallOption) (v api.Version, err error) {
	_, err = c.do(ctx, workflowCall(http.MethodGet, workflow, opts, "versions", strconv.Itoa(int(version))), &v)
	return v, err
}

// WorkflowGraph reads the graph of a version. Version 0 is the current one.
func (c *Client) WorkflowGraph(ctx context.Context, workflow string, version int32) (g api.Graph, err error) {
	k := workflowCall(http.MethodGet, workflow, nil, "graph")
	if version != 0 {
		k.query.Set("version", strconv.Itoa(int(version)))
	}
	_, err = c.do(ctx, k, &g)
	return g, err
}

// Validate checks a file without storing it. Faults of the file are in the answer, not in the error.
func (c *Client) Validate(ctx context.Context, req api.ApplyRequest) (v api.Validation, err error) {
	k := newCall(http.MethodPost, nil, "validate")
	k.body = req
	_, err = c.do(ctx, k, &v)
	return v, err
}
