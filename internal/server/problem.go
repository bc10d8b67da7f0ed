package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// kinds maps kinds of errors to a status and a problem. The first kind that matches is used.
var kinds = []struct {
	err        error
	status     int
	problem    string
	retryAfter int // seconds; 0 if a repeated request would also fail
}{
	{syscall.ENOSPC, http.StatusInsufficientStorage, api.ProblemFull, 30},
	{errkind.ErrFull, http.StatusInsufficientStorage, api.ProblemFull, 30},
	{errkind.ErrNotFound, http.StatusNotFound, api.ProblemNotFound, 0},
	{trigger.ErrTooLarge, http.StatusRequestEntityTooLarge, api.ProblemTooLarge, 0},
	{trigger.ErrFilter, http.StatusUnprocessableEntity, api.ProblemInvalid, 0},
	{errkind.ErrNothing, http.StatusUnprocessableEntity, api.ProblemNothing, 0},
	{errkind.ErrInvalid, http.StatusUnprocessableEntity, api.ProblemInvalid, 0},
	{errkind.ErrConflict, http.StatusConflict, api.ProblemConflict, 0},
	{errkind.ErrFenced, http.StatusConflict, api.ProblemConflict, 0},
	{errkind.ErrDamaged, http.StatusInternalServerError, api.ProblemDamaged, 0},
	{errkind.ErrBusy, http.StatusTooManyRequests, api.ProblemBusy, 1},
	{errkind.ErrUnavailable, http.StatusServiceUnavailable, api.ProblemUnavailable, 2},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, api.ProblemUnavailable, 2},
	{context.Canceled, http.StatusServiceUnavailable, api.ProblemUnavailable, 2},
}

// failure is a problem that will be sent.
type failure struct {
	api.Problem
	header http.Header
	cause  error // only for the log, never shown
}

func fail(status int, problem, format string, args ...any) *failure {
	return &failure{Problem: api.NewProblem(problem, status, fmt.Sprintf(format, args...)), header: http.Header{}}
}

// about gives the detail of the problem a code, and the names and values of its arguments.
func (f *failure) about(code string, args ...string) *failure {
	f.About, f.Args = code, errkind.ArgsOf(args)
	return f
}

func notFound(format string, args ...any) *failure {
	return fail(http.StatusNotFound, api.ProblemNotFound, format, args...)
}

func invalid(format string, args ...any) *failure {
	return fail(http.StatusUnprocessableEntity, api.ProblemInvalid, format, args...)
}

// isNotFound reports whether an error was made by notFound.
func isNotFound(err error) bool {
	var f *failure
	return errors.As(err, &f) && f.Status == http.StatusNotFound
}

func methodNotAllowed(method, allow string) *failure {
	f := fail(http.StatusMethodNotAllowed, api.ProblemMethod, "%s is not allowed here", method)
	if allow != "" {
		f.header.Set("Allow", allow)
		f.Detail += "; " + allow + " is"
	}
	return f
}

func internal() *failure {
	return fail(http.StatusInternalServerError, api.ProblemInternal, "internal error; the server's log has the details")
}

// huma reads status and headers with GetStatus and GetHeaders.
func (f *failure) GetStatus() int          { return f.Status }
func (f *failure) GetHeaders() http.Header { return f.header }

// ContentType returns that of RFC 9457, whatever the client accepts.
func (f *failure) ContentType(string) string { return "application/problem+json" }

// Error returns the sentence.
func (f *failure) Error() string { return f.Detail }

// write sends the problem without huma.
func (f *failure) write(w http.ResponseWriter, r *http.Request) {
	maps.Copy(w.Header(), f.header)
	w.Header().Set("Content-Type", "application/problem+json")
	f.Instance = r.URL.Path
	w.WriteHeader(f.Status)
	_ = json.NewEncoder(w).Encode(f.Problem) // an error means that the client is gone
}

// headerElsewhere is the header with the node that can answer the request in place of this one: see package
// peer.
const headerElsewhere = "X-Skein-Elsewhere"

// elsewhere marks a request that the owner of a shard must answer.
func (f *failure) elsewhere(err error) {
	var e *errkind.Elsewhere
	if errors.As(err, &e) {
		f.header.Set(headerElsewhere, fmt.Sprintf("shard %d", e.Shard))
	}
}

// level returns the log level of a failure. A request that another node answers is not a failure, nor is a
// read that ended because its caller has left.
func (f *failure) level(ctx context.Context) slog.Level {
	left := f.Status == http.StatusServiceUnavailable && errors.Is(ctx.Err(), context.Canceled)
	if left || f.header.Get(headerElsewhere) != "" {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// here returns an error if the attempt is or was on another node of the cluster, because that node has the
// log.
func (s *Server) here(ctx context.Context, h dag.HandlerID) error {
	if s.cfg.Remote == nil {
		return nil
	}
	h, away := s.cfg.Remote(ctx, h)
	if !away {
		return nil
	}
	return askThere(h)
}

// askThere says that a node has the requested data.
func askThere(h dag.HandlerID) error {
	f := fail(http.StatusServiceUnavailable, api.ProblemUnavailable, "the data are on another node")
	f.header.Set(headerElsewhere, fmt.Sprintf("handler %d", h))
	return f
}

// failed converts any error to a problem.
func failed(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	var faults workflow.Errors
	if errors.As(err, &faults) {
		return invalidWorkflow(faults)
	}
	var over *store.QuotaError
	if errors.As(err, &over) {
		return overQuota(over, err, time.Now())
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			f := fail(k.status, k.problem, "%s", err.Error())
			f.cause = err
			if k.retryAfter > 0 {
				f.header.Set("Retry-After", strconv.Itoa(k.retryAfter))
			}
			f.elsewhere(err)
			var told *errkind.Told
			if errors.As(err, &told) {
				f.About, f.Args = told.Code, told.Args
			}
			return f
		}
	}
	f = internal()
	f.cause = err
	return f
}

// precondition does the same as failed, for a request that may have If-Match. With If-Match, a conflict means
// that the revision is another one.
func precondition(err error, ifMatch bool) error {
	if err == nil || !ifMatch || !errors.Is(err, errkind.ErrConflict) {
		return err
	}
	return fail(http.StatusPreconditionFailed, api.ProblemPrecondition, "%s", err.Error())
}

func invalidWorkflow(faults workflow.Errors) *failure {
	f := fail(http.StatusUnprocessableEntity, api.ProblemInvalidWorkflow, "%d errors, the first: %s", len(faults), faults[0].Error())
	if len(faults) == 1 {
		f.Detail = faults[0].Error()
	}
	f.Errors = fileErrors(faults)
	return f
}

func fileErrors(faults workflow.Errors) []api.FileError {
	out := make([]api.FileError, 0, len(faults))
	for _, e := range faults {
		out = append(out, api.FileError{File: e.File, Line: max(e.Line, 1), Column: max(e.Column, 1), Key: e.Key, Message: e.Message, Hint: e.Hint, Snippet: e.Snippet})
	}
	return out
}

// statusProblems maps the statuses of huma's own refusals to problem types.
var statusProblems = map[int]string{
	http.StatusBadRequest: api.ProblemInvalid, http.StatusUnprocessableEntity: api.ProblemInvalid,
	http.StatusNotFound: api.ProblemNotFound, http.StatusRequestEntityTooLarge: api.ProblemTooLarge,
	http.StatusUnsupportedMediaType: api.ProblemMediaType, http.StatusRequestTimeout: api.ProblemInvalid,
}

// transform gives every error the same form, just before it is written. It removes the client's input from
// the answer.
func (s *Server) transform(ctx huma.Context, _ string, v any) (any, error) {
	u := ctx.URL()
	switch e := v.(type) {
	case *failure:
		if e.Status >= http.StatusInternalServerError {
			s.log.Log(ctx.Context(), e.level(ctx.Context()), "a request failed", "code", "request_failed", "method", ctx.Method(), "path", u.Path, "status", e.Status, "err", errors.Join(e.cause, errors.New(e.Detail)))
		}
		e.Instance = u.Path
		return e.Problem, nil
	case *huma.ErrorModel:
		problem, known := statusProblems[e.Status]
		if !known {
			problem = api.ProblemInternal
		}
		p := api.NewProblem(problem, e.Status, brief(e.Detail))
		p.Instance = u.Path
		for _, d := range e.Errors {
			p.Errors = append(p.Errors, api.FileError{Line: 1, Column: 1, Key: brief(d.Location), Message: brief(d.Message)})
		}
		if len(p.Errors) > 0 {
			p.Detail = strings.TrimPrefix(p.Errors[0].Key+": "+p.Errors[0].Message, ": ")
		}
		return p, nil
	}
	return v, nil
}

// refusalRunesMax bounds the text of a library's refusal, because some libraries repeat the whole input of
// the client.
const refusalRunesMax = 300

func brief(text string) string {
	if runes := []rune(text); len(runes) > refusalRunesMax {
		return string(runes[:refusalRunesMax]) + "…"
	}
	return text
}

// places bounds the number of concurrent requests of one kind.
type places chan struct{}

// enter counts a request, or returns an error if the largest number is reached. doing describes the work of
// these requests, for the error.
func (p places) enter(doing string) error {
	select {
	case p <- struct{}{}:
		return nil
	default:
	}
	f := fail(http.StatusTooManyRequests, api.ProblemBusy, "%d %s; try again", cap(p), doing)
	f.header.Set("Retry-After", "1")
	return f
}

func (p places) leave() { <-p }

func stack() string { return string(debug.Stack()) }

// names lists the keys of a map, for a sentence.
func names[V any](m map[string]V) string {
	return strings.Join(sortedKeys(m), ", ")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
