package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	api "skein.dev/skein/api/v1"
	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/store"
)

// ended is an answer whose caller goes at the first byte: so a stream ends.
type ended struct {
	*httptest.ResponseRecorder
	cancel func()
}

func (e *ended) Write(p []byte) (int, error) {
	n, err := e.ResponseRecorder.Write(p)
	e.cancel()
	return n, err
}

// rightsBed is a node behind a gate, with a run in each of two namespaces, and tokens by name.
type rightsBed struct {
	*bed
	ids, secrets map[string]string
	gate         http.Handler
}

func newRightsBed(t *testing.T) *rightsBed {
	b := &rightsBed{bed: newBed(t, true), ids: map[string]string{}, secrets: map[string]string{}}
	for _, ns := range []string{"web", "shop"} {
		a := b.do("PUT", "/api/v1/workflows/"+ns+"/w", "name: w\nnamespace: "+ns+"\ntasks: {a: {run: 'true'}}\n", "Content-Type", "application/yaml")
		if a.status != 201 {
			t.Fatal(a.status, a.body)
		}
		b.ids[ns] = b.run(ns + "/w").ID
	}
	b.gate = auth.New(auth.Config{Store: b.tokens, Required: true, Refusals: 1 << 20, Route: func(r *http.Request) auth.Route {
		row, _ := access.Match(r)
		return auth.Route{Verb: row.Verb, BodyMax: 1 << 20}
	}}).Wrap(b.srv.Handler())
	return b
}

func (b *rightsBed) principal(name, state string, bindings ...store.Binding) int64 {
	is := must(b.tokens.RightsRevision(b.t.Context()))
	return must(b.tokens.ChangeRights(b.t.Context(), is, store.RightsChange{Add: &store.Principal{Kind: store.PrincipalUser, Name: name, State: state}, Bind: bindings}))
}

func (b *rightsBed) token(row store.Token) {
	b.secrets[row.Name] = auth.NewSecret(store.TokenAPI)
	row.Kind, row.Hash = store.TokenAPI, must(auth.HashSecret(b.secrets[row.Name]))
	must(b.tokens.AddToken(b.t.Context(), row))
}

// call returns the status and the body.
func (b *rightsBed) call(who, method, path, body string) (int, string) {
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, method, api.Prefix+path, strings.NewReader(body))
	r.Host = "skein.example:8080"
	r.Header.Set("Authorization", "Bearer "+b.secrets[who])
	r.Header.Set("Content-Type", "application/json")
	if method == "PUT" {
		r.Header.Set("Content-Type", "application/yaml")
	}
	w := httptest.NewRecorder()
	b.gate.ServeHTTP(&ended{w, cancel}, r)
	return w.Code, strings.NewReplacer(b.ids["shop"], "RUN", "shop/w", "W").Replace(w.Body.String())
}

// TestNamespaces calls as principals with roles in one namespace, and with tokens that are narrower than these:
// what a caller may not see is answered like what is not there, and a list shows no other namespace.
func TestNamespaces(t *testing.T) {
	b := newRightsBed(t)
	ids, call, principal := b.ids, b.call, b.principal
	token := func(name string, id, maker int64, verbs, namespaces string) {
		b.token(store.Token{Name: name, Principal: id, Maker: maker, Verbs: verbs, Namespaces: namespaces})
	}
	in := func(role, ns string) store.Binding { return store.Binding{Role: role, Namespace: ns} }
	operator := principal("operator", store.PrincipalActive, in("operator", "web"))
	viewer := principal("viewer", store.PrincipalActive, in("viewer", "web"))
	token("cluster", store.FirstService, 0, "*", "*")
	token("operator", operator, 0, "*", "*")
	token("viewer", viewer, 0, "*", "*")
	token("narrow", operator, 0, "run.read workflow.read", "*")
	token("elsewhere", operator, 0, "*", "shop")
	token("both", principal("both", store.PrincipalActive, in("viewer", "web"), in("viewer", "shop")), 0, "*", "*")
	token("made", operator, viewer, "*", "*") // by a principal that only reads
	token("off", principal("off", store.PrincipalDisabled, in("cluster", "*")), 0, "*", "*")
	token("dangling", 999, 0, "*", "*")
	token("unmade", operator, 999, "*", "*")
	token("unscoped", operator, 0, "", "*")

	for who, can := range map[string]string{
		"viewer": `"kind":"user","verbs":{"web":["workflow.read"`, "narrow": `"verbs":{"web":["workflow.read","run.read"]}`,
		"cluster": `"kind":"service","verbs":{"*":[`,
	} {
		if status, body := call(who, "GET", "/me", ""); status != 200 || !strings.Contains(body, can) {
			t.Errorf("%s is %d %s", who, status, body)
		}
	}
	absent := "00000000-0000-7000-8000-000000000000"
	for _, c := range []struct {
		who, method, path, body string
		status                  int
		says                    string
	}{
		{"cluster", "GET", "/runs/" + ids["shop"], "", 200, `"id":"RUN"`},
		{"cluster", "GET", "/runs", "", 200, ids["web"]},
		{"operator", "GET", "/runs/" + ids["web"], "", 200, ids["web"]},
		{"operator", "GET", "/runs/" + ids["shop"], "", 404, ""},
		{"operator", "GET", "/runs/" + ids["shop"] + "/tasks/a/logs", "", 404, ""},
		{"operator", "POST", "/runs/" + ids["shop"] + ":stop", "", 404, ""},
		{"operator", "GET", "/workflows/shop/w", "", 404, "there is no workflow W"},
		{"operator", "GET", "/workflows/web/w", "", 200, `"source":null`},
		{"operator", "GET", "/workflows/web/w/versions/1", "", 403, "workflow.source"},
		{"operator", "GET", "/workflows", "", 200, "web/w"},
		{"operator", "GET", "/workflows?namespace=shop", "", 403, "workflow.read"},
		{"operator", "GET", "/runs", "", 200, ids["web"]},
		{"operator", "GET", "/runs?ns=shop", "", 403, "run.read"},
		{"operator", "GET", "/runs?ns=web&ns=shop", "", 422, "once"},
		{"operator", "GET", "/runs?workflow=shop/w", "", 403, "run.read"},
		{"operator", "GET", "/runs?workflow=shop/w&ns=web", "", 403, "run.read"},
		{"operator", "GET", "/fires", "", 403, "schedule.read"},
		{"operator", "GET", "/fires?workflow=web/w", "", 200, "items"},
		{"operator", "GET", "/backfills?workflow=shop/w", "", 403, "schedule.read"},
		{"operator", "POST", "/runs", `{"workflow":"web/w"}`, 202, "web/w"},
		{"operator", "POST", "/runs", `{"workflow":"shop/w"}`, 404, "there is no workflow W"},
		{"operator", "POST", "/runs:batch", `{"runs":[{"workflow":"shop/w","idempotency_key":"k"}]}`, 200, "there is no workflow W"},
		{"operator", "POST", "/backfills", `{"workflow":"shop/w","instants":["2020-01-01T00:00:00Z"]}`, 404, "there is no workflow W"},
		{"operator", "POST", "/runs:stop", `{"all":true,"dry_run":true}`, 403, "run.read"},
		{"operator", "POST", "/runs:stop", `{"workflow":"shop/w","dry_run":true}`, 404, "there is no workflow W"},
		{"operator", "PUT", "/workflows/web/w", "name: w\n", 403, "editor"},
		{"operator", "GET", "/nodes", "", 403, "node.read"},
		{"operator", "GET", "/events", "", 403, "events"},
		{"operator", "GET", "/events?run=" + ids["shop"], "", 404, ""},
		{"operator", "GET", "/events?workflow=shop/w", "", 404, "there is no workflow W"},
		{"operator", "GET", "/events?workflow=web/w", "", 200, ": skein"},
		{"operator", "GET", "/queues", "", 200, "items"},
		{"operator", "PUT", "/queues/q", "{}", 403, "queue.write"},
		{"viewer", "POST", "/runs", `{"workflow":"web/w"}`, 403, "operator"},
		{"viewer", "POST", "/runs/" + ids["web"] + ":stop", "", 403, "run.control"},
		{"narrow", "GET", "/runs", "", 200, ids["web"]},
		{"narrow", "GET", "/runs?include=params", "", 200, `"params":null`},
		{"narrow", "GET", "/runs/" + ids["web"], "", 200, `"params":null`},
		{"narrow", "GET", "/runs/" + ids["web"] + "/events", "", 403, "events"},
		{"narrow", "POST", "/runs", `{"workflow":"web/w"}`, 403, "run.start"},
		{"elsewhere", "GET", "/runs", "", 403, "run.read"},
		{"both", "GET", "/runs", "", 403, "shop, web"},
		{"both", "GET", "/runs?ns=shop", "", 200, "RUN"},
		{"made", "GET", "/runs", "", 200, ids["web"]},
		{"made", "POST", "/runs", `{"workflow":"web/w"}`, 403, "run.start"},
		{"off", "GET", "/runs", "", 403, "run.read"},
		{"dangling", "GET", "/runs", "", 403, "run.read"},
		{"unmade", "GET", "/runs", "", 403, "run.read"},
		{"unscoped", "GET", "/runs", "", 403, "run.read"},
	} {
		status, body := call(c.who, c.method, c.path, c.body)
		if status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s %s %s: %d %s; want %d %q", c.who, c.method, c.path, status, body, c.status, c.says)
		}
		if c.who != "cluster" && c.who != "both" && status == 200 && (strings.Contains(body, "RUN") || strings.Contains(body, `"W"`)) {
			t.Errorf("%s %s %s shows another namespace: %s", c.who, c.method, c.path, body)
		}
		if status == 404 && strings.Contains(c.path, ids["shop"]) {
			_, missing := call(c.who, c.method, strings.Replace(c.path, ids["shop"], absent, 1), c.body)
			if strings.ReplaceAll(missing, absent, "RUN") != body {
				t.Errorf("%s %s %s:\n%s\nfor a run that is not there:\n%s", c.who, c.method, c.path, body, missing)
			}
		}
	}
}

// TestTokensOfMakers: a token is made by a principal that has each of its verbs there, and is bound to it.
func TestTokensOfMakers(t *testing.T) {
	b := newRightsBed(t)
	b.token(store.Token{Name: "cluster", Principal: store.FirstService, Verbs: "*", Namespaces: "*"})
	b.token(store.Token{Name: "maker", Principal: store.FirstService, Verbs: "token.all run.read", Namespaces: "*"})
	for _, c := range []struct {
		who, body string
		status    int
		says      string
	}{
		{"maker", `{"kind":"api","name":"all"}`, 403, "run.start"},
		{"maker", `{"kind":"api","name":"start","verbs":["run.start"]}`, 403, "run.start"},
		{"maker", `{"kind":"api","name":"odd","verbs":["run.fly"]}`, 422, "run.fly"},
		{"maker", `{"kind":"api","name":"where","verbs":["run.read"],"namespaces":["Web Shop"]}`, 422, "Web Shop"},
		{"maker", `{"kind":"worker","name":"w","verbs":["run.read"]}`, 422, "kind api"},
		{"maker", `{"kind":"worker","name":"w"}`, 403, "run.start"},
		{"maker", `{"kind":"node","name":"n"}`, 403, "run.start"},
		{"maker", `{"kind":"api","name":"reader","verbs":["run.read"],"namespaces":["web"]}`, 200, `"namespaces":["web"]`},
		{"cluster", `{"kind":"api","name":"all"}`, 200, `"all"`},
	} {
		status, body := b.call(c.who, "POST", "/tokens", c.body)
		if status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s makes %s: %d %s", c.who, c.body, status, body)
		}
		if status == 200 {
			made := want[api.NewToken](t, answer{status, nil, body}, 200)
			b.secrets[made.Name] = made.Secret
			row := must(b.tokens.TokenByHash(t.Context(), must(auth.HashSecret(made.Secret))))
			if row.Principal != store.FirstService || row.Maker != store.FirstService {
				t.Errorf("the token that was made: %+v", row)
			}
		}
	}
	if status, body := b.call("reader", "GET", "/runs", ""); status != 200 || !strings.Contains(body, b.ids["web"]) || strings.Contains(body, "RUN") {
		t.Errorf("a token that was made to read one namespace: %d %s", status, body)
	}
	if status, body := b.call("reader", "GET", "/workflows", ""); status != 403 {
		t.Errorf("a token that was made to read runs: %d %s", status, body)
	}
}
