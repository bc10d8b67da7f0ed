package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/sealed"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// Idempotent holds the header of every POST that changes something.
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
	if err := mayStart(ctx, req); err != nil {
		return nil, err
	}
	a, err := s.submit(ctx, req, nil)
	if err != nil {
		return nil, err
	}
	wait := in.wait()
	run, err := s.startedRun(ctx, &a, wait)
	if err != nil {
		return nil, err
	}
	out := &runOut{Status: http.StatusAccepted, Location: api.Prefix + "/runs/" + run.ID, Preference: applied(wait), Body: run}
	left, most := s.engine.SubmitRoom()
	out.RateLimit, out.RateLimitPolicy = `"submissions";r=`+strconv.Itoa(left), `"submissions";q=`+strconv.Itoa(most)
	switch {
	case a.Existing:
		out.Status = http.StatusOK
	case wait > 0 && run.Ended():
		out.Status = http.StatusCreated
	}
	return out, nil
}

// mayStart returns a refusal if the caller may not start the run. A start at a task skips the tasks before
// it, so it also needs the verb run.redo. A start of an earlier version needs it, too.
func mayStart(ctx context.Context, req *api.RunRequest) error {
	if err := mayName(ctx, access.RunStart, req.Workflow); err != nil {
		return err
	}
	if req.From == "" && req.Version == 0 {
		return nil
	}
	return mayName(ctx, access.RunRedo, req.Workflow)
}

// startedRun returns the run of a submission. If the engine has returned the run as it was accepted,
// startedRun returns that. Otherwise it reads the run after the wait. The run has its values only if the
// caller has the verb run.values, because a rerun takes the values of another run.
func (s *Server) startedRun(ctx context.Context, a *engine.Accepted, wait time.Duration) (api.Run, error) {
	if a.View != nil && wait == 0 {
		run, err := s.lastStart.run(a.View)
		maskParams(ctx, s, a.View, &run)
		hideValues(ctx, &run)
		return run, err
	}
	if err := s.await(ctx, a.Run, wait); err != nil {
		return api.Run{}, err
	}
	return s.readRun(ctx, a.Run, false)
}

// submit starts a run, or finds the run that its key has started. of is the run that it repeats, or nil.
func (s *Server) submit(ctx context.Context, req *api.RunRequest, of *dag.Header) (engine.Accepted, error) {
	w, kept, err := s.startable(ctx, req.Workflow)
	if err != nil {
		return engine.Accepted{}, err
	}
	a, err := s.submitTo(ctx, &w, req, of)
	var moved *errkind.Elsewhere
	if !errors.As(err, &moved) {
		return a, err
	}
	if kept { // the cached row may be out of date
		if w, err = s.findWorkflow(ctx, req.Workflow); err != nil {
			return engine.Accepted{}, err
		}
		a, err = s.submitTo(ctx, &w, req, of)
	}
	if errors.As(err, &moved) && s.cfg.Cluster != nil {
		sub, err := s.submission(ctx, &w, req, of)
		if err != nil {
			return engine.Accepted{}, err
		}
		a, err = s.cfg.Cluster.Submit(ctx, moved.Shard, sub)
		return a, sameKey(&a, &sub, err)
	}
	return a, err
}

// submitTo starts a run on this node, which must own the workflow.
func (s *Server) submitTo(ctx context.Context, w *store.Workflow, req *api.RunRequest, of *dag.Header) (engine.Accepted, error) {
	sub, err := s.submission(ctx, w, req, of)
	if err != nil {
		return startedBefore(ctx, s.engine, &sub, err)
	}
	a, err := s.engine.Submit(ctx, sub)
	return a, sameKey(&a, &sub, err)
}

// startedBefore returns the run that the key of an invalid request has started. It returns the error why if
// there is none. If there is one, the request was valid at that time.
func startedBefore(ctx context.Context, e *engine.Engine, sub *engine.Submission, why error) (engine.Accepted, error) {
	if sub.Key == "" || sub.KeyHash == nil {
		return engine.Accepted{}, why
	}
	row, err := e.RunByKey(ctx, sub.Workflow.ID, sub.Key)
	switch {
	case err == nil:
		return engine.Accepted{Run: row.ID, Existing: true}, sameRequest(row.KeyHash, sub.KeyHash)
	case errors.Is(err, errkind.ErrNotFound):
		return engine.Accepted{}, why
	}
	return engine.Accepted{}, err
}

// sameKey explains a conflict over an idempotency key.
func sameKey(a *engine.Accepted, sub *engine.Submission, err error) error {
	if errors.Is(err, errkind.ErrConflict) && a.Existing {
		return sameRequest(nil, sub.KeyHash)
	}
	return err
}

// submission converts a request to a submission and checks it. The key of the submission is set even if there
// is an error. The hash of the key is set once the values of type secret are sealed.
func (s *Server) submission(ctx context.Context, w *store.Workflow, req *api.RunRequest, of *dag.Header) (sub engine.Submission, err error) {
	sub = engine.Submission{Workflow: *w, Version: req.Version, Origin: dag.OriginAPI, User: userOf(ctx), From: req.From, View: true}
	if of != nil {
		if of.Workflow != w.ID {
			return sub, fail(http.StatusConflict, api.ProblemConflict, "the workflow of run %s is deleted", of.ID)
		}
		sub.Of, sub.Instant = of.ID, of.Instant()
	}
	if req.Origin != "" {
		sub.Origin = dag.Origin(req.Origin)
	}
	if sub.Trace = cmp.Or(dag.ParseTrace(req.Traceparent), callerTrace(ctx)); sub.Trace == "" && of != nil {
		sub.Trace = of.Trace()
	}
	sub.Key = req.IdempotencyKey
	if sub.Tags, err = dag.TagsOf(req.Tags, dag.TagsGivenMax); err != nil {
		return sub, invalid("tags: %s", err)
	}
	if of != nil {
		sub.Tags = sub.Tags.With(of.Tags())
	}
	if sub.Version == 0 {
		sub.Version = w.Version
	}
	def, err := s.definition(ctx, w, sub.Version)
	if err != nil {
		return sub, err
	}
	given, err := sealing{s.cfg.Sealed, w, of}.params(ctx, def, req.Params)
	if err != nil {
		return sub, err
	}
	if given != nil {
		with := *req
		with.Params = given
		req = &with
	}
	// this must not come earlier, because readers of the database could then guess secret values by their
	// hash
	if sub.Key != "" {
		if sub.KeyHash, err = startHash(w, req, of); err != nil {
			return sub, err
		}
	}
	if err := s.hasTask(w, sub.Version, req.From); err != nil {
		return sub, err
	}
	if err := mayBeginAt(ctx, s, w, sub.Version, req.From); err != nil {
		return sub, err
	}
	if sub.Params, err = def.CheckParams(req.Params, time.Now()); err != nil {
		return sub, invalidParams(err)
	}
	sub.Priority = def.Level()
	if req.Priority != "" {
		sub.Priority, _ = dag.ParsePriority(req.Priority) // the schema has already checked it
	}
	return sub, nil
}

// sealing seals parameters of a start.
type sealing struct {
	book *sealed.Book // nil if this server cannot seal
	of   *store.Workflow
	was  *dag.Header // the run that the start repeats; nil if there is none
}

// params returns the parameters, with those of type secret sealed. It returns nil if there are none. A rerun
// may give the sealed texts of the run that it repeats.
func (s sealing) params(ctx context.Context, def *workflow.Workflow, given api.Params) (api.Params, error) {
	var out api.Params
	for i := range def.Params {
		p := &def.Params[i]
		text, isText := given[p.Name].(string)
		if p.Type != workflow.Secret || !isText { // CheckParams refuses a value that is not a text, without showing the value
			continue
		}
		if out == nil {
			out = maps.Clone(given)
		}
		if s.was != nil && s.was.Workflow == s.of.ID && repeats(s.was.Params, p.Name, text) {
			continue
		}
		if strings.HasPrefix(text, workflow.SealedPrefix) {
			return nil, invalidParams(workflow.ValueErrors{{Name: p.Name, Message: "parameter " + p.Name + " is a sealed text: give the value itself, or rerun the run that used the value"}})
		}
		if s.book == nil {
			return nil, invalid("parameter %s is a secret, and this server cannot seal it", p.Name)
		}
		value, err := s.book.SealParam(ctx, s.of.Namespace, s.of.Name, p.Name, []byte(text))
		if errors.Is(err, sealed.ErrInvalid) {
			return nil, invalidParams(workflow.ValueErrors{{Name: p.Name, Message: "parameter " + p.Name + ": " + err.Error()}})
		}
		if err != nil {
			return nil, refusedSecret(err)
		}
		out[p.Name] = value
	}
	return out, nil
}

// repeats reports whether a sealed text is the value of a parameter of an earlier run.
func repeats(params []byte, name, text string) bool {
	var all map[string]json.RawMessage
	var was string
	return json.Unmarshal(params, &all) == nil && json.Unmarshal(all[name], &was) == nil && was == text && strings.HasPrefix(text, workflow.SealedPrefix)
}

// callerTrace returns the trace context that the request of ctx gives in its header traceparent. If there are
// two such headers, it returns "", because W3C Trace Context does not allow them.
func callerTrace(ctx context.Context) string {
	rec, ok := ctx.Value(recorderKey{}).(*recorder)
	if !ok {
		return ""
	}
	if given := rec.header["Traceparent"]; len(given) == 1 {
		return dag.ParseTrace(given[0])
	}
	return ""
}

// startHash distinguishes requests with one key by their content, not by their results.
func startHash(w *store.Workflow, req *api.RunRequest, of *dag.Header) ([]byte, error) {
	type asked struct {
		Workflow string
		Version  int32
		Params   api.Params
		Priority string
	}
	a := asked{w.Namespace + "/" + w.Name, req.Version, req.Params, req.Priority}
	if len(req.Tags) > 0 {
		return hashJSON(struct {
			asked
			Of, From string
			Tags     api.Tags
		}{a, runOrNone(of), req.From, req.Tags})
	}
	if of == nil && req.From == "" {
		if a.Params == nil && plainText(a.Workflow) && plainText(a.Priority) {
			return hashPlain(a.Workflow, a.Version, a.Priority), nil
		}
		return hashJSON(a)
	}
	again := struct {
		asked
		Of, From string
	}{asked: a, Of: runOrNone(of), From: req.From}
	return hashJSON(again)
}

// hashPlain returns what hashJSON returns for a start without parameters. Most starts are of this form, and
// the usual encoder takes three times as long. The texts must be plain.
func hashPlain(workflow string, version int32, priority string) []byte {
	var room [256]byte
	b := append(append(room[:0], `{"Workflow":"`...), workflow...)
	b = strconv.AppendInt(append(b, `","Version":`...), int64(version), 10)
	b = append(append(append(b, `,"Params":null,"Priority":"`...), priority...), `"}`...)
	sum := sha256.Sum256(b)
	return sum[:]
}

// plainText reports whether JSON contains a text as it is, without an escape.
func plainText(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '/':
		default:
			return false
		}
	}
	return true
}

func runOrNone(of *dag.Header) string {
	if of == nil {
		return ""
	}
	return of.ID.String()
}

// hasTask returns an error for a start at a task that the version does not have.
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

// hashJSON hashes the canonical form of a value, in which the keys of maps are sorted.
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
	return fail(http.StatusConflict, api.ProblemIdempotency, "another request used this idempotency key before")
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

// findWorkflow finds a workflow by NAME or NAMESPACE/NAME.
func (s *Server) findWorkflow(ctx context.Context, name string) (store.Workflow, error) {
	namespace, name := cutName(name)
	w, err := s.engine.Workflow(ctx, namespace, name)
	return w, noWorkflow(namespace, name, err)
}

// startable finds the workflow of a start. kept reports whether the engine returned a cached row.
func (s *Server) startable(ctx context.Context, name string) (store.Workflow, bool, error) {
	namespace, name := cutName(name)
	w, kept, err := s.engine.Startable(ctx, namespace, name)
	return w, kept, noWorkflow(namespace, name, err)
}

func cutName(full string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(full, "/"); ok {
		return namespace, name
	}
	return api.NamespaceDefault, full
}

// noWorkflow returns the error for a workflow that was not found. The error names the workflow.
func noWorkflow(namespace, name string, err error) error {
	if errors.Is(err, errkind.ErrNotFound) {
		return notFound("there is no workflow %s", fullName(namespace, name)).about("no_workflow", "workflow", fullName(namespace, name))
	}
	return err
}

// noVersion returns the error for a version of a workflow that was not found.
func noVersion(w *store.Workflow, version int32) *failure {
	full := fullName(w.Namespace, w.Name)
	return notFound("workflow %s has no version %d", full, version).about("no_version", "workflow", full, "version", strconv.Itoa(int(version)))
}

// definition decodes a version, or returns a cached one.
func (s *Server) definition(ctx context.Context, w *store.Workflow, version int32) (*workflow.Workflow, error) {
	key := versionKey{w.ID, version}
	if def := s.defs.get(key); def != nil {
		return def, nil
	}
	v, err := s.engine.Version(ctx, w.ID, version)
	if errors.Is(err, errkind.ErrNotFound) {
		return nil, noVersion(w, version)
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
