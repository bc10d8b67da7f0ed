package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

type listWorkflowsIn struct {
	Page
	SystemFilter
	Namespace string   `query:"namespace" doc:"Absent: all."`
	Tag       []string `query:"tag,explode" maxItems:"8" maxLength:"127" doc:"KEY=VALUE: only workflows with this tag; repeat it for workflows with all of several."`
}

func (s *Server) listWorkflows(ctx context.Context, in *listWorkflowsIn) (*jsonOut[api.List[api.Workflow]], error) {
	after, err := in.after()
	if err != nil {
		return nil, err
	}
	q := store.WorkflowQuery{Namespace: in.Namespace, After: after, Limit: in.Limit + 1}
	if in.hides(in.Namespace, "") {
		q.Not = engine.SystemNamespace
	}
	if q.Tags, err = tagsAsked(in.Tag); err != nil {
		return nil, err
	}
	ws, err := s.engine.Workflows(ctx, q)
	if err != nil {
		return nil, err
	}
	next := ""
	if len(ws) > in.Limit {
		ws = ws[:in.Limit]
		next = ws[len(ws)-1].Namespace + "/" + ws[len(ws)-1].Name
	}
	items := make([]api.Workflow, len(ws))
	for i := range ws {
		items[i] = workflowOf(&ws[i])
	}
	return list(items, next), nil
}

type WorkflowPath struct {
	Namespace string `path:"ns" doc:"default, if the workflow names none."`
	Name      string `path:"name"`
}

func (s *Server) workflow(ctx context.Context, p *WorkflowPath) (store.Workflow, error) {
	return s.findWorkflow(ctx, p.Namespace+"/"+p.Name)
}

type workflowOut struct {
	Status       int
	ETag         string `header:"ETag" doc:"The revision, a dot, and a mark of this workflow and its last change."`
	CacheControl string `header:"Cache-Control"`
	Body         api.Workflow
}

// etag begins with the revision. The rest distinguishes two workflows that had the same name at different
// times, and two changes with the same revision, of which a failover has lost the first.
func etag(w *store.Workflow) string { return fmt.Sprintf(`"%d.%x.%x"`, w.Revision, w.ID, w.Modified) }

type getWorkflowIn struct {
	WorkflowPath
	IfNoneMatch string `header:"If-None-Match"`
}

func (s *Server) getWorkflow(ctx context.Context, in *getWorkflowIn) (*workflowOut, error) {
	w, err := s.workflow(ctx, &in.WorkflowPath)
	if err != nil {
		return nil, err
	}
	if holds(in.IfNoneMatch, etag(&w)) {
		return nil, notModified(etag(&w), cacheAsk)
	}
	full, err := s.fullWorkflow(ctx, &w)
	return &workflowOut{Status: http.StatusOK, ETag: etag(&w), CacheControl: cacheAsk, Body: full}, err
}

// fullWorkflow adds the fields that lists leave out. It adds the source only if the caller has the verb
// workflow.source.
func (s *Server) fullWorkflow(ctx context.Context, w *store.Workflow) (api.Workflow, error) {
	out := workflowOf(w)
	v, err := s.engine.Version(ctx, w.ID, w.Version)
	if err != nil {
		return out, err
	}
	def, err := s.definition(ctx, w, w.Version)
	if err != nil {
		return out, err
	}
	source, tasks := string(v.Source), len(def.Tasks)
	if may(ctx, access.WorkflowSource, w.Namespace) == nil {
		out.Source = &source
	}
	out.Tasks, out.Description = &tasks, textOrNull(def.Description)
	out.Retention, out.Alerts, out.Git = s.retention(def), alertRules(def), gitOf(def)
	out.Params = []api.Param{}
	for i := range def.Params {
		out.Params = append(out.Params, paramOf(&def.Params[i]))
	}
	return out, nil
}

// retention returns the retention of a workflow: its own values and, where it has none, the values of the
// node's settings.
func (s *Server) retention(def *workflow.Workflow) *api.Retention {
	keep, own := def.Retention, s.cfg.Retention()
	out := &api.Retention{Default: keep == workflow.Retention{}}
	if keep.Age == 0 {
		keep.Age = own.Age
	}
	if keep.Runs == 0 {
		keep.Runs = own.Runs
	}
	out.Age, out.Runs = keep.Age.String(), keep.Runs
	return out
}

func paramOf(p *workflow.Param) api.Param {
	out := api.Param{Name: p.Name, Type: string(p.Type), Format: textOrNull(p.Format), Description: textOrNull(p.Description), Required: p.Required()}
	if len(p.Default) > 0 {
		out.Default = p.Default
	}
	for _, e := range p.Enum {
		out.Enum = append(out.Enum, e)
	}
	return out
}

// Conditional holds the header of every change of a definition.
type Conditional struct {
	IfMatch string `header:"If-Match" doc:"The ETag of the definition that is changed, or its revision or version in quotes; another one is refused with 412."`
}

// revision returns the revision that the caller expects; 0 means any.
func (c *Conditional) revision() (int64, error) {
	text := strings.TrimSpace(c.IfMatch)
	if text == "" || text == "*" {
		return 0, nil
	}
	number, _, _ := strings.Cut(strings.Trim(text, `"`), ".")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 {
		return 0, fail(http.StatusPreconditionFailed, api.ProblemPrecondition, "If-Match: %s is not an ETag of a definition", text)
	}
	return n, nil
}

type ChangeIn struct {
	WorkflowPath
	Conditional
	Idempotent
}

func (s *Server) pauseWorkflow(ctx context.Context, in *ChangeIn) (*workflowOut, error) {
	return s.setState(ctx, in, store.WorkflowPaused)
}

func (s *Server) resumeWorkflow(ctx context.Context, in *ChangeIn) (*workflowOut, error) {
	return s.setState(ctx, in, store.WorkflowActive)
}

func (s *Server) setState(ctx context.Context, in *ChangeIn, state string) (*workflowOut, error) {
	w, revision, err := s.changing(ctx, &in.WorkflowPath, &in.Conditional)
	if err != nil {
		return nil, err
	}
	if w.State != state || in.Key != "" { // the workflow is already in that state
		once, err := in.once(w.ID, state, nil)
		if err != nil {
			return nil, err
		}
		if w, err = s.engine.SetState(ctx, w, state, revision, once); err != nil {
			return nil, precondition(err, revision != 0)
		}
	}
	return s.changed(ctx, &w)
}

// once returns the request under whose idempotency key a change is stored. It returns nil if there is no key.
func (in *ChangeIn) once(w dag.WorkflowID, verb string, body any) (*store.Request, error) {
	if in.Key == "" {
		return nil, nil
	}
	hash, err := hashJSON(body)
	return &store.Request{Scope: fmt.Sprintf("POST /workflows/%d:%s", w, verb), Key: in.Key, Hash: hash, Answer: []byte(`{"status":200}`)}, err
}

// changing reads the workflow to change and checks the revision that the caller expects.
func (s *Server) changing(ctx context.Context, p *WorkflowPath, c *Conditional) (store.Workflow, int64, error) {
	revision, err := c.revision()
	if err != nil {
		return store.Workflow{}, 0, err
	}
	w, err := s.workflow(ctx, p)
	if err == nil && revision != 0 && (revision != w.Revision || strings.Contains(c.IfMatch, ".") && strings.TrimSpace(c.IfMatch) != etag(&w)) {
		err = fail(http.StatusPreconditionFailed, api.ProblemPrecondition, "workflow %s has changed: its revision is %d, not %d",
			fullName(w.Namespace, w.Name), w.Revision, revision)
	}
	return w, revision, err
}

func (s *Server) changed(ctx context.Context, w *store.Workflow) (*workflowOut, error) {
	full, err := s.fullWorkflow(ctx, w)
	return &workflowOut{Status: http.StatusOK, ETag: etag(w), Body: full}, err
}

type rollbackIn struct {
	ChangeIn
	Body api.RollbackRequest
}

func (s *Server) rollbackWorkflow(ctx context.Context, in *rollbackIn) (*workflowOut, error) {
	w, revision, err := s.changing(ctx, &in.WorkflowPath, &in.Conditional)
	if err != nil {
		return nil, err
	}
	if w.Version != in.Body.Version || in.Key != "" {
		once, err := in.once(w.ID, "rollback", in.Body)
		if err != nil {
			return nil, err
		}
		was := w
		w, err = s.engine.Rollback(ctx, w, in.Body.Version, revision, once)
		if errors.Is(err, errkind.ErrNotFound) {
			return nil, notFound("workflow %s has no version %d; the newest is %d", fullName(was.Namespace, was.Name), in.Body.Version, was.Latest)
		}
		if err != nil {
			return nil, precondition(err, revision != 0)
		}
	}
	return s.changed(ctx, &w)
}

type deleteIn struct {
	WorkflowPath
	Conditional
}

type noContent struct{}

func (s *Server) deleteWorkflow(ctx context.Context, in *deleteIn) (*noContent, error) {
	w, revision, err := s.changing(ctx, &in.WorkflowPath, &in.Conditional)
	if err != nil {
		return nil, err
	}
	_, err = s.engine.SetState(ctx, w, store.WorkflowDeleted, revision, nil)
	return nil, precondition(err, revision != 0)
}

type listVersionsIn struct {
	WorkflowPath
	Page
}

func (s *Server) listVersions(ctx context.Context, in *listVersionsIn) (*jsonOut[api.List[api.Version]], error) {
	w, err := s.workflow(ctx, &in.WorkflowPath)
	if err != nil {
		return nil, err
	}
	before, err := in.afterInt()
	if err != nil {
		return nil, err
	}
	vs, err := s.engine.Versions(ctx, w.ID, int32(min(before, 1<<30)), in.Limit+1)
	if err != nil {
		return nil, err
	}
	next := ""
	if len(vs) > in.Limit {
		vs = vs[:in.Limit]
		next = strconv.Itoa(int(vs[len(vs)-1].Version))
	}
	items := make([]api.Version, len(vs))
	for i := range vs {
		items[i] = versionOf(&w, &vs[i])
	}
	return list(items, next), nil
}

type versionIn struct {
	WorkflowPath
	Version int32  `path:"version" minimum:"1" maximum:"2147483647"`
	Include string `query:"include" enum:"files" doc:"files: the content of the files and the folder, so that an edited source can be applied with them."`
	Conditions
}

// Conditions are the headers of conditional reads.
type Conditions struct {
	IfNoneMatch string `header:"If-None-Match" doc:"ETags that the client has: 304 if the content is one of them."`
}

// taggedOut is an answer that a client may cache.
type taggedOut[T any] struct {
	ETag         string `header:"ETag"`
	CacheControl string `header:"Cache-Control"`
	Body         T
}

func (s *Server) getVersion(ctx context.Context, in *versionIn) (*taggedOut[api.Version], error) {
	w, err := s.workflow(ctx, &in.WorkflowPath)
	if err != nil {
		return nil, err
	}
	v, err := s.engine.Version(ctx, w.ID, in.Version)
	if errors.Is(err, errkind.ErrNotFound) {
		return nil, noVersion(&w, in.Version)
	}
	if err != nil {
		return nil, err
	}
	// The digest and the time are needed because a failover can lose a version, and another version then gets
	// its number.
	tag := fmt.Sprintf(`"%d.%d.%t.%s.%x.%x"`, w.ID, in.Version, in.Version == w.Version, in.Include, v.Created, v.Digest)
	if holds(in.IfNoneMatch, tag) {
		return nil, notModified(tag, cacheAsk)
	}
	query := store.FileQuery{Workflow: w.ID, Version: in.Version, Heads: true}
	files, err := s.engine.Files(ctx, query)
	if err != nil {
		return nil, err
	}
	out := versionOf(&w, &v)
	source := string(v.Source)
	out.Source, out.Files = &source, []api.File{}
	bytes := len(source)
	for _, f := range files {
		out.Files = append(out.Files, api.File{Name: f.Name, Mode: f.Mode, Size: int(f.Size)})
		if in.Include == "files" { // the files can have 16 MiB, and more in text form
			bytes += int(f.Size)
		}
	}
	leave, err := s.reads.enter(ctx, bytes) // this way, slow readers do not block other requests
	if err != nil {
		return nil, err
	}
	whenWritten(ctx, bytes, leave)
	if in.Include == "files" {
		query.Heads = false
		if files, err = s.engine.Files(ctx, query); err != nil {
			return nil, err
		}
		if len(files) != len(out.Files) {
			return nil, notFound("workflow %s has no version %d any more", fullName(w.Namespace, w.Name), in.Version)
		}
		for i, f := range files {
			out.Files[i].Data = f.Data
		}
		def, err := s.definition(ctx, &w, in.Version)
		if err != nil {
			return nil, err
		}
		out.Dir = &def.Origin
	}
	return &taggedOut[api.Version]{ETag: tag, CacheControl: cacheAsk, Body: out}, nil
}

type graphIn struct {
	WorkflowPath
	Version int32 `query:"version" minimum:"1" maximum:"2147483647" doc:"Absent: the current one."`
	Conditions
}

func (s *Server) workflowGraph(ctx context.Context, in *graphIn) (*taggedOut[api.Graph], error) {
	w, err := s.workflow(ctx, &in.WorkflowPath)
	if err != nil {
		return nil, err
	}
	version := cmp.Or(in.Version, w.Version)
	g, err := s.graphOfVersion(&w, version)
	if err != nil {
		return nil, err
	}
	tag := tagOf(keyOf(g))
	if holds(in.IfNoneMatch, tag) {
		return nil, notModified(tag, cacheOf(in.Version))
	}
	return &taggedOut[api.Graph]{ETag: tag, CacheControl: cacheOf(in.Version), Body: graphOf(g, nil)}, nil
}

// cacheOf returns the Cache-Control of an answer about a version. version is 0 if the request names none.
func cacheOf(version int32) string {
	if version == 0 {
		return cacheAsk
	}
	return cacheMinute
}

// versionGraph reads the graph of a version. Version 0 is the current one.
func (s *Server) versionGraph(ctx context.Context, in *WorkflowPath, version int32) (*dag.Graph, error) {
	w, err := s.workflow(ctx, in)
	if err != nil {
		return nil, err
	}
	return s.graphOfVersion(&w, cmp.Or(version, w.Version))
}

func (s *Server) graphOfVersion(w *store.Workflow, version int32) (*dag.Graph, error) {
	g, err := s.engine.Graph(w.ID, version)
	if errors.Is(err, errkind.ErrNotFound) {
		return nil, noVersion(w, version)
	}
	return g, err
}
