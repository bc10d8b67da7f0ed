package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// frozen is a store that can be frozen, after which it answers no read. A caller with a deadline gets the
// error at once, and a caller without one is noted.
type frozen struct {
	store.Store
	mu     sync.Mutex // protects following fields
	is     bool
	hanged []string

	attempts func() // called once, after the first read of attempts
	// history, if set, answers the reads of events; builtIn, if set, is called before a workflow of namespace
	// system is read.
	history func(ctx context.Context, run dag.RunID, after int64, limit int) ([]dag.EventRow, error)
	builtIn func()
	away    bool // another node has the shard of the triggers
	// refuses, if set, says which transactions the store refuses.
	refuses func(*store.Batch) bool
	tally   []store.TallyRow // if set, answers the reads of counts
}

func (f *frozen) Tally(ctx context.Context, q store.TallyQuery) ([]store.TallyRow, error) {
	if f.tally == nil {
		return f.Store.Tally(ctx, q)
	}
	return f.tally, nil
}

func (f *frozen) Commit(ctx context.Context, b *store.Batch) (dag.Micros, error) {
	if f.refuses != nil && f.refuses(b) {
		return 0, fmt.Errorf("commit: %w", store.ErrRefused)
	}
	return f.Store.Commit(ctx, b)
}

func (f *frozen) read(ctx context.Context, what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.is {
		return nil
	}
	if d := store.Patience(ctx); d <= 0 || d > time.Minute {
		f.hanged = append(f.hanged, what)
	}
	return context.DeadlineExceeded
}

func (f *frozen) Run(ctx context.Context, id dag.RunID) (dag.RunRow, error) {
	if err := f.read(ctx, "Run"); err != nil {
		return dag.RunRow{}, err
	}
	return f.Store.Run(ctx, id)
}

func (f *frozen) Runs(ctx context.Context, q store.RunQuery) (store.RunPage, error) {
	if err := f.read(ctx, "Runs"); err != nil {
		return store.RunPage{}, err
	}
	return f.Store.Runs(ctx, q)
}

func (f *frozen) Workflow(ctx context.Context, namespace, name string) (store.Workflow, error) {
	if err := f.read(ctx, "Workflow"); err != nil {
		return store.Workflow{}, err
	}
	f.mu.Lock()
	call := f.builtIn
	f.mu.Unlock()
	if call != nil && namespace == engine.SystemNamespace {
		call()
	}
	return f.Store.Workflow(ctx, namespace, name)
}

func (f *frozen) Workflows(ctx context.Context, q store.WorkflowQuery) ([]store.Workflow, error) {
	if err := f.read(ctx, "Workflows"); err != nil {
		return nil, err
	}
	return f.Store.Workflows(ctx, q)
}

func (f *frozen) Events(ctx context.Context, run dag.RunID, after int64, limit int) ([]dag.EventRow, error) {
	if err := f.read(ctx, "Events"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	answer := f.history
	f.mu.Unlock()
	if answer != nil {
		return answer(ctx, run, after, limit)
	}
	return f.Store.Events(ctx, run, after, limit)
}

func (f *frozen) Attempts(ctx context.Context, q store.AttemptQuery) ([]dag.AttemptRow, error) {
	rows, err := f.Store.Attempts(ctx, q)
	f.mu.Lock()
	call := f.attempts
	f.attempts = nil
	f.mu.Unlock()
	if call != nil {
		call()
	}
	return rows, err
}

func (f *frozen) Triggers(ctx context.Context, q store.TriggerQuery) ([]store.Trigger, error) {
	if err := f.read(ctx, "Triggers"); err != nil {
		return nil, err
	}
	return f.Store.Triggers(ctx, q)
}

func (f *frozen) Trigger(ctx context.Context, w dag.WorkflowID, name string) (store.Trigger, error) {
	t, err := f.Store.Trigger(ctx, w, name)
	if f.away {
		t.Shard = 1 << 10
	}
	return t, err
}

func (f *frozen) Fires(ctx context.Context, q store.FireQuery) ([]store.Fire, error) {
	if err := f.read(ctx, "Fires"); err != nil {
		return nil, err
	}
	return f.Store.Fires(ctx, q)
}

func (f *frozen) Backfills(ctx context.Context, w dag.WorkflowID, state string, before int64, limit int) ([]store.Backfill, error) {
	if err := f.read(ctx, "Backfills"); err != nil {
		return nil, err
	}
	return f.Store.Backfills(ctx, w, state, before, limit)
}

// TestFrozenStore: while the store does not answer, no request waits without a bound. The answer is 503
// with Retry-After.
func TestFrozenStore(t *testing.T) {
	b := &bed{t: t, dir: t.TempDir(), auto: true, frozen: &frozen{}, logs: &logs{text: map[server.LogRef][]byte{}}}
	b.start()
	t.Cleanup(func() { b.stop() })
	b.apply("w")
	id := b.run("w").ID
	b.frozen.mu.Lock()
	b.frozen.is = true
	b.frozen.mu.Unlock()
	run := api.Prefix + "/runs/" + id
	for _, path := range []string{"/runs", "/users/local/runs", "/workflows", "/workflows/default/w/versions", "/schedules", "/fires", "/backfills"} {
		b.waitsNot(http.MethodGet, api.Prefix+path, "")
	}
	for _, path := range []string{"", "/tasks", "/graph", "/events", "/explain", "/tasks/a", "/tasks/a/explain", "/tasks/a/logs"} {
		b.waitsNot(http.MethodGet, run+path, "")
	}
	b.waitsNot(http.MethodPost, api.Prefix+"/runs", `{"workflow":"other"}`)
	b.frozen.mu.Lock()
	defer b.frozen.mu.Unlock()
	if len(b.frozen.hanged) > 0 {
		t.Errorf("these reads would hang: %s", strings.Join(b.frozen.hanged, ", "))
	}
	b.frozen.is = false
}

func (b *bed) waitsNot(method, path, body string) {
	b.t.Helper()
	a := b.do(method, path, body)
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		b.t.Errorf("%s %s: %d, Retry-After %q, %s", method, path, a.status, a.header.Get("Retry-After"), a.body)
	}
}
