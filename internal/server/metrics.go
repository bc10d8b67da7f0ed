package server

import (
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"skein.dev/skein/internal/engine"
)

// metrics has a registry of its own: two servers in one process do not meet.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	streams  prometheus.Gauge
	hooks    *prometheus.CounterVec
}

func newMetrics(cfg *Config) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "skein_http_requests_total", Help: "Requests answered."}, []string{"route", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "skein_http_request_duration_seconds",
			Help: "Time to answer; streams and waits count in full.", Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9)}, []string{"route"}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{Name: "skein_event_streams", Help: "Clients that watch events now."}),
	}
	m.hooks = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "skein_webhook_calls_total",
		Help: "Calls to webhooks by what became of them; form is that of a signature that holds."}, []string{"outcome", "form"})
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "skein_build_info", Help: "Always 1.",
		ConstLabels: prometheus.Labels{"version": cfg.Version, "go": runtime.Version()}})
	build.Set(1)
	m.registry.MustRegister(m.requests, m.seconds, m.streams, m.hooks, build, engineCollector(cfg),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// request counts one. The route is the pattern, never the path: its values are bounded.
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

// engineStats reads the engine's counters whenever somebody asks.
type engineStats struct {
	e     *engine.Engine
	stats []stat
}

type stat struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func() float64
}

func engineCollector(cfg *Config) prometheus.Collector {
	e := cfg.Engine
	st := e.Stats()
	c := &engineStats{e: e}
	add := func(name, help string, kind prometheus.ValueType, read func() float64) {
		c.stats = append(c.stats, stat{prometheus.NewDesc("skein_"+name, help, nil, nil), kind, read})
	}
	count := func(name, help string, v interface{ Load() int64 }) {
		add(name, help, prometheus.CounterValue, func() float64 { return float64(v.Load()) })
	}
	gauge := func(name, help string, v interface{ Load() int64 }) {
		add(name, help, prometheus.GaugeValue, func() float64 { return float64(v.Load()) })
	}
	count("runs_accepted_total", "Runs made durable.", &st.RunsAccepted)
	count("runs_ended_total", "Runs that ended.", &st.RunsEnded)
	count("attempts_started_total", "Attempts handed out.", &st.AttemptsStarted)
	count("attempts_ended_total", "Attempts whose report was accepted.", &st.AttemptsEnded)
	count("reports_rejected_total", "Reports of those who hold nothing any more.", &st.Rejected)
	count("attempts_lost_total", "Attempts whose holder is gone.", &st.Lost)
	count("runs_revived_total", "Runs that were brought back after their end; each ends once more.", &st.RunsRevived)
	count("repaired_total", "What recovery had to repair; it should find nothing.", &st.Repaired)
	count("sweeps_total", "Sweeps of recovery over all runs.", &st.Sweeps)
	for i, fault := range engine.Faults() {
		c.stats = append(c.stats, stat{prometheus.NewDesc("skein_recovery_faults_total", "What sweeps found and repaired; they should find nothing.", nil,
			prometheus.Labels{"fault": fault}), prometheus.CounterValue, func() float64 { return float64(st.Faults[i].Load()) }})
	}
	count("store_regressed_total", "Times that the database went back to an earlier state: a failover that lost commits, or a restore.", &st.Regressed)
	count("shards_retaken_total", "Shards taken again after a failed transaction.", &st.Retaken)
	count("runs_quarantined_total", "Runs set aside because their rows cannot be used.", &st.Quarantined)
	count("tasks_poisoned_total", "Tasks that failed because they were lost too often.", &st.Poisoned)
	count("conditions_evaluated_beside_total", "Conditions that were evaluated beside the writer: they cost more than a transaction may take.", &st.Evaluated)
	count("runs_expired_total", "Finished runs deleted because they need not be kept.", &st.Expired)
	count("commits_total", "Transactions committed.", &st.Commits)
	count("commits_ahead_total", "Transactions that were made while the one before was under way.", &st.Ahead)
	count("rows_written_total", "Rows written by them.", &st.Rows)
	add("commit_seconds_total", "Time spent in them.", prometheus.CounterValue,
		func() float64 { return time.Duration(st.CommitNanos.Load()).Seconds() })
	gauge("runs_active", "Unfinished runs in memory.", &st.ActiveRuns)
	gauge("runs_ready", "Runs with tasks that wait for a slot.", &st.ReadyTasks)
	gauge("inbox_items", "Items of the last transaction.", &st.InboxItems)
	add("slots", "Attempts that may run at once.", prometheus.GaugeValue, func() float64 { n, _ := e.Slots(); return float64(n) })
	add("slots_busy", "Slots taken.", prometheus.GaugeValue, func() float64 { _, n := e.Slots(); return float64(n) })
	c.states(cfg)
	for i := range cfg.Counts {
		c.count(&cfg.Counts[i])
	}
	return c
}

// states adds what the node is like now.
func (c *engineStats) states(cfg *Config) {
	e := cfg.Engine
	gauge := func(name, help string, labels prometheus.Labels, read func() float64) {
		c.stats = append(c.stats, stat{prometheus.NewDesc("skein_"+name, help, nil, labels), prometheus.GaugeValue, read})
	}
	gauge("disk_full", "1 if no task is taken, for the disk of the data folder has no room.", nil, func() float64 { return is(e.IsShut() != "") })
	gauge("accepting", "1 if submissions are taken.", nil, func() float64 { return is(e.Accepting() == nil) })
	for _, part := range []string{partWriter, partSlots} {
		gauge("turn_stuck_seconds", "For how long a part of the node has completed no turn although work waits.", prometheus.Labels{"part": part},
			func() float64 { return cfg.stuckFor(part).Seconds() })
	}
}

func is(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

// count adds a number that somebody else keeps.
func (c *engineStats) count(n *Count) {
	labels := prometheus.Labels{}
	if n.Label != "" {
		labels[n.Label] = n.Value
	}
	kind := prometheus.CounterValue
	if n.Falls {
		kind = prometheus.GaugeValue
	}
	c.stats = append(c.stats, stat{prometheus.NewDesc("skein_"+n.Name, n.Help, nil, labels), kind, func() float64 { return float64(n.Read()) }})
}

// Describe and Collect make it a prometheus.Collector.
func (c *engineStats) Describe(ch chan<- *prometheus.Desc) {
	for i := range c.stats {
		ch <- c.stats[i].desc
	}
}

// Collect reads everything once.
func (c *engineStats) Collect(ch chan<- prometheus.Metric) {
	for i := range c.stats {
		ch <- prometheus.MustNewConstMetric(c.stats[i].desc, c.stats[i].kind, c.stats[i].read())
	}
}
