package server_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

const matrixLegend = `Each line is a row of the access table, and each letter is the answer to one caller. The object of each call
is in the namespace shop, lists are asked for shop, and the cluster is the object of rows without a namespace.

+  allowed: it may end with another error, such as 422      u  401: the caller is not known
f  403: the caller lacks a verb                             o  403: the page has a foreign origin
h  404: the answer of an object that does not exist         L  403: but not for an object that does not exist
!  500 or above: a fault

callers       one letter for each
other         nobody, an expired token, a revoked token, a worker, a node
all           all rights: a session, a page of a foreign origin with a token, the same with a session
shop web *    the roles viewer, operator, editor, admin, cluster, auditor, in this namespace (*: everywhere)
token         all rights, but the token's scope is: the row's verb in shop, the row's verb in web,
              every verb but the row's verb everywhere

`

// noInputs defines no input of a task.
type noInputs struct{}

func (noInputs) Definition(context.Context, *dag.RunRow, string, dag.Token) (inspect.Definition, error) {
	return inspect.Definition{}, nil
}

// matrix calls every row of the access table.
type matrix struct {
	*rightsBed
	cookie  string
	reached bool // the last call passed the gate
	paths   *strings.Replacer
	// absent replaces the names of objects in shop by names of no object.
	absent *strings.Replacer
}

// roles returns the names of callers with each role in a namespace. It makes the callers.
func (m *matrix) roles(ns string) (names []string) {
	for _, r := range access.Builtin() {
		name := r.Name + "@" + strings.Replace(ns, access.Everywhere, "all", 1)
		id := m.principal(r.Name+"."+strings.Replace(ns, access.Everywhere, "all", 1), store.PrincipalActive, store.Binding{Role: r.Name, Namespace: ns})
		m.token(store.Token{Name: name, Principal: id, Verbs: "*", Namespaces: "*"})
		names = append(names, name)
	}
	return names
}

// scoped returns the names of the callers whose tokens are scoped to a verb, and makes the callers once.
func (m *matrix) scoped(v access.Verb) []string {
	if v >= access.Public {
		v = access.WorkflowRead
	}
	names := []string{"only " + v.String() + " in shop", "only " + v.String() + " in web", "all but " + v.String()}
	if m.secrets[names[0]] == "" {
		var others []string
		for _, name := range access.Whole().Verbs.Names() {
			if name != v.String() {
				others = append(others, name)
			}
		}
		m.token(store.Token{Name: names[0], Principal: store.FirstService, Verbs: v.String(), Namespaces: "shop"})
		m.token(store.Token{Name: names[1], Principal: store.FirstService, Verbs: v.String(), Namespaces: "web"})
		m.token(store.Token{Name: names[2], Principal: store.FirstService, Verbs: strings.Join(others, " "), Namespaces: "*"})
	}
	return names
}

func newMatrix(t *testing.T) *matrix {
	b := newRightsBed(t)
	m := &matrix{rightsBed: b}
	b.signsIn, b.definer = true, noInputs{}
	b.restart()
	file := "name: w\nnamespace: shop\nalerts: [{on: failed, to: ops}]\ntriggers: [{name: t, cron: '0 6 * * *', timezone: UTC}]\ntasks: {a: {run: 'true'}}\n"
	want[api.Applied](t, b.do("PUT", "/api/v1/workflows/shop/w", file, "Content-Type", "application/yaml"), 200)
	b.exec.fails.Store(true)
	run := b.run("shop/w").ID
	b.exec.fails.Store(false)
	alerts := want[api.List[api.Alert]](t, b.get("/api/v1/alerts?namespace=shop"), 200)
	backfill := want[api.Backfill](t, b.post("/api/v1/backfills", `{"workflow":"shop/w",`+january+`}`), 202)
	for _, c := range []struct {
		name, kind string
		expires    int64
	}{{"worker", store.TokenWorker, 0}, {"node", store.TokenNode, 0}, {"expired", store.TokenAPI, 1}, {"revoked", store.TokenAPI, 0}, {"all", store.TokenAPI, 0}} {
		secret := auth.NewSecret(c.kind)
		row := store.WholeToken(c.kind, c.name, must(auth.HashSecret(secret)))
		if c.expires != 0 {
			row.Expires = 1
		}
		row = must(b.tokens.AddToken(t.Context(), row))
		if c.name == "revoked" {
			if err := b.tokens.RevokeToken(t.Context(), row.ID); err != nil {
				t.Fatal(err)
			}
		}
		b.secrets[c.name] = secret
	}
	number := strconv.FormatInt(backfill.ID, 10)
	m.paths = strings.NewReplacer("{run}", run, "{alert}", alerts.Items[0].ID, "{backfill}", number, "{ns}", "shop", "{workflow}", "w", "{trigger}", "t",
		"{task}", "a", "{version}", "1", "{role}", "viewer", "{id}", "999")
	none := "019a0000-0000-7000-8000-000000000000"
	m.absent = strings.NewReplacer(run, none, alerts.Items[0].ID, none, "/backfills/"+number, "/backfills/999", "backfill "+number, "backfill 999",
		`backfill":"`+number+`"`, `backfill":"999"`, "shop/w", "shop/absent", "shop/gone", "shop/absent")
	own := b.srv.Handler()
	other := server.Guarded("skein.example:8080", true, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	b.gate = auth.New(auth.Config{Store: b.tokens, Required: true, Refusals: 1 << 20, Sessions: b.sessions, Route: func(r *http.Request) auth.Route {
		row, _ := access.Match(r)
		return auth.Route{Verb: row.Verb, BodyMax: 1 << 20}
	}}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The server has no handlers for workers and nodes: the gate alone decides about them.
		if row, _ := access.Match(r); row.Of == access.OfWorker || row.Of == access.OfNode {
			other.ServeHTTP(w, r)
			return
		}
		m.reached = true
		own.ServeHTTP(w, r)
	}))
	return m
}

// target returns the path of a call about a row's object in the namespace shop.
func (m *matrix) target(row access.Row) string {
	names := map[access.Of]string{access.OfRun: "{id}→{run}", access.OfAlert: "{id}→{alert}", access.OfBackfill: "{id}→{backfill}", access.OfWorkflow: "{name}→{workflow}"}
	path := row.Path
	if from, to, ok := strings.Cut(names[row.Of], "→"); ok {
		path = strings.Replace(path, from, to, 1)
	}
	if row.Method == http.MethodDelete && row.Of == access.OfWorkflow {
		path = strings.Replace(path, "{workflow}", "gone", 1)
	}
	path = regexp.MustCompile(`\{[a-z]+(\.\.\.)?\}`).ReplaceAllString(m.paths.Replace(path), "x")
	list, ok := strings.CutPrefix(row.Path, api.Prefix)
	switch {
	case list == "/events" && row.Method == http.MethodPost:
		return path + "?namespace=shop"
	case row.Of != access.OfList || !ok || row.Method != http.MethodGet:
		return path
	case list == "/runs" || list == "/runs/counts" || list == "/users/{id}/runs":
		return path + "?ns=shop"
	case list == "/events" || list == "/fires" || list == "/backfills":
		return path + "?workflow=shop/w"
	}
	return path + "?namespace=shop"
}

// content returns the body of a call about a row's object.
func (m *matrix) content(row access.Row) string {
	path := strings.TrimPrefix(row.Path, api.Prefix)
	switch {
	case row.Method == http.MethodPut && row.Of == access.OfWorkflow:
		return "name: w\nnamespace: shop\ntasks: {a: {run: 'true'}}\n"
	case row.Of == access.OfMany:
		return m.paths.Replace(`{"runs":["{run}"]}`)
	}
	return map[string]string{"/runs": `{"workflow":"shop/w"}`, "/runs:batch": `{"runs":[{"workflow":"shop/w","idempotency_key":"k"}]}`,
		"/backfills": `{"workflow":"shop/w",` + january + `}`, "/events": fmt.Sprintf(shopEvent, "1"),
		"/validate":              `{"source":"name: w\nnamespace: shop\ntasks: {a: {run: 'true'}}\n"}`,
		"/schedules:simulate":    `{"to":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `","namespace":"shop"}`,
		"/users/{name}:password": `{"password":"x"}`, "/bindings": `{"user":"x","role":"viewer","namespace":"shop"}`}[path]
}

func (m *matrix) signIn() {
	secret, _, err := m.sessions.ByToken(m.t.Context(), m.secrets["all"], auth.Place{})
	if err != nil {
		m.t.Fatal(err)
	}
	m.cookie = secret
}

func (m *matrix) ask(who, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "skein.example:8080"
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPut && strings.HasPrefix(path, "/api/v1/workflows/") {
		r.Header.Set("Content-Type", "application/yaml")
	}
	who, foreign := strings.CutSuffix(who, " of a foreign page")
	if foreign {
		r.Header.Set("Origin", "https://evil.example")
	}
	if who == "session" {
		if m.cookie == "" {
			m.signIn()
		}
		r.Header.Set("Cookie", "skein="+m.cookie)
		if method == http.MethodDelete && path == api.Prefix+"/session" {
			m.cookie = "" // the call ends the session
		}
	} else if who != "nobody" {
		r.Header.Set("Authorization", "Bearer "+m.secrets[who])
	}
	ctx, cancel := context.WithCancel(m.t.Context())
	defer cancel()
	w := httptest.NewRecorder()
	m.reached = false
	m.gate.ServeHTTP(&ended{w, cancel}, r.WithContext(ctx))
	return w
}

// letter returns the letter of the answer to a call.
func (m *matrix) letter(who string, row access.Row, elsewhere bool) string {
	path, body := m.target(row), m.content(row)
	if row.Method == http.MethodDelete && row.Of == access.OfWorkflow {
		m.do("PUT", path, "name: gone\nnamespace: shop\ntasks: {a: {run: 'true'}}\n", "Content-Type", "application/yaml")
	}
	w := m.ask(who, row.Method, path, body)
	reached, says := m.reached, w.Body.String()
	absent, gone := m.absent.Replace(path), m.absent.Replace(body)
	named := absent != path || gone != body // the call names an object of shop that can be hidden
	same := func() bool {
		return named && m.ask(who, row.Method, absent, gone).Body.String() == m.absent.Replace(says)
	}
	code := func(problem string) bool { return strings.Contains(says, `"code":"`+api.CodeOf(problem)+`"`) }
	switch {
	case w.Code >= http.StatusInternalServerError:
		return "!"
	case w.Code == http.StatusUnauthorized && !reached: // a webhook without a signature is allowed, and answers 401
		return "u"
	case code(api.ProblemForeignOrigin):
		return "o"
	case code(api.ProblemForbidden) && (!named || !elsewhere || same()):
		return "f"
	case code(api.ProblemForbidden):
		return "L"
	case code(api.ProblemNotFound) && same():
		return "h"
	}
	return "+"
}

// TestMatrix calls every row of the access table as each caller, on the handler of a server, and compares the
// decisions with the table that people review.
func TestMatrix(t *testing.T) {
	m := newMatrix(t)
	groups := []struct {
		name string
		who  []string
	}{{"other", []string{"nobody", "expired", "revoked", "worker", "node"}},
		{"all", []string{"session", "all of a foreign page", "session of a foreign page"}},
		{"shop", m.roles("shop")}, {"web", m.roles("web")}, {"*", m.roles("*")}, {"token", nil}}
	var b strings.Builder
	fmt.Fprintf(&b, "%s%-75s", matrixLegend, "route")
	for _, g := range groups {
		fmt.Fprintf(&b, "%-7s", g.name)
	}
	for _, row := range access.Table() { // before the first call, because the gate reads new tokens only every 100 ms
		m.scoped(row.Verb)
	}
	for _, row := range access.Table() {
		line := fmt.Sprintf("%-75s", row.Method+" "+row.Path)
		for _, g := range groups {
			who, letters := g.who, ""
			if who == nil {
				who = m.scoped(row.Verb)
			}
			for _, name := range who {
				letters += m.letter(name, row, g.name == "web" || strings.HasSuffix(name, "in web"))
			}
			line += fmt.Sprintf("%-7s", letters)
		}
		b.WriteString("\n" + line)
	}
	got := regexp.MustCompile(`(?m) +$`).ReplaceAllString(b.String(), "") + "\n"
	file := filepath.Join("testdata", "matrix.txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text := string(must(os.ReadFile(file))); got != text {
		gotLines, wantLines := strings.Split(got, "\n"), strings.Split(text, "\n")
		for i := range max(len(gotLines), len(wantLines)) {
			is, was := append(gotLines, make([]string, len(wantLines))...)[i], append(wantLines, make([]string, len(gotLines))...)[i]
			if is != was {
				t.Errorf("%s differs in line %d (go test ./internal/server -run TestMatrix -update writes it):\n%s\n%s", file, i+1, cmp.Or(is, "-"), cmp.Or(was, "-"))
			}
		}
	}
}
