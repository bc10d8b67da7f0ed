package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	api "skein.dev/skein/sdk/api/v1"
)

// decided puts the access decision in front of a route. A caller that has the verb in all namespaces passes
// at once.
func decided(s *Server, method, path string, serve http.HandlerFunc) http.HandlerFunc {
	row := access.RowOf(method, path)
	return func(w http.ResponseWriter, r *http.Request) {
		p, now := auth.Rights(r.Context())
		if row.Verb < access.Public && !access.Decide(p, row.Verb, access.Everywhere, now) {
			if err := decide(s, r, &row); err != nil {
				failed(err).write(w, r)
				return
			}
		}
		serve(w, r)
	}
}

// decide decides about a caller that does not have the verb in all namespaces. It returns a refusal unless
// the caller may call the route for the object of the request. An object of a kind that is not named here
// belongs to the cluster.
func decide(s *Server, r *http.Request, row *access.Row) error {
	ctx := r.Context()
	switch row.Of {
	case access.OfWorkflow, access.OfSchedule:
		ns, name := r.PathValue("ns"), r.PathValue("name")
		if row.Of == access.OfSchedule {
			name = r.PathValue("workflow")
		}
		return mayOf(ctx, row.Verb, ns, func() error { return noWorkflow(ns, name, errkind.ErrNotFound) })
	case access.OfRun:
		return mayRun(ctx, s, row.Verb, r.PathValue("id"))
	case access.OfAlert:
		return mayAlert(ctx, s, row.Verb, r.PathValue("id"))
	case access.OfBackfill:
		return mayBackfill(ctx, s, row.Verb, r.PathValue("id"))
	case access.OfList:
		if row.Verb == access.Events && access.Anywhere(caller(ctx, row.Verb)) {
			return nil // watchEvents decides about the topics of the stream
		}
		return narrow(r, row)
	case access.OfMany: // choose checks the selection in the body, and the call for each run checks that run
		if access.Anywhere(caller(ctx, row.Verb)) {
			return nil
		}
	case access.OfBody:
		if bodyDecides[row.Path] && access.Anywhere(caller(ctx, row.Verb)) {
			return nil
		}
	case access.OfNamespace:
		return may(ctx, row.Verb, r.PathValue("ns"))
	case access.OfShared:
		if row.Method == http.MethodGet && access.Anywhere(caller(ctx, row.Verb)) {
			return nil
		}
	}
	return may(ctx, row.Verb, access.Everywhere)
}

// bodyDecides lists the routes whose handlers decide about the workflow or namespace that a call names.
var bodyDecides = map[string]bool{api.Prefix + "/runs": true, api.Prefix + "/runs:batch": true, api.Prefix + "/backfills": true,
	api.Prefix + "/bindings": true, api.Prefix + "/events": true, api.Prefix + "/validate": true, api.Prefix + "/schedules:simulate": true}

// caller returns the arguments of access.Anywhere.
func caller(ctx context.Context, v access.Verb) (*access.Principal, access.Verb, dag.Micros) {
	p, now := auth.Rights(ctx)
	return p, v, now
}

// seenBy is the verb that a caller needs to know that a workflow or one of its runs exists.
const seenBy = access.WorkflowRead

// may returns a refusal if the caller does not have a verb in a namespace.
func may(ctx context.Context, v access.Verb, namespace string) error {
	return mayOf(ctx, v, namespace, nil)
}

// mayOf does the same as may for an object in a namespace. If the caller may not know that the object exists,
// mayOf returns the error that missing makes. It is the error for an object that does not exist.
func mayOf(ctx context.Context, v access.Verb, namespace string, missing func() error) error {
	p, now := auth.Rights(ctx)
	need := access.Need{Verb: v, Namespace: namespace}
	if missing != nil {
		need.See = seenBy
	}
	err := access.Check(p, need, now)
	if err == nil && v == access.RunValues {
		noteValues(ctx, namespace)
	}
	var refusal *access.Refusal
	if errors.As(err, &refusal) && refusal.Hidden {
		if rec, ok := ctx.Value(recorderKey{}).(*recorder); ok {
			rec.hidden = true
		}
		return missing()
	}
	if err != nil {
		f := fail(http.StatusForbidden, api.ProblemForbidden, "%s", err.Error())
		if refusal != nil {
			f.about("no_right", "verb", refusal.Verb.String(), "namespace", namespace)
		}
		return f
	}
	return nil
}

// mayRun returns a refusal for a call about a run if the caller does not have a verb in the namespace of the
// run's workflow.
func mayRun(ctx context.Context, s *Server, v access.Verb, text string) error {
	id, err := (&RunPath{ID: text}).run()
	if err != nil {
		return err
	}
	missing := func() error { return errkind.NoRun(id) }
	n, err := s.runName(ctx, id)
	if errors.Is(err, errkind.ErrNotFound) {
		return missing() // the same words as for a run that does not exist
	}
	if err != nil {
		return err
	}
	ns, _ := cutName(n.workflow)
	return mayOf(ctx, v, ns, missing)
}

// mayBackfill does the same as mayRun, for a backfill.
func mayBackfill(ctx context.Context, s *Server, v access.Verb, text string) error {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return notFound("there is no backfill %q", text)
	}
	missing := func() error {
		return notFound("there is no backfill %d", id).about("no_backfill", "backfill", strconv.FormatInt(id, 10))
	}
	b, err := s.engine.Backfill(ctx, id)
	if errors.Is(err, errkind.ErrNotFound) {
		return missing()
	}
	if err != nil {
		return err
	}
	w, err := s.engine.WorkflowByID(ctx, b.Workflow)
	if err != nil {
		return err
	}
	return mayOf(ctx, v, w.Namespace, missing)
}

// namespaceParam maps the path of a list to the parameter that selects its namespace. Other lists can select
// only by workflow.
var namespaceParam = map[string]string{
	api.Prefix + "/runs": "ns", api.Prefix + "/users/{id}/runs": "ns", api.Prefix + "/workflows": "namespace",
	api.Prefix + "/schedules": "namespace", api.Prefix + "/schedules/next": "namespace", api.Prefix + "/bindings": "namespace",
	api.Prefix + "/secrets": "namespace", api.Prefix + "/audit": "namespace", api.Prefix + "/namespaces": "namespace",
	api.Prefix + "/alerts": "namespace", api.Prefix + "/channels": "namespace", api.Prefix + "/connections": "namespace",
	api.Prefix + "/silences": "namespace", api.Prefix + "/runs/counts": "ns",
	api.Prefix + "/orphans": "namespace", api.Prefix + "/git-sources": "namespace",
}

// workflowParam are the lists that can select by workflow.
var workflowParam = map[string]bool{
	api.Prefix + "/runs": true, api.Prefix + "/runs/counts": true, api.Prefix + "/users/{id}/runs": true, api.Prefix + "/schedules": true,
	api.Prefix + "/schedules/next": true, api.Prefix + "/fires": true, api.Prefix + "/backfills": true, api.Prefix + "/alerts": true,
}

// narrow allows a list of one namespace in which the caller has the verb. If the request names no namespace
// and the caller has the verb in exactly one, narrow limits the list to that one.
func narrow(r *http.Request, row *access.Row) error {
	p, now := auth.Rights(r.Context())
	seen, q := access.Visible(p, row.Verb, now), r.URL.Query()
	param := namespaceParam[row.Path]
	for name, all := range q {
		if len(all) > 1 && (name == param || name == "workflow") {
			return invalid("%s: give it once", name)
		}
	}
	one := ""
	switch {
	case workflowParam[row.Path] && q.Get("workflow") != "":
		one, _ = cutName(q.Get("workflow"))
	case param != "" && q.Get(param) != "":
		one = q.Get(param)
	case param != "" && len(seen.Names()) == 1:
		narrowed := *r.URL
		q.Set(param, seen.Names()[0])
		narrowed.RawQuery = q.Encode()
		r.URL = &narrowed
		return nil
	}
	if one != "" && seen.Has(one) {
		return nil
	}
	return refused(row.Verb, one, seen, cmp.Or(param, "workflow"))
}

// refused returns the answer to a list that would show more than the caller may see.
func refused(v access.Verb, asked string, seen access.Namespaces, param string) error {
	where := "all namespaces"
	if asked != "" {
		where = "the namespace " + asked
	}
	return fail(http.StatusForbidden, api.ProblemForbidden, "this call needs the verb %s in %s; you have it in %s: name one of these by %s",
		v, where, strings.Join(seen.Names(), ", "), param)
}

// wide reports whether the caller has a verb in all namespaces.
func wide(ctx context.Context, v access.Verb) bool {
	p, now := auth.Rights(ctx)
	return access.Decide(p, v, access.Everywhere, now)
}

// mayWatch refuses a stream without topics if the caller may not see all namespaces. Such a stream gets the
// changes of every namespace from the other nodes. The function topics decides about streams with topics.
func mayWatch(ctx context.Context, t *topics) error {
	if !t.all() || wide(ctx, access.Events) {
		return nil
	}
	p, now := auth.Rights(ctx)
	return refused(access.Events, "", access.Visible(p, access.Events, now), "run or workflow")
}

// seenRun reads a run that the caller may see.
func seenRun(ctx context.Context, s *Server, id dag.RunID) (api.Run, error) {
	if !wide(ctx, access.RunRead) {
		if err := mayRun(ctx, s, access.RunRead, id.String()); err != nil {
			return api.Run{}, err
		}
	}
	return s.readRun(ctx, id, false)
}

// mayName returns a refusal for a call that names a workflow in its body or query, if the caller does not
// have the verb in the namespace of that workflow.
func mayName(ctx context.Context, v access.Verb, workflow string) error {
	if wide(ctx, v) {
		return nil
	}
	ns, name := cutName(workflow)
	return mayOf(ctx, v, ns, func() error { return noWorkflow(ns, name, errkind.ErrNotFound) })
}
