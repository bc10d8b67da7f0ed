// Package health is the listener with which a worker reports its health: /livez, /readyz and /metrics. It
// needs no token, and shows no data of tasks.
package health

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
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/remote"
)

const (
	// connectionsMax bounds the connections of one address to the health listener of a worker.
	// connectionsAllMax bounds the connections of all addresses.
	connectionsMax, connectionsAllMax = 32, 256
	// timeout bounds each request and each answer of the listener. headerBytesMax bounds the bytes of a
	// request's header.
	timeout        = 10 * time.Second
	headerBytesMax = 8 << 10
)

// handler answers for a worker.
func handler(w *remote.Worker, version string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(out http.ResponseWriter, _ *http.Request) { fmt.Fprintln(out, "ok") })
	mux.HandleFunc("GET /readyz", func(out http.ResponseWriter, _ *http.Request) {
		if why := remote.HealthOf(w).Unready(); why != "" {
			http.Error(out, why, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(out, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metric.Registry(func(p *metric.Page) { show(p, w, version) }), promhttp.HandlerOpts{}))
	return mux
}

// show shows the numbers of a worker.
func show(p *metric.Page, w *remote.Worker, version string) {
	h := remote.HealthOf(w)
	p.Set("build_info", 1, version, runtime.Version())
	p.Set("slots", float64(h.Slots))
	p.Set("slots_busy", float64(h.Running))
	p.Set("disk_full", metric.Bool(h.Full))
	p.Set("worker_attached", metric.Bool(h.Attached))
	p.Set("worker_draining", metric.Bool(h.Draining))
	p.Set("worker_unreported", float64(h.Unreported))
	p.Set("log_lag_bytes", float64(h.LogLag))
	p.Set("log_dropped_bytes_total", float64(h.LogDropped))
}

// Listener is the health listener of a worker. A nil Listener does nothing.
type Listener struct{ l net.Listener }

// Listen opens the listener. It returns nil if address is empty.
func Listen(ctx context.Context, address string) (*Listener, error) {
	if address == "" {
		return nil, nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &Listener{l}, nil
}

// Close closes the listener. It may be called after Serve has closed the listener.
func (h *Listener) Close() {
	if h != nil {
		_ = h.l.Close() // Serve may have closed it
	}
}

// Serve answers requests about a worker until stop is called. version is the version of the program.
func (h *Listener) Serve(w *remote.Worker, version string, log *slog.Logger) (stop func()) {
	if h == nil {
		return func() {}
	}
	conns := auth.NewConnections(h.l, connectionsMax, connectionsAllMax)
	srv := &http.Server{Handler: handler(w, version), ReadTimeout: timeout, WriteTimeout: timeout, IdleTimeout: time.Minute,
		MaxHeaderBytes: headerBytesMax, ConnContext: conns.Context, ConnState: conns.State, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := srv.Serve(conns); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the health listener has ended; free the address of health_listen, and restart the worker", "code", "health_listener", "err", err)
		}
	}()
	log.Info("the health listener is ready", "code", "health_listening", "url", "http://"+h.l.Addr().String())
	return func() {
		_ = srv.Close()
		<-ended
	}
}
