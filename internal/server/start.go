package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	api "skein.dev/skein/api/v1"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// Idempotent is what every POST that changes something takes.
type Idempotent struct {
	Key string `header:"Idempotency-Key" maxLength:"255" doc:"The same key with the same body gets the same answer; with another body it is refused."`
}

type startRunIn struct {
	Idempotent
	Prefer
	Body api.RunRequest
}

func (s *Server) startRun(ctx context.Context, in *startRunIn) (*runOut, error) {
	req := &in.Body
	switch {
	case req.IdempotencyKey == "":
		req.IdempotencyKey = in.Key
	case in.Key != "" && in.Key != req.IdempotencyKey:
		return nil, invalid("the header Idempotency-Key and the field idempotency_key differ")
	}
	id, existing, err := s.submit(ctx, req, nil)
	if err != nil {
		return nil, err
	}
	wait := in.wait()
	if err := s.await(ctx, id, wait); err != nil {
		return nil, err
	}
	run, err := s.readRun(ctx, id, false)
	if err != nil {
		return nil, err
	}
	out := &runOut{Status: http.StatusAccepted, Location: api.Prefix + "/runs/" + run.ID, Preference: applied(wait), Body: run}
	left, most := s.engine.SubmitRoom()
	out.RateLimit, out.RateLimitPolicy = fmt.Sprintf(`"submissions";r=%d`, left), fmt.Sprintf(`"submissions";q=%d`, most)
	switch {
	case existing:
		out.Status = http.StatusOK
	case wait > 0 && run.Ended():
		out.Status = http.StatusCreated
	}
	return out, nil
}

// submit starts a run, or finds the one that its key made. of is the run that it repeats, if any.
func (s *Server) submit(ctx context.Context, req *api.RunRequest, of *dag.Header) (id dag.RunID, existing bool, err error) {
	w, err := s.findWorkflow(ctx, req.Workflow)
	if err != nil {
		return id, false, err
	}
	sub := engine.Submission{Workflow: w, Version: req.Version, Origin: dag.OriginAPI, User: userOf(ctx), Key: req.IdempotencyKey, From: req.From}
	if of != nil {
		if of.Workflow != w.ID {
			return id, false, fail(http.StatusConflict, api.ProblemConflict, "the workflow of run %s is deleted", of.ID)
		}
		sub.Of, sub.Instant = of.ID, of.Instant()
	}
	if req.Origin != "" {
		sub.Origin = dag.Origin(req.Origin)
	}
	if sub.Key != "" {
		if sub.KeyHash, err = startHash(&w, req, of); err != nil {
			return id, false, err
		}
		// Asked before the parameters are looked at: what was valid then need not be now.
		row, err := s.engine.RunByKey(ctx, w.ID, sub.Key)
		if err == nil {
			return row.ID, true, sameRequest(row.KeyHash, sub.KeyHash)
		}
		if !errors.Is(err, engine.ErrNotFound) {
			return id, false, err
		}
	}
	if sub.Version == 0 {
		sub.Version = w.Version
	}
	def, err := s.definition(ctx, &w, sub.Version)
	if err != nil {
		return id, false, err
	}
	if err := s.hasTask(&w, sub.Version, req.From); err != nil {
		return id, false, err
	}
	if sub.Params, err = def.CheckParams(req.Params, time.Now()); err != nil {
		return id, false, invalidParams(err)
	}
	sub.Priority = def.Level()
	if req.Priority != "" {
		sub.Priority, _ = dag.ParsePriority(req.Priority) // the schema has checked it
	}
	a, err := s.engine.Submit(ctx, sub)
	var moved *engine.Elsewhere
	if errors.As(err, &moved) && s.cfg.Cluster != nil {
		a, err = s.cfg.Cluster.Submit(ctx, moved.Shard, sub)
	}
	if errors.Is(err, engine.ErrConflict) && a.Existing {
		return id, false, sameRequest(nil, sub.KeyHash) // two at once
	}
	return a.Run, a.Existing, err
}

// startHash tells requests under one key apart: what was asked, not what became of it.
func startHash(w *store.Workflow, req *api.RunRequest, of *dag.Header) ([]byte, error) {
	type asked struct {
		Workflow string
		Version  int32
		Params   api.Params
		Priority string
	}
	a := asked{w.Namespace + "/" + w.Name, req.Version, req.Params, req.Priority}
	if of == nil && req.From == "" {
		return hashJSON(a)
	}
	again := struct {
		asked
		Of, From string
	}{asked: a, From: req.From}
	if of != nil {
		again.Of = of.ID.String()
	}
	return hashJSON(again)
}

// hasTask refuses a task to begin at that the version does not have.
func (s *Server) hasTask(w *store.Workflow, version int32, name string) error {
	if name == "" {
		return nil
	}
	g, err := s.engine.Graph(w.ID, version)
	if err != nil {
		return err
	}
	if _, ok := g.Find(name); ok {
		return nil
	}
	text := ""
	if near := g.Near(name); near != "" {
		text = "; did you mean " + near + "?"
	}
	return notFound("version %d of workflow %s has no task %q%s", version, fullName(w.Namespace, w.Name), name, text)
}

// hashJSON is of the canonical form: the keys of maps are sorted.
func hashJSON(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, invalid("the body: %s", err)
	}
	sum := sha256.Sum256(b)
	return sum[:], nil
}

func sameRequest(was, is []byte) error {
	if string(was) == string(is) {
		return nil
	}
	return fail(http.StatusConflict, api.ProblemIdempotency, "this idempotency key came with another request before")
}

func invalidParams(err error) error {
	f := fail(http.StatusUnprocessableEntity, api.ProblemInvalidParams, "%s", err.Error())
	var faults workflow.ValueErrors
	if errors.As(err, &faults) {
		for _, e := range faults {
			f.Errors = append(f.Errors, api.FileError{Line: 1, Column: 1, Key: "params." + e.Name, Message: e.Message, Hint: e.Hint})
		}
	}
	return f
}

// findWorkflow takes NAME or NAMESPACE/NAME.
func (s *Server) findWorkflow(ctx context.Context, name string) (store.Workflow, error) {
	namespace := api.NamespaceDefault
	if ns, n, ok := strings.Cut(name, "/"); ok {
		namespace, name = ns, n
	}
	w, err := s.engine.Workflow(ctx, namespace, name)
	if errors.Is(err, engine.ErrNotFound) {
		return w, notFound("there is no workflow %s", fullName(namespace, name))
	}
	return w, err
}

// definition decodes a version, or finds that it was decoded lately.
func (s *Server) definition(ctx context.Context, w *store.Workflow, version int32) (*workflow.Workflow, error) {
	key := versionKey{w.ID, version}
	if def := s.defs.get(key); def != nil {
		return def, nil
	}
	v, err := s.engine.Version(ctx, w.ID, version)
	if errors.Is(err, engine.ErrNotFound) {
		return nil, notFound("workflow %s has no version %d", fullName(w.Namespace, w.Name), version)
	}
	if err != nil {
		return nil, err
	}
	def, err := workflow.Decode(v.Def)
	if err != nil {
		return nil, fmt.Errorf("version %d of %s: %w", version, fullName(w.Namespace, w.Name), err)
	}
	s.defs.put(key, def)
	return def, nil
}
