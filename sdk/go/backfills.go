package skein

import (
	"context"
	"iter"
	"net/http"
	"strconv"

	api "skein.dev/skein/sdk/api/v1"
)

func backfillCall(method string, id int64, opts []CallOption, more ...string) *call {
	return newCall(method, opts, append([]string{"backfills", strconv.FormatInt(id, 10)}, more...)...)
}

// StartBackfill starts a backfill. When it returns, the backfill is durable. Started reports whether this
// call made the backfill. Started is false for a dry run, and if an earlier call with the same key made the
// backfill. Options: [Key].
func (c *Client) StartBackfill(ctx context.Context, req api.BackfillRequest, opts ...CallOption) (b api.Backfill, started bool, err error) {
	k := newCall(http.MethodPost, opts, "backfills")
	k.body = req
	status, err := c.do(ctx, k, &b)
	return b, status == http.StatusAccepted, err
}

// BackfillsQuery selects backfills. Zero fields select everything.
type BackfillsQuery struct {
	Workflow string // NAME or NS/NAME
	State    string // running, paused, cancelled or done
	Limit    int
	Cursor   string
}

// Backfills lists one page of backfills, newest first.
func (c *Client) Backfills(ctx context.Context, q BackfillsQuery) (page api.List[api.Backfill], err error) {
	k := newCall(http.MethodGet, nil, "backfills")
	k.query = pageQuery(q.Cursor, q.Limit)
	set(k.query, "workflow", q.Workflow)
	set(k.query, "state", q.State)
	_, err = c.do(ctx, k, &page)
	return page, err
}

// EachBackfill iterates over all pages from q on. An error is the last pair.
func (c *Client) EachBackfill(ctx context.Context, q BackfillsQuery) iter.Seq2[api.Backfill, error] {
	return each(q.Cursor, func(cursor string) (api.List[api.Backfill], error) {
		q.Cursor = cursor
		return c.Backfills(ctx, q)
	})
}

// Backfill reads one backfill.
func (c *Client) Backfill(ctx context.Context, id int64) (b api.Backfill, err error) {
	_, err = c.do(ctx, backfillCall(http.MethodGet, id, nil), &b)
	return b, err
}

// BackfillRuns lists one page of a backfill's runs by their instants. If limit is 0, the server chooses it.
func (c *Client) BackfillRuns(ctx context.Context, id int64, cursor string, limit int) (page api.List[api.BackfillRun], err error) {
	k := backfillCall(http.MethodGet, id, nil, "runs")
	k.query = pageQuery(cursor, limit)
	_, err = c.do(ctx, k, &page)
	return page, err
}

// EachBackfillRun iterates over all runs of a backfill. An error is the last pair.
func (c *Client) EachBackfillRun(ctx context.Context, id int64) iter.Seq2[api.BackfillRun, error] {
	return each("", func(cursor string) (api.List[api.BackfillRun], error) {
		return c.BackfillRuns(ctx, id, cursor, pageMax)
	})
}

// PauseBackfill makes a backfill start no further runs until it is resumed. Options: [Key].
func (c *Client) PauseBackfill(ctx context.Context, id int64, opts ...CallOption) (api.Backfill, error) {
	return c.backfillVerb(ctx, id, "pause", opts)
}

// ResumeBackfill ends a pause. Options: [Key].
func (c *Client) ResumeBackfill(ctx context.Context, id int64, opts ...CallOption) (api.Backfill, error) {
	return c.backfillVerb(ctx, id, "resume", opts)
}

// CancelBackfill ends a backfill. Waiting runs are stopped, and active runs continue. Options: [Key].
func (c *Client) CancelBackfill(ctx context.Context, id int64, opts ...CallOption) (api.Backfill, error) {
	return c.backfillVerb(ctx, id, "cancel", opts)
}

func (c *Client) backfillVerb(ctx context.Context, id int64, verb string, opts []CallOption) (b api.Backfill, err error) {
	k := backfillCall(http.MethodPost, id, opts)
	k.verb = verb
	_, err = c.do(ctx, k, &b)
	return b, err
}
