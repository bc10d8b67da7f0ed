package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// Auditor is the audit log of the node.
type Auditor interface {
	// Wake informs the log that a change was made.
	Wake()
	// Refuse counts a refused call.
	Refuse(r store.Audit)
	// Reads reports whether reads of a namespace are recorded, or with "" those of any namespace.
	Reads(namespace string) bool
	// Read counts a read.
	Read(r store.Audit)
}

// unaudited lists the routes without an audit row, each with the reason. They change something, or have
// another method than GET. Every other route that is not a GET writes an audit row.
var unaudited = map[string]string{
	"POST /runs":                            "the row of the run is the record of its start",
	"POST /runs:batch":                      "the rows of the runs are the records of their starts",
	"POST /runs/{id}:rerun":                 "the row of the new run is the record of its start",
	"POST /runs:stop":                       "each run has a call and a row of its own",
	"POST /runs:kill":                       "each run has a call and a row of its own",
	"POST /runs:pause":                      "each run has a call and a row of its own",
	"POST /runs:resume":                     "each run has a call and a row of its own",
	"POST /runs:recover":                    "each run has a call and a row of its own",
	"POST /runs:rerun":                      "the rows of the new runs are the records of their starts",
	"POST /validate":                        "it changes nothing",
	"POST /schedules:simulate":              "it changes nothing",
	"POST /events":                          "the log of events keeps the event, and the row of a run its start",
	"POST /hooks/{ns}/{name}":               "the row of the commit that the look applies is the record",
	"POST /hooks/{ns}/{workflow}/{trigger}": "the ledger of the trigger records the call, and the row of the run its start",
}

// auditedGets lists the routes with the method GET that change something.
var auditedGets = map[string]bool{"GET /auth/{name}/callback": true}

// Audited reports whether the calls of a route write an audit row.
func Audited(row *access.Row) bool {
	name := row.Method + " " + strings.TrimPrefix(row.Path, api.Prefix)
	switch {
	case row.Of == access.OfWorker || row.Of == access.OfNode:
		return false // reports of workers and nodes are recorded in the histories of runs
	case row.Method == http.MethodGet || row.Method == http.MethodHead:
		return auditedGets[name]
	}
	return unaudited[name] == ""
}

// auditing makes the changes of a call write an audit row. Afterwards it informs the log that there may be a
// new row. action is the operation of the route.
func auditing(s *Server, row access.Row, action string, serve http.HandlerFunc) http.HandlerFunc {
	if s.cfg.Auditor != nil && (row.Verb == access.LogRead || row.Verb == access.ArtifactRead) {
		return func(w http.ResponseWriter, r *http.Request) {
			// the first byte counts, because a stream may last for hours
			if rec, ok := r.Context().Value(recorderKey{}).(*recorder); ok && s.cfg.Auditor.Reads("") {
				rec.began = func() { countRead(s, r, &row, namespaceOf(r, s, &row)) }
			}
			serve(w, r)
		}
	}
	if s.cfg.Auditor == nil || !Audited(&row) {
		return serve
	}
	return func(w http.ResponseWriter, r *http.Request) {
		is := callerOf(r, userOf(r.Context()))
		is.Verb, is.Action, is.Object = row.Verb.String(), action, objectOf(r)
		is.Namespace = namespaceOf(r, s, &row)
		serve(w, r.WithContext(store.WithAudit(r.Context(), &is)))
		s.cfg.Auditor.Wake()
	}
}

// callerOf describes the caller of a request. user is the caller's name, which is used only if the credential
// is known.
func callerOf(r *http.Request, user string) store.Audit {
	ctx := r.Context()
	is := store.Audit{Address: auth.AddressOf(r), Request: requestOf(r)}
	if p, _ := auth.Rights(ctx); p != nil {
		is.Principal, is.Kind = user, p.Kind.String()
	}
	if t, held := auth.Holder(ctx); held && t.Kind == store.TokenAPI {
		is.Token = t.ID
	}
	if one, ok := auth.SessionOf(ctx); ok && !one.Local {
		is.Session, is.Token = one.Session.ID, cmp.Or(is.Token, one.Token)
	}
	return is
}

// requestOf returns the caller's id of a request: X-Request-Id, or the trace to which the request belongs.
func requestOf(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); id != "" {
		return id[:min(len(id), 100)]
	}
	if parts := strings.Split(r.Header.Get("Traceparent"), "-"); len(parts) == 4 {
		return parts[1]
	}
	return ""
}

// objectOf returns the path of a call within the API. It contains names and numbers, never values.
func objectOf(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, api.Prefix) }

// namespaceOf returns the namespace of the object of a call. It returns "" if the object has no namespace, or
// if it is not known.
func namespaceOf(r *http.Request, s *Server, row *access.Row) string {
	ctx := r.Context()
	switch row.Of {
	case access.OfWorkflow, access.OfSchedule, access.OfNamespace:
		if ns := r.PathValue("ns"); ns != access.Everywhere {
			return ns
		}
	case access.OfRun:
		if id, err := (&RunPath{ID: r.PathValue("id")}).run(); err == nil {
			if n, err := s.runName(ctx, id); err == nil {
				ns, _ := cutName(n.workflow)
				return ns
			}
		}
	case access.OfAlert:
		if row, err := (alerting{s}).incident(ctx, r.PathValue("id")); err == nil {
			return row.Namespace
		}
	case access.OfBackfill:
		return namespaceOfBackfill(ctx, s, r.PathValue("id"))
	}
	return ""
}

// noteAudit completes the audit row of a call with the names in its body.
func noteAudit(ctx context.Context, namespace, detail string) {
	if is := store.AuditIn(ctx); is != nil {
		is.Namespace, is.Detail = namespace, detail
	}
}

// recordAudit writes the audit row of a call that changes nothing in the store.
func recordAudit(ctx context.Context, s *Server) error {
	row, ok := store.AuditOf(ctx)
	if !ok || s.cfg.Audits == nil {
		return nil
	}
	return unread(s.cfg.Audits.AddAudit(ctx, row))
}

// countRead counts a call that reads from a namespace, if its reads are recorded.
func countRead(s *Server, r *http.Request, row *access.Row, namespace string) {
	if namespace == "" || !s.cfg.Auditor.Reads(namespace) {
		return
	}
	is := callerOf(r, userOf(r.Context()))
	is.Verb, is.Action, is.Object, is.Namespace, is.Request = row.Verb.String(), row.Method+" "+row.Path, objectOf(r), namespace, ""
	s.cfg.Auditor.Read(is)
}

// noteValues notes that the answer to a call has values of runs of a namespace.
func noteValues(ctx context.Context, namespace string) {
	if rec, ok := ctx.Value(recorderKey{}).(*recorder); ok && !slices.Contains(rec.values, namespace) {
		rec.values = append(rec.values, namespace)
	}
}

// countValues counts a call whose answer has values of runs.
func countValues(s *Server, r *http.Request, rec *recorder) {
	if len(rec.values) == 0 || s.cfg.Auditor == nil || r.Method != http.MethodGet || rec.status != http.StatusOK || !s.cfg.Auditor.Reads("") {
		return
	}
	row, _ := access.Match(r)
	row.Verb = access.RunValues
	for _, namespace := range rec.values {
		countRead(s, r.WithContext(context.WithValue(r.Context(), userKey{}, rec.user)), &row, namespace)
	}
}

// noteRefused gives the audit row of a refused call about a run the object, its namespace and the reason.
func noteRefused(ctx context.Context, s *Server, run dag.RunID, why string) {
	rec, ok := ctx.Value(recorderKey{}).(*recorder)
	if !ok {
		return
	}
	rec.refused = &store.Audit{Detail: why}
	if n, err := s.runName(ctx, run); err == nil {
		rec.refused.Namespace, _ = cutName(n.workflow)
	}
}

// RefusedCall describes a call that was refused because of its credential. by is the token, or nil if it is
// not known.
func RefusedCall(r *http.Request, v access.Verb, by *store.Token) store.Audit {
	row, _ := access.Match(r)
	is := store.Audit{Address: auth.AddressOf(r), Verb: v.String(), Action: row.Method + " " + row.Path}
	if by.Kind != "" {
		is.Principal, is.Kind = by.Name, by.Kind
	}
	if by.Kind == store.TokenAPI {
		is.Token = by.ID
	}
	return is
}

// countRefused counts a call that this server refuses.
func countRefused(s *Server, r *http.Request, rec *recorder) {
	hidden := rec.hidden && rec.status == http.StatusNotFound
	if s.cfg.Auditor == nil || rec.status != http.StatusUnauthorized && rec.status != http.StatusForbidden && !hidden {
		return
	}
	row, _ := access.Match(r)
	is := callerOf(r, rec.user)
	is.Verb, is.Action, is.Request = row.Verb.String(), row.Method+" "+row.Path, ""
	if noted := rec.refused; noted != nil {
		is.Object, is.Namespace, is.Detail = objectOf(r), noted.Namespace, noted.Detail
	}
	s.cfg.Auditor.Refuse(is)
}

// namespaceOfBackfill returns the namespace of a backfill, or "".
func namespaceOfBackfill(ctx context.Context, s *Server, text string) string {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return ""
	}
	b, err := s.engine.Backfill(ctx, id)
	if err != nil {
		return ""
	}
	w, err := s.engine.WorkflowByID(ctx, b.Workflow)
	if err != nil {
		return ""
	}
	return w.Namespace
}
