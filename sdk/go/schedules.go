package skein

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"

	api "skein.dev/skein/sdk/api/v1"
)

func setTime(v url.Values, key string, t time.Time) {
	if !t.IsZero() {
		v.Set(key, t.UTC().Format(time.RFC3339Nano))
	}
}

func setTrue(v url.Values, key string, is bool) {
	if is {
		v.Set(key, "true")
	}
}

// scheduleCall is a call about one trigger of a workflow (NAME or NS/NAME).
func scheduleCall(method, workflow, trigger string, opts []CallOption, more ...string) *call {
	ns, name := splitName(workflow)
	return newCall(method, opts, append([]string{"schedules", ns, name, trigger}, more...)...)
}

// SchedulesQuery selects triggers. Zero fields select everything.
type SchedulesQuery struct {
	Namespace string
	Workflow  string // NAME or NS/NAME
	State     string // active, paused or ended
	Kind      string // cron, every, webhook …
	System    bool   // include the triggers of the built-in workflows
	Limit     int
	Cursor    string
}

// Schedules lists one page of triggers by workflow and name.
func (c *Client) Schedules(ctx context.Context, q SchedulesQuery) (page api.List[api.Schedule], err error) {
	k := newCall(http.MethodGet, nil, "schedules")
	k.query = pageQuery(q.Cursor, q.Limit)
	set(k.query, "namespace", q.Namespace)
	set(k.query, "workflow", q.Workflow)
	set(k.query, "state", q.State)
	set(k.query, "kind", q.Kind)
	setTrue(k.query, "system", q.System)
	_, err = c.do(ctx, k, &page)
	return page, err
}

// EachSchedule iterates over all pages from q on. An error is the last pair.
func (c *Client) EachSchedule(ctx context.Context, q SchedulesQuery) iter.Seq2[api.Schedule, error] {
	return each(q.Cursor, func(cursor string) (api.List[api.Schedule], error) {
		q.Cursor = cursor
		return c.Schedules(ctx, q)
	})
}

// Schedule reads one trigger of a workflow (NAME or NS/NAME).
func (c *Client) Schedule(ctx context.Context, workflow, trigger string) (s api.Schedule, err error) {
	_, err = c.do(ctx, scheduleCall(http.MethodGet, workflow, trigger, nil), &s)
	return s, err
}

// ScheduleDays reads one page of the counts of a trigger's deleted ledger lines, by day, newest first. A
// limit of 0 means 100.
func (c *Client) ScheduleDays(ctx context.Context, workflow, trigger, cursor string, limit int) (page api.List[api.FireDay], err error) {
	k := scheduleCall(http.MethodGet, workflow, trigger, nil, "days")
	k.query = pageQuery(cursor, limit)
	_, err = c.do(ctx, k, &page)
	return page, err
}

// NextQuery selects future instants.
type NextQuery struct {
	N         int       // 0 means 20
	From      time.Time // only instants after From; zero selects the instants that are not decided yet
	Namespace string    // only for AllNextFires
	Workflow  string    // only for AllNextFires: NAME or NS/NAME
	System    bool      // only for AllNextFires: include the triggers of the built-in workflows
}

func (q *NextQuery) values() url.Values {
	v := url.Values{}
	setInt(v, "n", int64(q.N))
	setTime(v, "from", q.From)
	return v
}

// NextFires returns the next fires of one trigger of a workflow (NAME or NS/NAME).
func (c *Client) NextFires(ctx context.Context, workflow, trigger string, q NextQuery) (n api.NextFires, err error) {
	k := scheduleCall(http.MethodGet, workflow, trigger, nil, "next")
	k.query = q.values()
	_, err = c.do(ctx, k, &n)
	return n, err
}

// AllNextFires lists the next fires of all active triggers, or of the triggers of a namespace or a workflow.
func (c *Client) AllNextFires(ctx context.Context, q NextQuery) (n api.NextFires, err error) {
	k := newCall(http.MethodGet, nil, "schedules", "next")
	k.query = q.values()
	set(k.query, "namespace", q.Namespace)
	set(k.query, "workflow", q.Workflow)
	setTrue(k.query, "system", q.System)
	_, err = c.do(ctx, k, &n)
	return n, err
}

// FiresQuery selects lines of the ledger. Zero fields select everything.
type FiresQuery struct {
	Workflow string // NAME or NS/NAME
	Trigger  string // only with Workflow
	Outcome  string // fired, late, skipped, merged or missed
	Unfired  bool   // every outcome without a run
	System   bool   // include the built-in workflows
	Since    time.Time
	Until    time.Time
	Limit    int
	Cursor   string
}

// Fires lists one page of the ledger, newest first.
func (c *Client) Fires(ctx context.Context, q FiresQuery) (page api.List[api.Fire], err error) {
	k := newCall(http.MethodGet, nil, "fires")
	k.query = pageQuery(q.Cursor, q.Limit)
	set(k.query, "workflow", q.Workflow)
	set(k.query, "trigger", q.Trigger)
	set(k.query, "outcome", q.Outcome)
	setTrue(k.query, "unfired", q.Unfired)
	setTrue(k.query, "system", q.System)
	setTime(k.query, "since", q.Since)
	setTime(k.query, "until", q.Until)
	_, err = c.do(ctx, k, &page)
	return page, err
}

// EachFire iterates over all pages from q on. An error is the last pair.
func (c *Client) EachFire(ctx context.Context, q FiresQuery) iter.Seq2[api.Fire, error] {
	return each(q.Cursor, func(cursor string) (api.List[api.Fire], error) {
		q.Cursor = cursor
		return c.Fires(ctx, q)
	})
}

// PauseSchedule stops a trigger from firing. The ledger records the instants that pass as skipped. Options:
// [Key].
func (c *Client) PauseSchedule(ctx context.Context, workflow, trigger, reason string, opts ...CallOption) (api.Schedule, error) {
	return c.scheduleVerb(ctx, scheduleCall(http.MethodPost, workflow, trigger, opts), "pause", reason)
}

// ResumeSchedule lets a trigger fire again, for instants after this call only. Options: [Key].
func (c *Client) ResumeSchedule(ctx context.Context, workflow, trigger, reason string, opts ...CallOption) (api.Schedule, error) {
	return c.scheduleVerb(ctx, scheduleCall(http.MethodPost, workflow, trigger, opts), "resume", reason)
}

// PlanPause plans a pause of a trigger. Its instants from From until before Until are recorded as skipped. If
// From is nil, the pause begins now. Options: [Key].
func PlanPause(ctx context.Context, c *Client, workflow, trigger string, req api.PauseRequest, opts ...CallOption) (s api.Schedule, err error) {
	return pauseVerb(ctx, c, scheduleCall(http.MethodPost, workflow, trigger, opts), "pause", req)
}

// EndPause ends the planned pause of a trigger with the end Until. If From is not nil, the pause must also
// have this beginning. Instants that were skipped stay skipped. Options: [Key].
func EndPause(ctx context.Context, c *Client, workflow, trigger string, req api.PauseRequest, opts ...CallOption) (s api.Schedule, err error) {
	return pauseVerb(ctx, c, scheduleCall(http.MethodPost, workflow, trigger, opts), "resume", req)
}

func pauseVerb(ctx context.Context, c *Client, k *call, verb string, req api.PauseRequest) (s api.Schedule, err error) {
	k.verb, k.body = verb, req
	_, err = c.do(ctx, k, &s)
	return s, err
}

func (c *Client) scheduleVerb(ctx context.Context, k *call, verb, reason string) (s api.Schedule, err error) {
	k.verb, k.body = verb, api.VerbRequest{Reason: reason}
	_, err = c.do(ctx, k, &s)
	return s, err
}

// FireSchedule makes a trigger fire now, even if it is paused. Options: [Key]; calls with the same key fire
// once.
func (c *Client) FireSchedule(ctx context.Context, workflow, trigger, reason string, opts ...CallOption) (o api.Occurrence, err error) {
	k := scheduleCall(http.MethodPost, workflow, trigger, opts)
	k.verb, k.body = "trigger", api.VerbRequest{Reason: reason}
	_, err = c.do(ctx, k, &o)
	return o, err
}

// Simulate returns the fires and runs of a period, and the effect of an edit on them.
func (c *Client) Simulate(ctx context.Context, req api.SimulateRequest) (s api.Simulation, err error) {
	k := newCall(http.MethodPost, nil, "schedules")
	k.verb, k.body = "simulate", req
	_, err = c.do(ctx, k, &s)
	return s, err
}

// RotateHookSecret makes the secret of a webhook, or the next one. Only this answer contains the secret. The
// earlier secret stays valid for the time in the request.
func RotateHookSecret(ctx context.Context, c *Client, workflow, trigger string, req api.RotateRequest) (is api.HookSecret, err error) {
	k := scheduleCall(http.MethodPost, workflow, trigger, nil)
	k.verb, k.body = "secret", req
	_, err = c.do(ctx, k, &is)
	return is, err
}
