package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

func TestEveryKindHasItsStatus(t *testing.T) {
	full := fmt.Errorf("%w: commit: %w", errkind.ErrUnavailable, &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC})
	for _, c := range []struct {
		err        error
		status     int
		problem    string
		retryAfter string
	}{
		{errkind.ErrNotFound, 404, api.ProblemNotFound, ""},
		{errkind.ErrInvalid, 422, api.ProblemInvalid, ""},
		{errkind.ErrConflict, 409, api.ProblemConflict, ""},
		{errkind.ErrFenced, 409, api.ProblemConflict, ""},
		{errkind.ErrBusy, 429, api.ProblemBusy, "1"},
		{errkind.ErrUnavailable, 503, api.ProblemUnavailable, "2"},
		{context.DeadlineExceeded, 503, api.ProblemUnavailable, "2"},
		{full, 507, api.ProblemFull, "30"},
		{workflow.Errors{{Message: "bad"}}, 422, api.ProblemInvalidWorkflow, ""},
		{notFound("x"), 404, api.ProblemNotFound, ""},
	} {
		f := failed(fmt.Errorf("what was tried: %w", c.err))
		if f.Status != c.status || f.Type != c.problem || f.header.Get("Retry-After") != c.retryAfter || f.Title == "" {
			t.Errorf("%v: %+v", c.err, f)
		}
	}
	if f := failed(errors.New("the password is x")); f.Status != 500 || f.Type != api.ProblemInternal || strings.Contains(f.Detail, "password") {
		t.Errorf("%+v", f)
	}
}

// TestDetailsHaveCodes: a frequent detail has a code and its values, also if the error comes from another package.
func TestDetailsHaveCodes(t *testing.T) {
	id := dag.RunID{15: 7}
	for _, c := range []struct {
		err   error
		about string
		args  map[string]string
	}{
		{errkind.NoRun(id), "no_run", map[string]string{"run": id.String()}},
		{errkind.NoTask("a", id), "no_task", map[string]string{"task": "a", "run": id.String()}},
		{noWorkflow("shop", "w", errkind.ErrNotFound), "no_workflow", map[string]string{"workflow": "shop/w"}},
		{&store.QuotaError{Namespace: "shop", Quota: store.QuotaRuns, Bound: 2, Used: 3}, "quota",
			map[string]string{"quota": "runs", "namespace": "shop", "used": "3", "limit": "2"}},
		{errkind.ErrNotFound, "", nil},
	} {
		f := failed(fmt.Errorf("what was tried: %w", c.err))
		if f.About != c.about || !maps.Equal(f.Args, c.args) {
			t.Errorf("%v: %s %v", c.err, f.About, f.Args)
		}
	}
}

func TestPreferences(t *testing.T) {
	for text, seconds := range map[string]float64{"": 0, "wait=30": 30, "Wait = \"5\"": 5, "respond-async, wait=10; x=y": 10, "wait=99999": 300, "wait=-1": 0, "wait": 0, "waits=4": 0,
		"wait=99999999999999999999": 0} {
		p := Prefer{Prefer: text}
		if got := p.wait().Seconds(); got != seconds {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func FuzzUnambiguous(f *testing.F) {
	f.Add(`{"a":[1,"[\"["]}`)
	f.Fuzz(func(t *testing.T, text string) {
		err := unambiguous([]byte(text), nil)
		if err == errDeep && strings.Count(text, "[")+strings.Count(text, "{") <= depthMax {
			t.Errorf("%q", text)
		}
		var v any
		_ = decodeJSON([]byte(text), &v) // must return
	})
}

// TestFailureLevel: a read whose caller has left, and a request that another node answers, are not warnings.
func TestFailureLevel(t *testing.T) {
	left, leave := context.WithCancel(t.Context())
	leave()
	late, stop := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer stop()
	other := fail(http.StatusServiceUnavailable, api.ProblemUnavailable, "x")
	other.elsewhere(&errkind.Elsewhere{Shard: 1})
	away := fail(http.StatusServiceUnavailable, api.ProblemUnavailable, "x")
	for _, c := range []struct {
		ctx  context.Context
		f    *failure
		want slog.Level
	}{
		{t.Context(), away, slog.LevelWarn}, {left, away, slog.LevelDebug}, {late, away, slog.LevelWarn},
		{left, fail(http.StatusInternalServerError, api.ProblemInternal, "x"), slog.LevelWarn}, {t.Context(), other, slog.LevelDebug},
	} {
		if got := c.f.level(c.ctx); got != c.want {
			t.Errorf("status %d, context %v: %v, want %v", c.f.Status, c.ctx.Err(), got, c.want)
		}
	}
}
