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

// TestNamespaces calls as principals with roles in one namespace, and with tokens that are narrower than these:
// what a caller may not see is answered like what is not there, and a list shows no other namespace.
func TestNamespaces(t *testing.T) {
	b := newBed(t, true)
	ids := map[string]string{}
	for _, ns := range []string{"web", "shop"} {
		a := b.do("PUT", "/api/v1/workflows/"+ns+"/w", "name: w\nnamespace: "+ns+"\ntasks: {a: {run: 'true'}}\n", "Content-Type", "application/yaml")
		if a.status != 201 {
			t.Fatal(a.status, a.body)
		}
		ids[ns] = b.run(ns + "/w").ID
	}
	st := b.tokens
	gate := auth.New(auth.Config{Store: st, Required: true, Refusals: 1 << 20, Route: func(r *http.Request) auth.Route {
		row, _ := access.Match(r)
		return auth.Route{Verb: row.Verb, BodyMax: 1 << 20}
	}}).Wrap(b.srv.Handler())
	principal := func(name, state string, bindings ...store.Binding) int64 {
		is := must(st.RightsRevision(t.Context()))
		return must(st.ChangeRights(t.Context(), is, store.RightsChange{Add: &store.Principal{Kind: store.PrincipalUser, Name: name, State: state}, Bind: bindings}))
	}
	in := func(role, ns string) store.Binding { return store.Binding{Role: role, Namespace: ns} }
	operator := principal("operator", store.PrincipalActive, in("operator", "web"))
	viewer := principal("viewer", store.PrincipalActive, in("viewer", "web"))
	secrets := map[string]string{}
	token := func(name string, id, maker int64, verbs, namespaces string) {
		secrets[name] = auth.NewSecret(store.TokenAPI)
		row := store.Token{Kind: store.TokenAPI, Name: name, Hash: must(auth.HashSecret(secrets[name])), Principal: id, Maker: maker, Verbs: verbs, Namespaces: namespaces}
		must(st.AddToken(t.Context(), row))
	}
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

	// call returns the status and the body.
	call := func(who, method, path, body string) (int, string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, method, api.Prefix+path, strings.NewReader(body))
		r.Host = "skein.example:8080"
		r.Header.Set("Authorization", "Bearer "+secrets[who])
		r.Header.Set("Content-Type", "application/json")
		if method == "PUT" {
			r.Header.Set("Content-Type", "application/yaml")
		}
		w := httptest.NewRecorder()
		gate.ServeHTTP(&ended{w, cancel}, r)
		return w.Code, strings.NewReplacer(ids["shop"], "RUN", "shop/w", "W").Replace(w.Body.String())
	}
	// A token is made by a principal that has each of its verbs there, and is bound to it.
	made := func(who, body string) (string, int, string) {
		r := httptest.NewRequestWithContext(t.Context(), "POST", api.Prefix+"/tokens", strings.NewReader(body))
		r.Host = "skein.example:8080"
		r.Header.Set("Authorization", "Bearer "+secrets[who])
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		gate.ServeHTTP(w, r)
		var tok api.NewToken
		if w.Code == 200 {
			tok = want[api.NewToken](t, answer{w.Code, w.Header(), w.Body.String()}, 200)
		}
		return tok.Secret, w.Code, w.Body.String()
	}
	token("maker", store.FirstService, 0, "token.all run.read", "*")
	if _, status, body := made("maker", `{"kind":"api","name":"all"}`); status != 403 || !strings.Contains(body, "run.start") {
		t.Errorf("a narrow token makes a wide one: %d %s", status, body)
	}
	secret, status, body := made("cluster", `{"kind":"api","name":"all"}`)
	if status != 200 {
		t.Errorf("make a token: %d %s", status, body)
	}
	if row := must(st.TokenByHash(t.Context(), must(auth.HashSecret(secret)))); row.Principal != store.FirstService || row.Maker != store.FirstService {
		t.Errorf("the token that was made: %+v", row)
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
		{"operator", "GET", "/workflows/web/w", "", 200, "web/w"},
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
