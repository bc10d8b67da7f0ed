package skein

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	api "skein.dev/skein/sdk/api/v1"
)

// CallOption changes one request.
type CallOption func(*call)

// Wait makes the server wait for the end of the run, up to d, before it answers.
func Wait(d time.Duration) CallOption {
	return func(c *call) {
		if s := int(min(d, waitMax) / time.Second); s > 0 {
			c.header.Set("Prefer", "wait="+strconv.Itoa(s))
		}
	}
}

// WithTasks includes the tasks of a run, if there are at most 1,000.
func WithTasks() CallOption { return func(c *call) { c.query.Set("include", "tasks") } }

// WithSystem also counts the runs of built-in workflows (namespace system).
func WithSystem() CallOption { return func(c *call) { c.query.Set("system", "true") } }

// Key makes a POST have its effect once: requests with the same key and the same body get the same answer.
func Key(key string) CallOption {
	return func(c *call) { c.header.Set(api.HeaderIdempotencyKey, key) }
}

// IfRevision makes the server refuse a change if the workflow has another revision.
func IfRevision(revision int64) CallOption {
	return func(c *call) { c.header.Set("If-Match", strconv.Quote(strconv.FormatInt(revision, 10))) }
}

// RunsQuery selects runs. Zero fields select everything.
type RunsQuery struct {
	Workflow  string // NAME or NS/NAME
	Namespace string
	State     string   // a state, or "active"
	States    []string // any of these states; added to State
	User      string
	Origin    string
	Tags      map[string]string // all of these tags
	Trigger   string            // name of the trigger that started the run
	Cause     string
	Backfill  int64
	Parent    string // run whose task called the run
	Node      string // node that made the tasks of the run
	Text      string // a part of the id, workflow, key, user, cause or message
	Since     time.Time
	Until     time.Time
	Params    bool // include the parameters, which lists usually leave out
	Count     bool // include the total number
	Limit     int
	Cursor    string
	// System includes runs of the built-in workflows.
	System bool
}

func (q RunsQuery) values() url.Values {
	v := pageQuery(q.Cursor, q.Limit)
	for name, value := range map[string]string{"workflow": q.Workflow, "ns": q.Namespace, "state": q.State, "user": q.User,
		"origin": q.Origin, "trigger": q.Trigger, "cause": q.Cause, "parent": q.Parent, "node": q.Node, "q": q.Text} {
		set(v, name, value)
	}
	for _, state := range q.States {
		v.Add("state", state)
	}
	for key, value := range q.Tags {
		v.Add("tag", key+"="+value)
	}
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			v.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	if q.Backfill != 0 {
		v.Set("backfill", strconv.FormatInt(q.Backfill, 10))
	}
	if q.Params {
		v.Set("include", "params")
	}
	setTrue(v, "count", q.Count)
	setTrue(v, "system", q.System)
	return v
}

// Start starts a run. When it returns, the run is durable. Started reports whether this call made the run. If
// it is false, an earlier call with the same key made the run.
func (c *Client) Start(ctx context.Context, req api.RunRequest, opts ...CallOption) (run api.Run, started bool, err error) {
	k := newCall(http.MethodPost, opts, "runs")
	k.body = req
	status, err := c.do(ctx, k, &run)
	return run, status == http.StatusAccepted || status == http.StatusCreated, err
}

// Run reads a run. Options: [WithTasks], [Wait].
func (c *Client) Run(ctx context.Context, id string, opts ...CallOption) (run api.Run, err error) {
	_, err = c.do(ctx, newCall(http.MethodGet, opts, "runs", id), &run)
	return run, err
}

// Runs lists one page of runs, newest first. It leaves out their parameters unless q requests them.
func (c *Client) Runs(ctx context.Context, q RunsQuery) (page api.List[api.Run], err error) {
	k := newCall(http.MethodGet, nil, "runs")
	k.query = q.values()
	_, err = c.do(ctx, k, &page)
	return page, err
}

// EachRun iterates over all pages from q on. An error is the last pair.
func (c *Client) EachRun(ctx context.Context, q RunsQuery) iter.Seq2[api.Run, error] {
	return each(q.Cursor, func(cursor string) (api.List[api.Run], error) {
		q.Cursor = cursor
		return c.Runs(ctx, q)
	})
}

// UserRuns lists one page of a user's runs, newest first.
func (c *Client) UserRuns(ctx context.Context, user string, q RunsQuery) (page api.List[api.Run], err error) {
	k := newCall(http.MethodGet, nil, "users", user, "runs")
	k.query = q.values()
	k.query.Del("user")
	_, err = c.do(ctx, k, &page)
	return page, err
}

// StopRun ends a run: no task starts, and running attempts get TERM, then KILL after the grace period.
func (c *Client) StopRun(ctx context.Context, id, reason string, opts ...CallOption) (api.Run, error) {
	return c.verb(ctx, id, "stop", reason, opts)
}

// KillRun ends a run at once.
func (c *Client) KillRun(ctx context.Context, id, reason string, opts ...CallOption) (api.Run, error) {
	return c.verb(ctx, id, "kill", reason, opts)
}

// PauseRun lets running attempts finish and starts no further task.
func (c *Client) PauseRun(ctx context.Context, id, reason string, opts ...CallOption) (api.Run, error) {
	return c.verb(ctx, id, "pause", reason, opts)
}

// ResumeRun ends a pause.
func (c *Client) ResumeRun(ctx context.Context, id, reason string, opts ...CallOption) (api.Run, error) {
	return c.verb(ctx, id, "resume", reason, opts)
}

// Recover continues a run that has ended. A zero request runs the failed tasks again.
func (c *Client) Recover(ctx context.Context, id string, req api.RecoverRequest, opts ...CallOption) (run api.Run, err error) {
	k := newCall(http.MethodPost, opts, "runs", id)
	k.verb, k.body = "recover", req
	_, err = c.do(ctx, k, &run)
	return run, err
}

// Rerun starts a new run with the values of an earlier one.
func (c *Client) Rerun(ctx context.Context, id string, req api.RerunRequest, opts ...CallOption) (run api.Run, err error) {
	k := newCall(http.MethodPost, opts, "runs", id)
	k.verb, k.body = "rerun", req
	_, err = c.do(ctx, k, &run)
	return run, err
}

// VerbRuns applies stop, kill, pause or resume to several runs in one call, and returns the result for
// each.
func (c *Client) VerbRuns(ctx context.Context, verb string, req api.BulkVerb, opts ...CallOption) (api.BulkResult, error) {
	return c.bulk(ctx, verb, req, opts)
}

// RecoverRuns continues several runs that have ended.
func (c *Client) RecoverRuns(ctx context.Context, req api.BulkRecover, opts ...CallOption) (api.BulkResult, error) {
	return c.bulk(ctx, "recover", req, opts)
}

// RerunRuns starts new runs with the values of earlier ones.
func (c *Client) RerunRuns(ctx context.Context, req api.BulkRerun, opts ...CallOption) (api.BulkResult, error) {
	return c.bulk(ctx, "rerun", req, opts)
}

func (c *Client) bulk(ctx context.Context, verb string, req any, opts []CallOption) (res api.BulkResult, err error) {
	k := newCall(http.MethodPost, opts, "runs")
	k.verb, k.body = verb, req
	_, err = c.do(ctx, k, &res)
	return res, err
}

// StopTask ends a task and lets its run continue.
func (c *Client) StopTask(ctx context.Context, run, task, reason string, opts ...CallOption) (api.Task, error) {
	return c.taskVerb(ctx, run, task, "stop", api.VerbRequest{Reason: reason}, opts)
}

// RetryTask runs a task now: it runs an ended task again, or ends the delay before a retry.
func (c *Client) RetryTask(ctx context.Context, run, task, reason string, opts ...CallOption) (api.Task, error) {
	return c.taskVerb(ctx, run, task, "retry", api.VerbRequest{Reason: reason}, opts)
}

// SkipTask makes a task count as skipped.
func (c *Client) SkipTask(ctx context.Context, run, task, reason string, opts ...CallOption) (api.Task, error) {
	return c.taskVerb(ctx, run, task, "skip", api.VerbRequest{Reason: reason}, opts)
}

// MarkTask sets the result of a task.
func (c *Client) MarkTask(ctx context.Context, run, task string, req api.MarkRequest, opts ...CallOption) (api.Task, error) {
	return c.taskVerb(ctx, run, task, "mark", req, opts)
}

func (c *Client) taskVerb(ctx context.Context, run, task, verb string, body any, opts []CallOption) (t api.Task, err error) {
	k := newCall(http.MethodPost, opts, "runs", run, "tasks", task)
	k.verb, k.body = verb, body
	_, err = c.do(ctx, k, &t)
	return t, err
}

func (c *Client) verb(ctx context.Context, id, verb, reason string, opts []CallOption) (run api.Run, err error) {
	k := newCall(http.MethodPost, opts, "runs", id)
	k.verb = verb
	k.body = api.VerbRequest{Reason: reason}
	_, err = c.do(ctx, k, &run)
	return run, err
}

// Tasks lists one page of a run's tasks in the order of its graph. If limit is 0, the server chooses it.
func (c *Client) Tasks(ctx context.Context, run, cursor string, limit int) (page api.List[api.Task], err error) {
	k := newCall(http.MethodGet, nil, "runs", run, "tasks")
	k.query = pageQuery(cursor, limit)
	_, err = c.do(ctx, k, &page)
	return page, err
}

// EachTask iterates over all tasks of a run. An error is the last pair.
func (c *Client) EachTask(ctx context.Context, run string) iter.Seq2[api.Task, error] {
	return each("", func(cursor string) (api.List[api.Task], error) { return c.Tasks(ctx, run, cursor, pageMax) })
}

// Task reads one task of a run.
func (c *Client) Task(ctx context.Context, run, task string) (t api.Task, err error) {
	_, err = c.do(ctx, newCall(http.MethodGet, nil, "runs", run, "tasks", task), &t)
	return t, err
}

// RunGraph reads the graph of a run with the state of each task.
func (c *Client) RunGraph(ctx context.Context, run string) (g api.Graph, err error) {
	_, err = c.do(ctx, newCall(http.MethodGet, nil, "runs", run, "graph"), &g)
	return g, err
}

// Events lists one page of a run's history, oldest first.
func (c *Client) Events(ctx context.Context, run, cursor string, limit int) (page api.List[api.Event], err error) {
	k := newCall(http.MethodGet, nil, "runs", run, "events")
	k.query = pageQuery(cursor, limit)
	_, err = c.do(ctx, k, &page)
	return page, err
}

// EachEvent iterates over the whole history of a run. An error is the last pair.
func (c *Client) EachEvent(ctx context.Context, run string) iter.Seq2[api.Event, error] {
	return each("", func(cursor string) (api.List[api.Event], error) { return c.Events(ctx, run, cursor, pageMax) })
}

// ExplainWorkflow explains why a workflow, NAME or NAMESPACE/NAME, starts no runs, and when it starts the
// next one.
func ExplainWorkflow(ctx context.Context, c *Client, workflow string) (x api.Explanation, err error) {
	_, err = c.do(ctx, workflowCall(http.MethodGet, workflow, nil, "explain"), &x)
	return x, err
}

// Explain explains why a run, or one of its tasks, is in its present state. If task is "", it explains the
// run.
func (c *Client) Explain(ctx context.Context, run, task string) (x api.Explanation, err error) {
	path := []string{"runs", run, "explain"}
	if task != "" {
		path = []string{"runs", run, "tasks", task, "explain"}
	}
	_, err = c.do(ctx, newCall(http.MethodGet, nil, path...), &x)
	return x, err
}
