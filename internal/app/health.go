package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/remote"
)

const (
	// healthConnections bounds the connections of one address to the health listener of a worker,
	// healthConnectionsAll those of all addresses.
	healthConnections, healthConnectionsAll = 32, 256
	// healthTimeout bounds each request and each answer there, healthHeaderMax the header of a request in bytes.
	healthTimeout   = 10 * time.Second
	healthHeaderMax = 8 << 10
)

// healthHandler answers /livez, /readyz and /metrics of a worker.
func healthHandler(w *remote.Worker) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(out http.ResponseWriter, _ *http.Request) { fmt.Fprintln(out, "ok") })
	mux.HandleFunc("GET /readyz", func(out http.ResponseWriter, _ *http.Request) {
		if why := remote.HealthOf(w).Unready(); why != "" {
			http.Error(out, why, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(out, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metric.Registry(func(p *metric.Page) { showWorker(p, w) }), promhttp.HandlerOpts{}))
	return mux
}

// showWorker shows the numbers of a worker.
func showWorker(p *metric.Page, w *remote.Worker) {
	h := remote.HealthOf(w)
	p.Set("build_info", 1, Version(), runtime.Version())
	p.Set("slots", float64(h.Slots))
	p.Set("slots_busy", float64(h.Running))
	p.Set("disk_full", metric.Bool(h.Full))
	p.Set("worker_attached", metric.Bool(h.Attached))
	p.Set("worker_draining", metric.Bool(h.Draining))
	p.Set("worker_unreported", float64(h.Unreported))
	p.Set("log_lag_bytes", float64(h.LogLag))
	p.Set("log_dropped_bytes_total", float64(h.LogDropped))
}

// health is the health listener of a worker. It is nil if there is none.
type health struct{ l net.Listener }

func listenHealth(cfg *config.Config) (*health, error) {
	if cfg.HealthListen == "" {
		return nil, nil
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", cfg.HealthListen)
	if err != nil {
		return nil, cfg.Wrong("health_listen", err)
	}
	return &health{l}, nil
}

func (h *health) close() {
	if h != nil {
		_ = h.l.Close() // serve may have closed it
	}
}

// serve answers for a worker until stop is called.
func (h *health) serve(w *remote.Worker, log *slog.Logger) (stop func()) {
	if h == nil {
		return func() {}
	}
	conns := auth.NewConnections(h.l, healthConnections, healthConnectionsAll)
	srv := &http.Server{Handler: healthHandler(w), ReadTimeout: healthTimeout, WriteTimeout: healthTimeout, IdleTimeout: time.Minute,
		MaxHeaderBytes: healthHeaderMax, ConnContext: conns.Context, ConnState: conns.State, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := srv.Serve(conns); !errors.Is(err, http.ErrServerClosed) {
			log.Error("health listener ended", "code", "health_listener", "err", err)
		}
	}()
	log.Info("the health listener is ready", "code", "health_listening", "url", "http://"+h.l.Addr().String())
	return func() {
		_ = srv.Close()
		<-ended
	}
}
