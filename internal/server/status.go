package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"

	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// readyTimeout bounds the read of the store for /readyz.
const readyTimeout = 5 * time.Second

// Paths outside of huma.
const (
	openAPIPath = api.Prefix + "/openapi.json"
	docsPath    = "/api/docs"
)

func (s *Server) slots() api.Slots {
	total, busy := s.engine.Slots()
	return api.Slots{Total: total, Busy: busy}
}

type statusIn struct {
	System bool `query:"system" doc:"Count the runs of the program's own workflows (namespace system), too."`
}

func (s *Server) getStatus(ctx context.Context, in *statusIn) (*jsonOut[api.Status], error) {
	info, err := s.engine.Info(ctx)
	if err != nil {
		return nil, err
	}
	runs, err := s.engine.Unfinished(ctx)
	if err == nil && !in.System {
		err = withoutSystem(ctx, s, runs)
	}
	if err != nil {
		return nil, err
	}
	out := api.Status{
		Node: s.cfg.Node.Name, Version: s.cfg.Version, State: s.state(), Accepting: s.state() == engine.StateRunning,
		StartedAt: instant(s.engine.Handler().Started), Runs: runs, ReadyTasks: s.engine.Stats().ReadyTasks.Load(), Slots: s.slots(),
		Store: api.Store{Engine: info.Engine, Location: info.Location, Cluster: info.Cluster, Format: info.Format, Shards: info.Shards, Bytes: info.Bytes},
	}
	return &jsonOut[api.Status]{Body: out}, nil
}

// withoutSystem subtracts the unfinished runs of the program's own workflow from the counts by state. There
// are few of these runs, because their queue limits them. If a run changes its state between the two reads,
// the counts may be wrong for a moment.
func withoutSystem(ctx context.Context, s *Server, counts map[string]int) error {
	id, err := s.builtin.read(ctx, s.engine)
	if err != nil || id == 0 {
		return err
	}
	page, err := s.engine.Runs(ctx, store.RunQuery{Workflow: id, States: []string{store.StateActive}, Limit: pageMax})
	if err != nil {
		return err
	}
	for i := range page.Runs {
		state := page.Runs[i].State.String()
		if counts[state]--; counts[state] <= 0 {
			delete(counts, state)
		}
	}
	return nil
}

// plain registers the routes outside of the versioned interface.
func (s *Server) plain() {
	s.document()
	outside(s, "/livez", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, map[string]bool{"live": true}) })
	outside(s, "/readyz", s.readyz)
	outside(s, "/version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, api.ServerVersion{Version: s.cfg.Version, API: api.APIVersion, GoVersion: runtime.Version()})
	})
	outside(s, "/metrics", s.metrics.handler().ServeHTTP)
	rendered := sync.OnceValues(func() (*documents, error) { return render(s.api.OpenAPI()) })
	documented := func(show func(w http.ResponseWriter, r *http.Request, d *documents)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			d, err := rendered()
			if err != nil {
				failed(err).write(w, r)
				return
			}
			show(w, r, d)
		}
	}
	outside(s, openAPIPath, documented(func(w http.ResponseWriter, r *http.Request, d *documents) {
		h := w.Header()
		h.Set("Content-Type", "application/vnd.oai.openapi+json;version=3.1")
		h.Set("ETag", d.tag)
		h.Set("Cache-Control", cacheAsk)
		if holds(r.Header.Get("If-None-Match"), d.tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write(d.openAPI) // an error means that the client is gone
	}))
	outside(s, docsPath, documented(func(w http.ResponseWriter, r *http.Request, d *documents) { d.page.ServeHTTP(w, r) }))
	arrivalRoutes(s)
	// If there is a web page, a browser gets it here. Every other client is redirected to the documentation.
	outside(s, "/", http.RedirectHandler(docsPath, http.StatusFound).ServeHTTP)
	// The page handles these paths before the mux. Without a page they do not exist.
	s.access.Take(http.MethodGet, assetsPath+"{file...}")
	s.access.Take(http.MethodGet, "/{path...}")
}

// outside registers a route that is not part of the versioned API, with the method GET.
func outside(s *Server, path string, h http.HandlerFunc) { outsideBy(s, http.MethodGet, path, h) }

func outsideBy(s *Server, method, path string, h http.HandlerFunc) {
	s.access.Take(method, path)
	h = decided(s, method, path, h)
	if path == "/" {
		path = "/{$}"
	}
	s.mux.HandleFunc(method+" "+path, h)
}

// stuckMax is how long the writer or the slot broker may complete no cycle, although work waits, before the
// node counts as not ready.
const stuckMax = 5 * time.Second

// The parts of a node that work in cycles.
const (
	partWriter = "writer"
	partSlots  = "slots"
)

// stuckFor returns how long a part has completed no cycle although work waits.
func (c *Config) stuckFor(part string) time.Duration {
	switch {
	case part == partWriter:
		return c.Engine.StuckFor()
	case c.SlotsStuckFor != nil:
		return c.SlotsStuckFor()
	}
	return 0
}

// progress returns an error if a part of the node has been stuck for too long.
func (s *Server) progress() error {
	for part, what := range map[string]string{partWriter: "the writer", partSlots: "the broker of slots"} {
		if d := s.cfg.stuckFor(part); d > stuckMax {
			return fmt.Errorf("%w: %s has completed no turn for %v although work waits", errkind.ErrUnavailable, what, d.Round(time.Second))
		}
	}
	return nil
}

// readyz answers 200 if the store, its format and the shards are ready, submissions are accepted, and no part
// is stuck.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	err := errors.Join(s.engine.Accepting(), s.progress())
	if err == nil {
		_, err = s.engine.Info(ctx)
	}
	if err != nil {
		f := failed(err)
		f.Status = http.StatusServiceUnavailable
		f.write(w, r)
		return
	}
	writeJSON(w, map[string]bool{"ready": true})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client is gone
}

// verify checks all stored rows. Only one check runs at a time. A check may take minutes, but uses little
// memory, so it has no weight among the heavy requests.
func (s *Server) verify(ctx context.Context, _ *struct{}) (*jsonOut[api.Verification], error) {
	if err := s.recounts.enter("recount is under way"); err != nil {
		return nil, err
	}
	defer s.recounts.leave()
	found, err := s.cfg.Verify(store.Within(ctx, 0)) // Verify reads every row
	if err != nil {
		return nil, err
	}
	out := &jsonOut[api.Verification]{Body: api.Verification{Violations: []api.Violation{}}}
	for _, v := range found {
		out.Body.Violations = append(out.Body.Violations, api.Violation(v))
	}
	return out, nil
}
