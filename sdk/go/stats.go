package skein

import (
	"context"
	"net/http"
	"net/url"
	"time"

	api "skein.dev/skein/sdk/api/v1"
)

// StatsQuery selects counts and durations of ended runs. For zero fields the server uses its defaults: 30
// days, by day.
type StatsQuery struct {
	From, To time.Time
	By       string // day, hour or task
	Task     string // count the attempts of this task
}

// Stats makes the calls about counts and durations of ended runs.
type Stats struct{ c *Client }

// NewStats returns the Stats of a client's server.
func NewStats(c *Client) Stats { return Stats{c} }

// Of counts the ended runs of a workflow, or the attempts of its tasks, with their durations.
func (s Stats) Of(ctx context.Context, workflow string, q StatsQuery) (stats api.WorkflowStats, err error) {
	k := workflowCall(http.MethodGet, workflow, nil, "stats")
	k.query = url.Values{}
	set := func(name, value string) {
		if value != "" {
			k.query.Set(name, value)
		}
	}
	set("by", q.By)
	set("task", q.Task)
	for name, at := range map[string]time.Time{"from": q.From, "to": q.To} {
		if !at.IsZero() {
			set(name, at.UTC().Format(time.RFC3339))
		}
	}
	_, err = s.c.do(ctx, k, &stats)
	return stats, err
}

// CountsQuery selects the ended runs to be counted. For zero fields the server uses its defaults: 30 days, by
// day, all workflows.
type CountsQuery struct {
	From, To  time.Time
	By        string // day, hour, workflow or state
	Namespace string
	Workflow  string
	Cursor    string // Next of the previous answer
}

// Counts counts the ended runs of all workflows.
func (s Stats) Counts(ctx context.Context, q CountsQuery) (counts api.RunCounts, err error) {
	k := newCall(http.MethodGet, nil, "runs", "counts")
	k.query = url.Values{}
	for name, value := range map[string]string{"by": q.By, "ns": q.Namespace, "workflow": q.Workflow, "cursor": q.Cursor} {
		if value != "" {
			k.query.Set(name, value)
		}
	}
	for name, at := range map[string]time.Time{"from": q.From, "to": q.To} {
		if !at.IsZero() {
			k.query.Set(name, at.UTC().Format(time.RFC3339))
		}
	}
	_, err = s.c.do(ctx, k, &counts)
	return counts, err
}
