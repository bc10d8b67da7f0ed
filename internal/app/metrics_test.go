package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"skein.dev/skein/internal/cluster/nettest"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/store/postgres/pgtest"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
	"skein.dev/skein/sdk/shared/local"
)

// scrape reads the metrics of a node as text.
func scrape(t *testing.T, h http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("GET /metrics: %d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

var typeLine = regexp.MustCompile(`(?m)^# TYPE (skein_\S+) (\S+)$`)

// shows checks that a page has the families of the catalogue that such a process shows, and no others.
func shows(t *testing.T, page string, on ...metric.On) {
	t.Helper()
	is := map[string]string{}
	for _, m := range typeLine.FindAllStringSubmatch(page, -1) {
		is[m[1]] = m[2]
	}
	for _, f := range metric.Families() {
		want := false
		for _, o := range on {
			want = want || f.On == o
		}
		name := metric.Prefix + f.Name
		if _, shown := is[name]; shown && f.On == metric.Some {
			want = true
		}
		if kind, shown := is[name]; shown != want {
			t.Errorf("%s is shown: %v, the catalogue says %v", name, shown, want)
		} else if shown && kind != string(f.Type) {
			t.Errorf("%s is a %s, the catalogue says %s", name, kind, f.Type)
		}
		delete(is, name)
	}
	for name := range is {
		t.Errorf("%s is not in the catalogue", name)
	}
}

// has checks lines of a page.
func has(t *testing.T, page string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains(page, "\n"+l+"\n") {
			name, _, _ := strings.Cut(l, "{")
			name, _, _ = strings.Cut(name, " ")
			t.Errorf("no line %q; there are %q", l, regexp.MustCompile(`(?m)^`+name+`[{ ].*$`).FindAllString(page, 20))
		}
	}
}

// value returns the number of one line of a page.
func value(t *testing.T, page, line string) float64 {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(line) + ` (\S+)$`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("no line %q", line)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestMetrics runs a failing and a succeeding task on a node without a cluster, and reads all metrics of the
// node.
func TestMetrics(t *testing.T) {
	c := testConfig(t, nil)
	n, k, _ := startNode(t, c)
	ctx := t.Context()
	if _, err := k.SetQueue(ctx, "q", api.QueueRequest{Limit: 1}); err != nil {
		t.Fatal(err)
	}
	end(t, k, begin(t, k, "  a: {run: exit 3}\n"))
	end(t, k, begin(t, k, "  a: {run: 'true'}\n"))
	r := httptest.NewRequest(http.MethodPost, "http://localhost/api/v1/hooks/default/flow/none", strings.NewReader("{}"))
	n.Handler().ServeHTTP(httptest.NewRecorder(), r)
	if _, err := dbadmin.Backup(ctx, c, filepath.Join(t.TempDir(), "backup"), false); err != nil {
		t.Fatal(err)
	}

	page := scrape(t, n.Handler())
	shows(t, page, metric.Nodes, metric.Both, metric.Files)
	has(t, page,
		`skein_runs_ended_total{cause="task_failed",state="failed",workflow="default/flow"} 1`,
		`skein_runs_ended_total{cause="",state="succeeded",workflow="default/flow"} 1`,
		`skein_run_seconds_count{workflow="default/flow"} 2`,
		`skein_attempts_ended_total{cause="exit",kind="work",state="failed"} 1`,
		`skein_attempts_ended_total{cause="",kind="work",state="succeeded"} 1`,
		`skein_task_wait_seconds_count{why="slot"} 2`,
		`skein_store_up 1`,
		`skein_queue_waiting{queue="q"} 0`,
		`skein_queue_oldest_seconds{queue="q"} 0`,
		`skein_worker_slots{group="",kind="",state="busy"} 0`,
		fmt.Sprintf(`skein_worker_slots{group="",kind="",state="free"} %d`, c.Slots),
	)
	for _, line := range []string{`skein_store_bytes{table="database"}`, `skein_backup_age_seconds`, `skein_retention_oldest_seconds`,
		`skein_store_seconds_count{op="commit"}`, `skein_store_seconds_count{op="acquire"}`, `skein_store_seconds_count{op="clock"}`} {
		if v := value(t, page, line); v <= 0 {
			t.Errorf("%s is %v", line, v)
		}
	}
}

// TestMetricsOfACluster reads all metrics of a node in a cluster, with a certificate and with the logs of a
// task in the database.
func TestMetricsOfACluster(t *testing.T) {
	pg, err := pgtest.Start(pgtest.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pg.Close() }()
	o := newOpenNode(t, map[string]string{"db": pg.URL("postgres"), "name": "n"}, true)
	k, err := skein.New(o.URL(), skein.WithHandler(o.Handler()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.SetQueue(t.Context(), "q", api.QueueRequest{Limit: 1}); err != nil {
		t.Fatal(err)
	}
	end(t, k, begin(t, k, "  a: {run: echo hello}\n"))
	if err := o.shipper.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "http://localhost/api/v1/hooks/default/flow/none", strings.NewReader("{}"))
	o.Handler().ServeHTTP(httptest.NewRecorder(), r)

	page := scrape(t, o.Handler())
	for over := time.Now().Add(time.Minute); !(strings.Contains(page, "skein_shards_unowned 0\n") && strings.Contains(page, "skein_shard_load{")) && time.Now().Before(over); {
		time.Sleep(10 * time.Millisecond) // the node reads the members and their loads twice a second
		page = scrape(t, o.Handler())
	}
	shows(t, page, metric.Nodes, metric.Both, metric.Cluster)
	has(t, page,
		`skein_members{role="node",state="active"} 1`,
		`skein_members{role="worker",state="active"} 0`,
		`skein_shards_unowned 0`,
		`skein_deposed_total 0`,
		`skein_log_lag_bytes 0`,
		`skein_log_dropped_bytes_total 0`,
		`skein_store_pool_waiting 0`,
		`skein_store_up 1`,
	)
	for _, line := range []string{`skein_store_bytes{table="run"}`, `skein_certificate_expires_seconds`, `skein_store_seconds_count{op="commit"}`} {
		if v := value(t, page, line); v <= 0 {
			t.Errorf("%s is %v", line, v)
		}
	}
}

// TestWorkerHealth reads the health and metrics of a worker, before a node runs and while the worker is
// attached.
func TestWorkerHealth(t *testing.T) {
	pg, err := pgtest.Start(pgtest.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pg.Close() }()
	n, _, _ := startNode(t, testConfig(t, map[string]string{"db": pg.URL("postgres"), "name": "n"}))
	var there atomic.Bool
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !there.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		n.http.Handler.ServeHTTP(w, r)
	}))
	defer door.Close()
	free, err := nettest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(free)
	c := testConfig(t, map[string]string{"name": "w", "server": door.URL, "slots": "3", "health-listen": ":" + port})
	if want := "127.0.0.1:" + port; c.HealthListen != want {
		t.Errorf("it listens on %s, want %s", c.HealthListen, want)
	}
	if _, err := local.Write(door.URL, n.own.Secret()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- RunWorker(ctx, c, slog.New(slog.DiscardHandler), nil, nil) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the worker ended: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	}()
	get := func(path string) (int, string) {
		r, err := http.Get("http://" + c.HealthListen + path)
		if err != nil {
			return 0, ""
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		return r.StatusCode, string(body)
	}
	becomes := func(path string, want int) (body string) {
		t.Helper()
		is := 0
		for over := time.Now().Add(time.Minute); time.Now().Before(over); time.Sleep(5 * time.Millisecond) {
			if is, body = get(path); is == want {
				return body
			}
		}
		t.Fatalf("%s is %d (%s), want %d", path, is, body, want)
		return ""
	}
	becomes("/livez", http.StatusOK)
	if why := becomes("/readyz", http.StatusServiceUnavailable); !strings.Contains(why, "attached to no node") {
		t.Errorf("it is not ready because %s", why)
	}
	there.Store(true)
	becomes("/readyz", http.StatusOK)
	page := becomes("/metrics", http.StatusOK)
	shows(t, page, metric.Both, metric.Workers)
	has(t, page, "skein_worker_attached 1", "skein_worker_draining 0", "skein_worker_unreported 0", "skein_slots 3", "skein_slots_busy 0")
	if code, _ := get("/api/v1/runs"); code != http.StatusNotFound {
		t.Errorf("it answers other paths: %d", code)
	}
}
