package skein_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(t *testing.T, h http.HandlerFunc, opts ...skein.Option) *skein.Client {
	t.Helper()
	c, err := skein.New("http://localhost/base/", append(opts, skein.WithHandler(h))...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAddresses(t *testing.T) {
	for addr, wanted := range map[string]string{"localhost:8080": "http://localhost:8080", "https://x/y/": "https://x/y"} {
		c, err := skein.New(addr)
		if err != nil || c.URL() != wanted {
			t.Errorf("%s: %v", addr, err)
		}
	}
	for _, addr := range []string{"ftp://x", "http://", "http://[::1", ""} {
		if _, err := skein.New(addr); err == nil {
			t.Errorf("%q: no error", addr)
		}
	}
}

func TestRequests(t *testing.T) {
	var got *http.Request
	var body string
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		b, _ := io.ReadAll(r.Body)
		body = string(b)
		_, _ = io.WriteString(w, `{}`)
	}, skein.WithUser("ada"), skein.WithToken("secret"), skein.WithTraceparent(trace))
	ctx := t.Context()
	check := func(method, uri string) {
		t.Helper()
		if got == nil || got.Method != method || got.RequestURI != uri {
			t.Errorf("%v, want %s %s", got, method, uri)
		}
	}
	_, _ = c.Task(ctx, "id", "a b/c:d")
	check("GET", "/base/api/v1/runs/id/tasks/a%20b%2Fc:d")
	if got.Header.Get("Skein-Claimed-By") != "ada" || got.Header.Get("Authorization") != "Bearer secret" ||
		got.Header.Get("Traceparent") != trace || got.Host != "localhost" {
		t.Errorf("%v", got.Header)
	}
	bad := skein.WithTraceparent(trace + "\n")
	bad(c)
	if _, err := c.Task(ctx, "id", "a"); err != nil || got.Header.Get("Traceparent") != trace {
		t.Errorf("with a trace context that no header can hold: %v, %v", err, got.Header)
	}
	_, _ = c.StopRun(ctx, "id", "enough", skein.Key("k"))
	check("POST", "/base/api/v1/runs/id:stop")
	if body != `{"reason":"enough"}` || got.Header.Get("Idempotency-Key") != "k" || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %v", body, got.Header)
	}
	_, _ = c.Rollback(ctx, "shop/w", 3, skein.IfRevision(7))
	check("POST", "/base/api/v1/workflows/shop/w:rollback")
	if body != `{"version":3}` || got.Header.Get("If-Match") != `"7"` {
		t.Errorf("%s %v", body, got.Header)
	}
	_, _ = c.FireSchedule(ctx, "shop/w", "a/b:c", "why")
	check("POST", "/base/api/v1/schedules/shop/w/a%2Fb:c:trigger")
	_, _ = c.NextFires(ctx, "w", "t", skein.NextQuery{N: 5, From: time.Unix(0, 0)})
	check("GET", "/base/api/v1/schedules/default/w/t/next?from=1970-01-01T00%3A00%3A00Z&n=5")
	_, _ = c.AllNextFires(ctx, skein.NextQuery{Namespace: "shop"})
	check("GET", "/base/api/v1/schedules/next?namespace=shop")
	_, _ = c.Schedules(ctx, skein.SchedulesQuery{Workflow: "w", State: "paused", Kind: "cron", Limit: 7})
	check("GET", "/base/api/v1/schedules?kind=cron&limit=7&state=paused&workflow=w")
	_, _ = c.Fires(ctx, skein.FiresQuery{Workflow: "w", Trigger: "t", Unfired: true, Until: time.Unix(1, 0)})
	check("GET", "/base/api/v1/fires?trigger=t&unfired=true&until=1970-01-01T00%3A00%3A01Z&workflow=w")
	_, _ = c.Simulate(ctx, api.SimulateRequest{Workflow: "w"})
	check("POST", "/base/api/v1/schedules:simulate")
	_, _, _ = c.StartBackfill(ctx, api.BackfillRequest{Workflow: "w", DryRun: true}, skein.Key("k"))
	check("POST", "/base/api/v1/backfills")
	if body != `{"workflow":"w","dry_run":true}` {
		t.Error(body)
	}
	_, _ = c.CancelBackfill(ctx, 7)
	check("POST", "/base/api/v1/backfills/7:cancel")
	_, _ = c.BackfillRuns(ctx, 7, "", 3)
	check("GET", "/base/api/v1/backfills/7/runs?limit=3")
	_, _ = c.PauseWorkflow(ctx, "w")
	check("POST", "/base/api/v1/workflows/default/w:pause")
	_, _ = c.Run(ctx, "id", skein.WithTasks(), skein.Wait(90*time.Second))
	check("GET", "/base/api/v1/runs/id?include=tasks")
	if got.Header.Get("Prefer") != "wait=90" {
		t.Errorf("%v", got.Header)
	}
	_, _ = c.Runs(ctx, skein.RunsQuery{Workflow: "shop/w", State: "active", Since: time.Unix(0, 0), Limit: 5, Cursor: "c"})
	check("GET", "/base/api/v1/runs?cursor=c&limit=5&since=1970-01-01T00%3A00%3A00Z&state=active&workflow=shop%2Fw")
	_ = c.Ready(ctx)
	check("GET", "/base/readyz")
}

func TestErrors(t *testing.T) {
	for status, kind := range map[int]error{400: skein.ErrInvalid, 403: skein.ErrNotAllowed, 404: skein.ErrNotFound, 409: skein.ErrConflict, 412: skein.ErrConflict,
		413: skein.ErrInvalid, 421: skein.ErrNotAllowed, 422: skein.ErrInvalid, 429: skein.ErrBusy, 500: skein.ErrUnavailable, 503: skein.ErrUnavailable, 507: skein.ErrUnavailable} {
		c := client(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"type":"/problems/not-found","detail":"the sentence","errors":[{"line":4}]}`)
		})
		_, err := c.Run(t.Context(), "x")
		var e *skein.Error
		var p *api.Problem
		if !errors.Is(err, kind) || !errors.As(err, &e) || e.RetryAfter != 3*time.Second || !errors.As(err, &p) || p.Errors[0].Line != 4 || err.Error() != "the sentence" || e.Code() != "not_found" {
			t.Errorf("%d: %v", status, err)
		}
	}
	c := client(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) })
	var e *skein.Error
	if _, err := c.Run(t.Context(), "x"); !errors.Is(err, skein.ErrUnavailable) || !strings.Contains(err.Error(), "502") || !errors.As(err, &e) || e.Code() != "" {
		t.Error(err)
	}
}

func TestUnreachable(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	c, err := skein.New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Status(t.Context()); !errors.Is(err, skein.ErrUnreachable) {
		t.Error(err)
	}
	cut := client(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"id":`)
		panic(http.ErrAbortHandler)
	})
	if _, err := cut.Run(t.Context(), "x"); !errors.Is(err, skein.ErrUnreachable) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := client(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	if _, err := gone.Run(ctx, "x"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestInProcessStreams checks that the client reads each part when a handler in this process writes it, and
// that closing the answer ends the handler.
func TestInProcessStreams(t *testing.T) {
	more, ended := make(chan string), make(chan struct{})
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		w.Header().Set("Skein-Attempt", "2")
		w.Header().Set("Skein-Log-Offset", "9")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		w.Header().Set("Skein-Attempt", "too late")
		for {
			select {
			case s := <-more:
				_, _ = io.WriteString(w, s)
			case <-r.Context().Done():
				return
			}
		}
	})
	l, err := c.Logs(t.Context(), "r", "t", skein.LogQuery{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	if l.Attempt != 2 || l.Offset != 9 {
		t.Errorf("%+v", l)
	}
	for _, s := range []string{"one", "two"} {
		more <- s
		b := make([]byte, 10)
		if n, err := l.Read(b); err != nil || string(b[:n]) != s {
			t.Errorf("%q %v", b[:n], err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	<-ended
}

func TestChanges(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, ": hello\n\nid: 4\nevent: change\ndata: {\"run\":\"r\",\ndata: \"seq\":4}\n\n: \n\nevent: later\ndata: {}\n\n"+
			"event: reset\r\ndata: {}\r\n\r\nid: 5\nevent: change\ndata: {\"run\":\"s\"}\n\nid: 6\nevent: change\ndata: {\"run\":\"half")
	})
	w, err := c.Watch(t.Context(), skein.WatchQuery{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var got []string
	for change, err := range w.Changes() {
		if err != nil {
			t.Fatal(err)
		}
		text := change.ID + change.Run
		if change.Reset {
			text = "reset"
		}
		got = append(got, text)
	}
	if strings.Join(got, " ") != "4r reset 5s" {
		t.Errorf("%q", got)
	}
}

func TestPages(t *testing.T) {
	var cursors []string
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		cursors = append(cursors, r.URL.Query().Get("cursor"))
		switch len(cursors) {
		case 1:
			_, _ = io.WriteString(w, `{"items":[{"name":"a"}],"next":"p2"}`)
		case 2:
			_, _ = io.WriteString(w, `{"items":[],"next":"p3"}`)
		case 3:
			_, _ = io.WriteString(w, `{"items":[{"name":"b"}],"next":"p4"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	var names []string
	var last error
	for task, err := range c.EachTask(t.Context(), "r") {
		if last = err; err == nil {
			names = append(names, task.Name)
		}
	}
	if strings.Join(names, "") != "ab" || !errors.Is(last, skein.ErrNotFound) || strings.Join(cursors, ",") != ",p2,p3,p4" {
		t.Errorf("%v %v %v", names, last, cursors)
	}
}

// TestPatience checks that a request that a server cannot answer now is repeated with the same key, until it
// succeeds or the patience is used up.
func TestPatience(t *testing.T) {
	t.Parallel()
	status, keys, heard := http.StatusServiceUnavailable, []string{}, 0
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		b, _ := io.ReadAll(r.Body)
		if len(keys) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(status)
			return
		}
		_, _ = fmt.Fprintf(w, `{"id":%q}`, b)
	}, skein.WithPatience(time.Minute, func(e *skein.Error) { heard++ }))
	run, err := c.StopRun(t.Context(), "x", "why")
	if err != nil || run.ID != `{"reason":"why"}` || len(keys) != 2 || keys[0] == "" || keys[0] != keys[1] || heard != 1 {
		t.Errorf("%+v, %v; keys %q, heard %d times", run, err, keys, heard)
	}
	for name, last := range map[string]struct {
		status   int
		after    string
		patience time.Duration
	}{"another refusal": {http.StatusConflict, "1", time.Minute}, "no patience": {http.StatusServiceUnavailable, "1", time.Millisecond},
		"centuries": {http.StatusServiceUnavailable, "9223372037", time.Minute}} {
		status, keys = last.status, nil
		c := client(t, func(w http.ResponseWriter, r *http.Request) {
			keys = append(keys, "")
			w.Header().Set("Retry-After", last.after)
			w.WriteHeader(last.status)
		}, skein.WithPatience(last.patience, nil))
		if _, err := c.StopRun(t.Context(), "x", "why"); err == nil || len(keys) != 1 {
			t.Errorf("%s: %v after %d requests", name, err, len(keys))
		}
	}
}

// TestRedirect checks that an answer cannot make the client send a request, with its token, to another
// address.
func TestRedirect(t *testing.T) {
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			t.Errorf("%s %s with %q", r.Method, r.URL, r.Header.Get("Authorization"))
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}, skein.WithToken("secret"))
	if _, err := c.StopRun(t.Context(), "id", "enough"); err == nil {
		t.Error("a redirect is no error")
	}
}
