package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// spaces are the routes of namespaces and their quotas.
type spaces struct{ s *Server }

func namespaceRoutes(s *Server, tag tag) {
	of := spaces{s}
	route(s, tag.get("/namespaces", "list-namespaces", "List the namespaces by name, with their quotas and what they use of them"), of.list)
	route(s, tag.put("/namespaces/{ns}", "set-namespace", "Set the quotas of a namespace; they count at once for what begins later"), of.set)
}

type listNamespacesIn struct {
	Page
	Namespace string `query:"namespace" maxLength:"63" doc:"Only this namespace."`
}

// list lists namespaces that have a workflow or a quota.
func (n spaces) list(ctx context.Context, in *listNamespacesIn) (*jsonOut[api.List[api.Namespace]], error) {
	after, err := in.after()
	if err != nil {
		return nil, err
	}
	rows, err := engine.NamespacesOf(n.s.engine).List(ctx)
	if err != nil {
		return nil, unread(err)
	}
	uses, err := engine.NamespacesOf(n.s.engine).Uses(ctx)
	if err != nil {
		return nil, unread(err)
	}
	items := []api.Namespace{}
	for name, last := after, ""; ; last = name {
		if name, err = n.next(ctx, name, in.Namespace, rows); err != nil {
			return nil, unread(err)
		}
		if name == "" {
			return list(items, ""), nil
		}
		if len(items) == in.Limit {
			return list(items, last), nil
		}
		items = append(items, namespaceShown(name, rows, uses))
	}
}

// next returns the namespace after another one, or "".
func (n spaces) next(ctx context.Context, after, only string, rows []store.Namespace) (name string, err error) {
	q := store.WorkflowQuery{Namespace: only, Limit: 1}
	if after != "" {
		q.After = after + "/~" // after all its workflows
	}
	found, err := n.s.engine.Workflows(ctx, q)
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		name = found[0].Namespace
	}
	i, _ := slices.BinarySearchFunc(rows, after, func(r store.Namespace, name string) int { return cmp.Compare(r.Name, name) })
	for ; i < len(rows); i++ {
		if r := rows[i].Name; r > after && (only == "" || r == only) && rows[i].Quotas != (store.Quotas{}) {
			if name == "" || r < name {
				name = r
			}
			break
		}
	}
	return name, nil
}

func namespaceShown(name string, rows []store.Namespace, uses map[string]store.NamespaceUse) api.Namespace {
	out := api.Namespace{Name: name}
	i, there := slices.BinarySearchFunc(rows, name, func(r store.Namespace, name string) int { return cmp.Compare(r.Name, name) })
	if !there {
		return out
	}
	row := rows[i]
	out.Quotas, out.User, out.ModifiedAt = quotasShown(&row.Quotas), &row.By, &api.Time{Time: row.Modified.Time()}
	if row.Counted() {
		use := uses[name]
		out.Runs, out.RunsInHour = &use.Runs, &use.Started
	}
	return out
}

func quotasShown(q *store.Quotas) api.Quotas {
	some := func(n int64) *int64 {
		if n == 0 {
			return nil
		}
		return &n
	}
	return api.Quotas{Runs: some(q.Runs), RunsPerHour: some(q.RunsPerHour), Tasks: some(q.Tasks), ParamsBytes: some(q.ParamsBytes)}
}

type NamespacePath struct {
	Namespace string `path:"ns" maxLength:"63"`
}

type setNamespaceIn struct {
	NamespacePath
	Body api.NamespaceRequest
}

func (n spaces) set(ctx context.Context, in *setNamespaceIn) (*jsonOut[api.Namespace], error) {
	if !namespaceOK.MatchString(in.Namespace) {
		return nil, invalid("%.63q cannot be the name of a namespace", in.Namespace)
	}
	var quotas store.Quotas
	some := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return *n
	}
	quotas.Runs, quotas.RunsPerHour = some(in.Body.Quotas.Runs), some(in.Body.Quotas.RunsPerHour)
	quotas.Tasks, quotas.ParamsBytes = some(in.Body.Quotas.Tasks), some(in.Body.Quotas.ParamsBytes)
	detail := ""
	for name, bound := range quotas.Each {
		if *bound > 0 {
			detail += fmt.Sprintf("%s=%d ", name, *bound)
		}
	}
	noteAudit(ctx, in.Namespace, strings.TrimSpace(detail))
	is, err := engine.NamespacesOf(n.s.engine).Set(ctx, in.Namespace, quotas, userOf(ctx))
	if err != nil {
		return nil, unread(err)
	}
	uses, err := engine.NamespacesOf(n.s.engine).Uses(ctx)
	if err != nil {
		return nil, unread(err)
	}
	return &jsonOut[api.Namespace]{Body: namespaceShown(is.Name, []store.Namespace{is}, uses)}, nil
}

// overQuota returns the problem of a call that would use more than a quota. now is the time of the node.
func overQuota(over *store.QuotaError, cause error, now time.Time) *failure {
	status := http.StatusTooManyRequests
	if over.Quota == store.QuotaTasks || over.Quota == store.QuotaParamsBytes { // the same request will be refused again
		status = http.StatusUnprocessableEntity
	}
	f := fail(status, api.ProblemQuota, "%s", over.Error())
	f.cause = cause
	if over.Until > 0 {
		wait := over.Until.Time().Sub(now)
		f.header.Set("Retry-After", strconv.Itoa(max(int((wait+time.Second-1)/time.Second), 1)))
	}
	return f
}
