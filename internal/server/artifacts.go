package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	api "skein.dev/skein/sdk/api/v1"
)

// Artifact is one file that an attempt produced.
type Artifact struct {
	Name   string
	Size   int64
	SHA256 string // hexadecimal
}

// ArtifactSource finds the artifacts of attempts. It returns fs.ErrNotExist if the attempt has none, or not
// the requested file.
type ArtifactSource interface {
	List(ctx context.Context, ref LogRef) ([]Artifact, error)
	Open(ctx context.Context, ref LogRef, name string) (ArtifactReader, Artifact, error)
}

// noArtifacts is the source of a node that stores no artifacts.
type noArtifacts struct{}

func (noArtifacts) List(context.Context, LogRef) ([]Artifact, error) { return nil, fs.ErrNotExist }

func (noArtifacts) Open(context.Context, LogRef, string) (ArtifactReader, Artifact, error) {
	return nil, Artifact{}, fs.ErrNotExist
}

// ArtifactReader reads a file.
type ArtifactReader interface {
	io.ReaderAt
	io.Closer
}

func (s *Server) artifactRoutes(runs tag) {
	route(s, runs.get("/runs/{id}/tasks/{task}/artifacts", "list-artifacts", "List the artifacts of a task"), s.listArtifacts)
	get := streaming(runs.get("/runs/{id}/tasks/{task}/artifacts/{name}", "get-artifact", "Read an artifact of a task; a slash in its name is %2F"),
		"application/octet-stream", "Raw bytes; the ETag is their SHA-256.")
	get.Responses["206"] = &huma.Response{Description: "The range that was asked for."}
	route(s, get, s.getArtifact)
}

// AttemptPath selects the artifacts of an attempt. Its name is exported for huma.
type AttemptPath struct {
	TaskPath
	Attempt int64 `query:"attempt" minimum:"1" doc:"Its token or its number. Absent: the newest that succeeded."`
	Here    bool  `header:"X-Skein-Here" hidden:"true"`
}

type artifactIn struct {
	AttemptPath
	Name string `path:"name" maxLength:"4096" doc:"The file's name in the task's working directory."`
}

// left is what an attempt has produced: its artifacts, and the node that has them.
type left struct {
	LogRef
	node string // the node that ran the attempt
	here bool   // node is this node, or there is no other node
}

// leftBy finds the attempt whose artifacts are requested. If another node has the artifacts, the error names
// that node.
func (s *Server) leftBy(ctx context.Context, in *AttemptPath) (l left, err error) {
	id, err := in.run()
	if err != nil {
		return l, err
	}
	run, err := s.engine.RunRow(ctx, id)
	if err != nil {
		return l, err
	}
	w, err := s.engine.WorkflowByID(ctx, run.Workflow)
	if err != nil {
		return l, err
	}
	v, err := s.engine.Task(ctx, id, in.Task)
	if errors.Is(err, errkind.ErrNotFound) {
		return l, s.noTask(ctx, id, in.Task)
	}
	if err != nil {
		return l, err
	}
	l.LogRef = LogRef{Namespace: w.Namespace, Workflow: w.Name, Run: id, Task: in.Task}
	var handler dag.HandlerID
	for i := range v.Attempts {
		a := &v.Attempts[i]
		if a.Token.Is(in.Attempt) || in.Attempt == 0 && a.State == dag.AttemptSucceeded {
			l.Attempt, l.node, handler = a.Token, a.By.Node, a.Handler
		}
	}
	l.here = s.cfg.Remote == nil || l.node == s.cfg.Node.Name
	switch {
	case l.Attempt == 0 && in.Attempt != 0:
		return l, notFound("task %s of run %s has no attempt %d", in.Task, in.ID, in.Attempt)
	case l.Attempt == 0:
		return l, notFound("task %s of run %s has no artifacts: none of its attempts has succeeded", in.Task, in.ID)
	case in.Here || handler == 0:
		return l, nil
	}
	return l, s.here(ctx, handler)
}

// elsewhere returns an error that names the node with the artifacts of an attempt. The artifacts of a
// worker's attempt are on the node that was the worker's home at that time.
func (s *Server) elsewhere(ctx context.Context, in *AttemptPath, l *left) error {
	if s.cfg.Holder != nil && !in.Here {
		if h, found := s.cfg.Holder(ctx, l.LogRef); found {
			return askThere(h)
		}
	}
	return notFound("the artifacts of attempt %d of task %s are on node %s, which does not answer (for a worker: on its former home node); "+
		"a folder that the nodes share (--artifacts) keeps it for all of them", l.Attempt, l.Task, l.node)
}

func (s *Server) listArtifacts(ctx context.Context, in *AttemptPath) (*jsonOut[api.List[api.Artifact]], error) {
	l, err := s.leftBy(ctx, in)
	if err != nil {
		return nil, err
	}
	list, err := s.cfg.Artifacts.List(ctx, l.LogRef)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !l.here:
		return nil, s.elsewhere(ctx, in, &l)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("list the artifacts: %w", err)
	}
	items := make([]api.Artifact, len(list))
	for i, a := range list {
		items[i] = api.Artifact{Name: a.Name, Size: a.Size, SHA256: a.SHA256, Attempt: int64(l.Attempt)}
	}
	return &jsonOut[api.List[api.Artifact]]{Body: api.List[api.Artifact]{Items: items}}, nil
}

func (s *Server) getArtifact(ctx context.Context, in *artifactIn) (*streamOut, error) {
	l, err := s.leftBy(ctx, &in.AttemptPath)
	if err != nil {
		return nil, err
	}
	r, a, err := s.cfg.Artifacts.Open(ctx, l.LogRef, in.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !l.here:
		return nil, s.elsewhere(ctx, &in.AttemptPath, &l)
	case errors.Is(err, fs.ErrNotExist):
		return nil, notFound("attempt %d of task %s of run %s has no artifact %q", l.Attempt, in.Task, in.ID, in.Name)
	case err != nil:
		return nil, fmt.Errorf("open the artifact: %w", err)
	}
	return &streamOut{Body: func(hc huma.Context) {
		defer r.Close()
		req, w := humago.Unwrap(hc)
		h := w.Header()
		h.Set(api.HeaderAttempt, strconv.Itoa(int(l.Attempt)))
		// A browser must never show the file as a part of this site, because a page that a task has made must
		// not be able to call the API.
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(a.Name)}))
		h.Set("ETag", `"`+a.SHA256+`"`)
		// one hour is enough for 1 GiB over a slow connection
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Hour))
		http.ServeContent(&rangeWriter{ResponseWriter: w, r: req, size: a.Size, of: "artifact"}, req, "", time.Time{}, io.NewSectionReader(r, 0, a.Size))
	}}, nil
}
