package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// Bounds of the files that are stored with a version.
const (
	fileBytesMax  = 1 << 20
	filesBytesMax = 16 << 20
	filesMax      = 10_000
	dirBytesMax   = 4096
)

// DefinitionBody is a workflow file as YAML (application/yaml), or as JSON with its files and folder.
type DefinitionBody struct {
	ContentType string `header:"Content-Type" hidden:"true"`
	RawBody     []byte `contentType:"application/yaml"`
}

func (b *DefinitionBody) request() (*api.ApplyRequest, error) {
	kind, _, err := mime.ParseMediaType(b.ContentType)
	if b.ContentType == "" {
		kind, err = "application/yaml", nil
	}
	switch {
	case err != nil:
	case kind == "application/json":
		req := &api.ApplyRequest{}
		if err := decodeJSON(b.RawBody, req); err != nil {
			return nil, fail(http.StatusBadRequest, api.ProblemInvalid, "body: %s", err)
		}
		return req, checkFiles(req)
	case slices.Contains([]string{"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "text/plain"}, kind):
		return &api.ApplyRequest{Source: string(b.RawBody)}, nil
	}
	return nil, fail(http.StatusUnsupportedMediaType, api.ProblemMediaType, "want application/yaml or application/json, not %q", b.ContentType)
}

// checkFiles checks the files that are sent with a workflow file.
func checkFiles(req *api.ApplyRequest) error {
	if req.Dir != "" && (!filepath.IsAbs(req.Dir) || len(req.Dir) > dirBytesMax || strings.ContainsRune(req.Dir, 0)) {
		return invalid("dir: use an absolute path of at most %d bytes", dirBytesMax)
	}
	if len(req.Files) > filesMax {
		return invalid("files: %d are more than %d", len(req.Files), filesMax)
	}
	sort.Slice(req.Files, func(i, j int) bool { return req.Files[i].Name < req.Files[j].Name })
	total := 0
	for i, f := range req.Files {
		total += len(f.Data)
		switch {
		case !fs.ValidPath(f.Name) || f.Name == "." || strings.ContainsAny(f.Name, "\\\x00"):
			return invalid("files: %q is not a relative path with slashes", f.Name)
		case i > 0 && req.Files[i-1].Name == f.Name:
			return invalid("files: %s is listed twice", f.Name)
		case len(f.Data) > fileBytesMax:
			return invalid("files: %s has %d bytes, the limit is %d", f.Name, len(f.Data), fileBytesMax)
		case total > filesBytesMax:
			return invalid("files: all files together have more than %d bytes", filesBytesMax)
		}
	}
	return nil
}

// parse reads the one workflow of a request.
func (s *Server) parse(ctx context.Context, req *api.ApplyRequest) (*workflow.Workflow, workflow.Errors, error) {
	ws, faults, err := s.parseAll(ctx, req)
	if err != nil || len(faults) > 0 {
		return nil, faults, err
	}
	if len(ws) != 1 {
		return nil, workflow.Errors{{File: req.File, Line: 1, Column: 1, Message: fmt.Sprintf("the file has %d workflows", len(ws)), Hint: "send one at a time"}}, nil
	}
	return ws[0], nil, nil
}

// parseAll reads the workflows of a request. It uses the calendars in the request and the present resource
// classes.
func (s *Server) parseAll(ctx context.Context, req *api.ApplyRequest) ([]*workflow.Workflow, workflow.Errors, error) {
	files := make([]workflow.File, len(req.Files))
	for i, f := range req.Files {
		files[i] = workflow.File{Name: f.Name, Data: f.Data}
	}
	var unread error
	own := func(namespace string) map[string]dag.Need {
		all, err := s.cfg.Classes.ClassList(ctx)
		unread = err
		return store.Needs(all, namespace)
	}
	ws, faults := workflow.Parse([]byte(req.Source), workflow.Options{File: req.File, TasksMax: s.cfg.TasksMax, ReadFile: workflow.ReadFrom(files), Classes: own, Input: s.cfg.Input})
	if unread != nil {
		return nil, nil, unreadClasses(unread)
	}
	for _, w := range ws {
		if err := w.SetOrigin(req.Dir); err != nil {
			faults = append(faults, workflow.Error{File: req.File, Line: 1, Column: 1, Key: "triggers", Message: err.Error(),
				Hint: "a folder comes with a workflow that is applied from a file"})
			continue
		}
		faults = append(faults, unwatchable(req, w, s.cfg.Protected)...)
	}
	return ws, faults, nil
}

// unwatchable returns the faults of triggers that watch files of the node itself. Other nodes of a cluster
// may have other files, so the watcher checks this again at each look.
func unwatchable(req *api.ApplyRequest, w *workflow.Workflow, protected []string) (faults workflow.Errors) {
	for i := range w.Triggers {
		look := w.Triggers[i].File
		if absent := w.Triggers[i].Absent; absent != nil {
			look = absent.File
		}
		if look == nil {
			continue
		}
		if err := trigger.Watchable(look.Path, protected); err != nil {
			faults = append(faults, workflow.Error{File: req.File, Line: 1, Column: 1, Key: "triggers." + w.Triggers[i].Name, Message: err.Error()})
		}
	}
	return faults
}

type applyIn struct {
	WorkflowPath
	Conditional
	IfNoneMatch string `header:"If-None-Match" doc:"*: only if there is no such workflow yet."`
	DefinitionBody
}

type appliedOut struct {
	Status   int
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Body     api.Applied
}

func (s *Server) applyWorkflow(ctx context.Context, in *applyIn) (*appliedOut, error) {
	leave, err := s.heavy.enter(ctx, len(in.RawBody))
	if err != nil {
		return nil, err
	}
	defer leave()
	req, err := in.request()
	if err != nil {
		return nil, err
	}
	def, faults, err := s.parse(ctx, req)
	if err != nil {
		return nil, err
	}
	if len(faults) > 0 {
		return nil, invalidWorkflow(faults)
	}
	if f := otherName(req, def, &in.WorkflowPath); f != nil {
		return nil, f
	}
	if err := mayReach(ctx, s, def); err != nil {
		return nil, err
	}
	if def.Namespace == engine.SystemNamespace {
		return nil, fail(http.StatusConflict, api.ProblemConflict, "the namespace %s %s; %s", def.Namespace, reservedNamespace, otherNamespace)
	}
	if faults, err = s.callCycle(ctx, &candidate{req: req, def: def}); err != nil {
		return nil, err
	}
	if len(faults) > 0 {
		return nil, invalidWorkflow(faults)
	}
	if err := s.fromGit(ctx, &in.WorkflowPath); err != nil {
		return nil, err
	}
	revision, isNew, err := s.expected(ctx, in)
	if err != nil {
		return nil, err
	}
	d, err := s.pack(req, def)
	if err != nil {
		return nil, err
	}
	d.User, d.Revision = userOf(ctx), revision
	withdrawn := withdrawn(ctx, s, def)
	w, made, err := s.engine.Apply(ctx, d)
	if err != nil {
		return nil, precondition(err, revision != 0)
	}
	full, err := s.fullWorkflow(ctx, &w)
	if err != nil {
		return nil, err
	}
	out := &appliedOut{Status: http.StatusOK, ETag: etag(&w), Body: api.Applied{Workflow: full, Changed: made, Warnings: append(s.warnings(ctx, def), withdrawn...)}}
	if isNew {
		out.Status, out.Location = http.StatusCreated, api.Prefix+"/workflows/"+w.Namespace+"/"+w.Name
	}
	return out, nil
}

// warnings names the tasks that no worker could run now, and missing queues. The workflow is already stored,
// so a check that fails is not an error.
func (s *Server) warnings(ctx context.Context, def *workflow.Workflow) []string {
	all := []string{}
	g, err := def.Graph(s.cfg.TasksMax)
	if err != nil {
		return all
	}
	tasks, err := s.engine.Unplaced(ctx, def.Namespace, g)
	if err != nil {
		return all
	}
	for _, u := range tasks {
		text := "task " + u.Task
		if u.More > 0 {
			text += fmt.Sprintf(" (and %d more)", u.More)
		}
		all = append(all, text+" would wait: "+u.Why)
	}
	return append(append(all, s.withoutQueue(ctx, def)...), s.withoutTask(ctx, def)...)
}

// withoutTask names the tasks that wait for a task of another workflow which that workflow's current version
// does not have.
func (s *Server) withoutTask(ctx context.Context, def *workflow.Workflow) (all []string) {
	for i := range def.Tasks {
		d := def.Tasks[i].Dependent
		if d == nil || d.Task == "" {
			continue
		}
		target := def.TargetOf(d)
		w, err := s.callee(ctx, &candidate{}, target)
		if err != nil || w == nil {
			continue
		}
		if _, ok := w.Find(d.Task); !ok {
			all = append(all, fmt.Sprintf("task %s would fail: %s", def.Tasks[i].Name, w.WithoutTask(target, d.Task)))
		}
	}
	return all
}

// withoutQueue names the users of missing queues.
func (s *Server) withoutQueue(ctx context.Context, def *workflow.Workflow) (all []string) {
	seen := map[string]bool{}
	look := func(queue, what string) {
		if queue == "" || seen[queue] {
			return
		}
		seen[queue] = true
		if _, err := s.engine.GetQueue(ctx, dag.OwnName(def.Namespace, queue)); !errors.Is(err, errkind.ErrNotFound) {
			return
		}
		if _, err := s.engine.GetQueue(ctx, queue); errors.Is(err, errkind.ErrNotFound) {
			all = append(all, fmt.Sprintf("%s would fail: there is no queue %s; make it with skein queue set %s --limit N, or correct the name", what, queue, queue))
		}
	}
	look(def.Queue, "its runs")
	for i := range def.Triggers {
		look(def.Triggers[i].Queue, "runs of trigger "+def.Triggers[i].Name)
	}
	for i := range def.Tasks {
		look(def.Tasks[i].Queue, "task "+def.Tasks[i].Name)
	}
	return all
}

// expected checks the preconditions against the stored workflow.
func (s *Server) expected(ctx context.Context, in *applyIn) (revision int64, isNew bool, err error) {
	_, revision, err = s.changing(ctx, &in.WorkflowPath, &in.Conditional)
	isNew = isNotFound(err)
	switch {
	case isNew && in.IfMatch != "":
		return 0, true, fail(http.StatusPreconditionFailed, api.ProblemPrecondition, "If-Match: there is no workflow %s", fullName(in.Namespace, in.Name))
	case isNew:
		return 0, true, nil
	case err == nil && strings.TrimSpace(in.IfNoneMatch) == "*":
		return 0, false, fail(http.StatusPreconditionFailed, api.ProblemPrecondition, "If-None-Match: there is a workflow %s", fullName(in.Namespace, in.Name))
	}
	return revision, false, err
}

func otherName(req *api.ApplyRequest, def *workflow.Workflow, p *WorkflowPath) *failure {
	if def.Namespace == p.Namespace && def.Name == p.Name {
		return nil
	}
	key := "name"
	if def.Name == p.Name {
		key = "namespace"
	}
	return invalidWorkflow(workflow.Errors{{File: req.File, Line: 1, Column: 1, Key: key,
		Message: fmt.Sprintf("the document is workflow %s/%s, the address says %s/%s", def.Namespace, def.Name, p.Namespace, p.Name),
		Hint:    "PUT it to its own name"}})
}

// pack converts a definition to the form that the engine stores.
func (s *Server) pack(req *api.ApplyRequest, def *workflow.Workflow) (engine.Definition, error) {
	d := engine.Definition{Namespace: def.Namespace, Name: def.Name, Source: []byte(req.Source), Digest: digest(req, def)}
	g, err := def.Graph(s.cfg.TasksMax)
	if err != nil {
		return d, invalidWorkflow(workflow.Errors{{File: req.File, Line: 1, Column: 1, Key: "tasks", Message: err.Error()}})
	}
	d.Graph, d.Tasks = g.Pack(), g.Len()
	if d.Def, err = json.Marshal(def); err != nil {
		return d, fmt.Errorf("encode workflow %s: %w", def.Name, err)
	}
	for _, f := range req.Files {
		d.Files = append(d.Files, store.File{Name: f.Name, Mode: f.Mode & 0o777, Data: f.Data})
	}
	return d, nil
}

// digest returns the hash of everything that determines a version, including the present definitions of its
// resource classes. Each part is hashed with its length, so that different parts cannot give the same bytes.
func digest(req *api.ApplyRequest, def *workflow.Workflow) []byte {
	h := sha256.New()
	part := func(b []byte) {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b)))) // a hash returns no error
		_, _ = h.Write(b)
	}
	part([]byte(req.Source))
	part([]byte(req.Dir))
	if def.Git != nil {
		part([]byte("git " + def.Git.Source))
	}
	for _, f := range req.Files {
		part([]byte(f.Name))
		part(binary.BigEndian.AppendUint32(nil, f.Mode&0o777))
		part(f.Data)
	}
	for _, c := range def.Classes {
		part([]byte(c.Name))
		part(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(c.Need.CPU)), uint64(c.Need.Memory)))
	}
	return h.Sum(nil)
}

var errDeep = fmt.Errorf("JSON is nested more than %d deep", depthMax)

// decodeJSON decodes one JSON value of bounded depth. Names are case-sensitive.
func decodeJSON(b []byte, v any) error {
	if err := unambiguous(b, namesOf(reflect.TypeOf(v))); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return errors.New("something follows the JSON value")
	}
	return nil
}
