package app

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"skein.dev/skein/internal/metric"
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

// TestMetrics runs a task that fails and one that succeeds on a node of its own, and reads all that it shows.
func TestMetrics(t *testing.T) {
	n, k, _ := startNode(t, testConfig(t, nil))
	end(t, k, begin(t, k, "  a: {run: exit 3}\n"))
	end(t, k, begin(t, k, "  a: {run: 'true'}\n"))
	r := httptest.NewRequest(http.MethodPost, "http://localhost/api/v1/hooks/default/flow/none", strings.NewReader("{}"))
	n.Handler().ServeHTTP(httptest.NewRecorder(), r)

	page := scrape(t, n.Handler())
	shows(t, page, metric.Nodes, metric.Files)
	has(t, page,
		`skein_runs_ended_total{cause="task_failed",state="failed",workflow="default/flow"} 1`,
		`skein_runs_ended_total{cause="",state="succeeded",workflow="default/flow"} 1`,
		`skein_run_seconds_count{workflow="default/flow"} 2`,
		`skein_attempts_ended_total{cause="exit",kind="work",state="failed"} 1`,
		`skein_attempts_ended_total{cause="",kind="work",state="succeeded"} 1`,
		`skein_task_wait_seconds_count{why="slot"} 2`,
	)
}
