package server

import (
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/metric"
)

// metrics has its own registry, so that two servers in one process do not conflict.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	streams  prometheus.Gauge
	hooks    *prometheus.CounterVec
}

func newMetrics(cfg *Config) *metrics {
	m := &metrics{
		requests: metric.CounterVec("http_requests_total"),
		seconds:  metric.HistogramVec("http_request_duration_seconds", prometheus.ExponentialBuckets(0.0005, 4, 9)),
		streams:  metric.Plain("event_streams"),
		hooks:    metric.CounterVec("webhook_calls_total"),
	}
	sources := []metric.Source{
		func(p *metric.Page) { p.Set("build_info", 1, cfg.Version, runtime.Version()) },
		func(p *metric.Page) { counters(p, cfg.Engine) },
		cfg.Engine.Stats().Metrics,
		engine.Backlog(cfg.Engine),
		func(p *metric.Page) { cfg.showStates(p) },
	}
	m.registry = metric.Registry(append(sources, cfg.Metrics...)...)
	m.registry.MustRegister(m.requests, m.seconds, m.streams, m.hooks)
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// request counts a request. It uses the pattern of the route and not the path, so that the number of label
// values is bounded.
func (m *metrics) request(r *http.Request, status int, took time.Duration) {
	route := strings.ReplaceAll(r.Pattern, "/api/v1", "")
	if route == "" {
		route = "none"
	}
	if status == 0 {
		status = http.StatusOK
	}
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}

// counters writes the counters of the engine.
func counters(p *metric.Page, e *engine.Engine) {
	st := e.Stats()
	for _, c := range []struct {
		name string
		n    interface{ Load() int64 }
	}{
		{"runs_accepted_total", &st.RunsAccepted}, {"attempts_started_total", &st.AttemptsStarted},
		{"reports_rejected_total", &st.Rejected}, {"attempts_lost_total", &st.Lost}, {"runs_revived_total", &st.RunsRevived},
		{"repaired_total", &st.Repaired}, {"sweeps_total", &st.Sweeps}, {"store_regressed_total", &st.Regressed},
		{"shards_retaken_total", &st.Retaken}, {"runs_quarantined_total", &st.Quarantined}, {"tasks_poisoned_total", &st.Poisoned},
		{"conditions_evaluated_beside_total", &st.Evaluated}, {"runs_expired_total", &st.Expired}, {"commits_total", &st.Commits},
		{"commits_ahead_total", &st.Ahead}, {"rows_written_total", &st.Rows}, {"runs_active", &st.ActiveRuns},
		{"runs_ready", &st.ReadyTasks}, {"inbox_items", &st.InboxItems},
	} {
		p.Set(c.name, float64(c.n.Load()))
	}
	for i, fault := range engine.Faults() {
		p.Set("recovery_faults_total", float64(st.Faults[i].Load()), fault)
	}
	p.Duration("commit_seconds_total", time.Duration(st.CommitNanos.Load()))
	slots, busy := e.Slots()
	p.Set("slots", float64(slots))
	p.Set("slots_busy", float64(busy))
}

// showStates writes the present state of the node.
func (c *Config) showStates(p *metric.Page) {
	p.Set("disk_full", metric.Bool(c.Engine.IsShut() != ""))
	p.Set("accepting", metric.Bool(c.Engine.Accepting() == nil))
	for _, part := range []string{partWriter, partSlots} {
		p.Duration("turn_stuck_seconds", c.stuckFor(part), part)
	}
}
