package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// spaces are the routes of namespaces and their quotas.
type spaces struct{ s *Server }

func namespaceRoutes(s *Server, tag tag) {
	of := spaces{s}
	route(s, tag.get("/namespaces", "list-namespaces", "List the namespaces by name, with their quotas and the use of each quota"), of.list)
	route(s, tag.put("/namespaces/{ns}", "set-namespace", "Set the quotas of a namespace, and its rules for tasks; runs and attempts that begin later are bound by them"), of.set)
}

type listNamespacesIn struct {
	Page
	Namespace string `query:"namespace" maxLength:"63" doc:"Only this namespace."`
}

// list lists namespaces that have a workflow, a quota or an isolation.
func (n spaces) list(ctx context.Context, in *listNamespacesIn) (*jsonOut[api.List[api.Namespace]], error) {
	after, err := in.after()
	if err != nil {
		return nil, err
	}
	rows, err := engine.NamespacesOf(n.s.engine).List(ctx)
	if err != nil {
		return nil, unread(err)
	}
	use, err := n.used(ctx, rows)
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
		items = append(items, use.shown(name, rows))
	}
}

// next returns the namespace after another one, or "".
func (n spaces) next(ctx context.Context, after, only string, rows []store.Namespace) (name string, err error) {
	q := store.WorkflowQuery{Namespace: only, Limit: 1}
	if after != "" {
		q.After = after + "/~" // this is after all workflows of the namespace
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
		if r := rows[i].Name; r > after && (only == "" || r == only) && (rows[i].Quotas != (store.Quotas{}) || rows[i].Isolation != "" || rows[i].Demands != (store.Demands{})) {
			if name == "" || r < name {
				name = r
			}
			break
		}
	}
	return name, nil
}

// namespaceUse holds the used parts of the quotas, by namespace.
type namespaceUse struct {
	runs   map[string]store.NamespaceUse
	stocks map[string]store.NamespaceStock
	tokens []store.Token // nil if no namespace has a quota for tokens
	now    dag.Micros
}

// used reads the present use of the namespaces in rows: their runs, tokens and bytes.
func (n spaces) used(ctx context.Context, rows []store.Namespace) (use namespaceUse, err error) {
	of := engine.NamespacesOf(n.s.engine)
	if use.runs, err = of.Uses(ctx); err != nil {
		return use, err
	}
	if use.stocks, err = of.Stocks(ctx); err != nil {
		return use, err
	}
	if !slices.ContainsFunc(rows, func(r store.Namespace) bool { return r.Tokens > 0 }) {
		return use, nil
	}
	use.now = dag.Micros(time.Now().UnixMicro())
	use.tokens, err = n.s.cfg.Tokens.TokenList(ctx)
	return use, err
}

func (u *namespaceUse) shown(name string, rows []store.Namespace) api.Namespace {
	stock := u.stocks[name]
	out := api.Namespace{Name: name, StoredBytes: &stock.Bytes, Versions: &stock.Versions, Triggers: &stock.Triggers}
	i, there := slices.BinarySearchFunc(rows, name, func(r store.Namespace, name string) int { return cmp.Compare(r.Name, name) })
	if !there {
		return out
	}
	row := rows[i]
	out.Quotas, out.Isolation, out.Demands = quotasShown(&row.Quotas), row.Isolation, demandsShown(&row.Demands)
	out.User, out.ModifiedAt = textOrNull(row.By), &api.Time{Time: row.Modified.Time()}
	if row.Counted() {
		use := u.runs[name]
		out.Runs, out.RunsInHour = &use.Runs, &use.Started
		if row.LogsPerDay > 0 {
			out.LogsInDay = &use.Logged
		}
	}
	if row.Tokens > 0 {
		tokens := store.TokensOf(u.tokens, name, u.now)
		out.Tokens = &tokens
	}
	return out
}

// quotaPair is a quota in the form of the API and in the form of the store.
type quotaPair struct {
	shown **int64
	kept  *int64
}

// pairs returns all quotas.
func pairs(shown *api.Quotas, kept *store.Quotas) []quotaPair {
	return []quotaPair{{&shown.Runs, &kept.Runs}, {&shown.RunsPerHour, &kept.RunsPerHour}, {&shown.Tasks, &kept.Tasks},
		{&shown.ParamsBytes, &kept.ParamsBytes}, {&shown.LogsPerDay, &kept.LogsPerDay}, {&shown.StoredBytes, &kept.StoredBytes}, {&shown.Versions, &kept.Versions},
		{&shown.Triggers, &kept.Triggers}, {&shown.Tokens, &kept.Tokens}, {&shown.RequestsPerMinute, &kept.RequestsPerMinute}}
}

func quotasShown(q *store.Quotas) (out api.Quotas) {
	for _, p := range pairs(&out, q) {
		if *p.kept != 0 {
			*p.shown = p.kept
		}
	}
	return out
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
	for _, p := range pairs(&in.Body.Quotas, &quotas) {
		if *p.shown != nil {
			*p.kept = **p.shown
		}
	}
	detail := ""
	for name, bound := range quotas.Each {
		if *bound > 0 {
			detail += fmt.Sprintf("%s=%d ", name, *bound)
		}
	}
	if err := checkDemands(&in.Body); err != nil {
		return nil, err
	}
	noteAudit(ctx, in.Namespace, strings.TrimSpace(detail+demandsNoted(&in.Body)))
	is, err := engine.NamespacesOf(n.s.engine).Change(ctx, in.Namespace, userOf(ctx), func(is *store.Namespace) {
		is.Quotas = quotas
		demand(is, &in.Body)
	})
	switch {
	case errors.Is(err, errkind.ErrInvalid), errors.Is(err, errkind.ErrConflict):
		return nil, err
	case err != nil:
		return nil, unread(err)
	}
	use, err := n.used(ctx, []store.Namespace{is})
	if err != nil {
		return nil, unread(err)
	}
	return &jsonOut[api.Namespace]{Body: use.shown(is.Name, []store.Namespace{is})}, nil
}

// overQuota returns the problem of a call that would exceed a quota. now is the time of the node.
func overQuota(over *store.QuotaError, cause error, now time.Time) *failure {
	status := http.StatusTooManyRequests
	switch over.Quota {
	case store.QuotaTasks, store.QuotaParamsBytes: // the same request will be refused again
		status = http.StatusUnprocessableEntity
	}
	f := fail(status, api.ProblemQuota, "%s", over.Error()).about("quota", "quota", over.Quota, "namespace", over.Namespace,
		"used", strconv.FormatInt(over.Used, 10), "limit", strconv.FormatInt(over.Bound, 10))
	f.cause = cause
	if over.Until > 0 {
		wait := over.Until.Time().Sub(now)
		f.header.Set("Retry-After", strconv.Itoa(max(int((wait+time.Second-1)/time.Second), 1)))
	}
	return f
}
