package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// ended is an answer whose client disconnects at the first byte, which ends a stream.
type ended struct {
	*httptest.ResponseRecorder
	cancel func()
}

func (e *ended) Write(p []byte) (int, error) {
	n, err := e.ResponseRecorder.Write(p)
	e.cancel()
	return n, err
}

// rightsBed is a node behind a gate, with a run in each of two namespaces. It holds tokens by name.
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

// call returns the status and the body. header are names, each followed by its value.
func (b *rightsBed) call(who, method, path, body string, header ...string) (int, string) {
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, method, api.Prefix+path, strings.NewReader(body))
	r.Host = "skein.example:8080"
	r.Header.Set("Authorization", "Bearer "+b.secrets[who])
	r.Header.Set("Content-Type", "application/json")
	if method == "PUT" {
		r.Header.Set("Content-Type", "application/yaml")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	b.gate.ServeHTTP(&ended{w, cancel}, r)
	return w.Code, strings.NewReplacer(b.ids["shop"], "RUN", "shop/w", "W").Replace(w.Body.String())
}

// TestNamespaces calls as principals with roles in one namespace, and with narrower tokens. An object that
// a caller may not see gets the answer of a missing one, and a list shows no other namespace.
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
	token("made", operator, viewer, "*", "*") // made by a principal that may only read
	editor := principal("editor", store.PrincipalActive, in("editor", "web"))
	token("editor", editor, 0, "*", "*")
	token("source", editor, 0, "workflow.read workflow.source", "*")
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
	soon := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	draft := `{"source":"name: w\nnamespace: %s\ntasks: {a: {run: 'true'}}\n"}`
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
		{"operator", "GET", "/workflows/shop/w", "", 404, `"code":"not_found"`},
		{"operator", "GET", "/workflows/web/w", "", 200, `"source":null`},
		{"operator", "GET", "/workflows/web/w/versions/1", "", 403, "workflow.source"},
		{"operator", "GET", "/workflows", "", 200, "web/w"},
		{"operator", "GET", "/workflows?namespace=shop", "", 403, "workflow.read"},
		{"operator", "GET", "/runs", "", 200, ids["web"]},
		{"operator", "GET", "/runs?ns=shop", "", 403, "run.read"},
		{"operator", "GET", "/runs?ns=web&ns=shop", "", 422, `"code":"invalid"`},
		{"operator", "GET", "/runs?workflow=shop/w", "", 403, "run.read"},
		{"operator", "GET", "/runs?workflow=shop/w&ns=web", "", 403, "run.read"},
		{"operator", "GET", "/fires", "", 403, "schedule.read"},
		{"operator", "GET", "/fires?workflow=web/w", "", 200, "items"},
		{"operator", "GET", "/backfills?workflow=shop/w", "", 403, "schedule.read"},
		{"editor", "POST", "/validate", fmt.Sprintf(draft, "web"), 200, `"errors":[]`},
		{"editor", "POST", "/validate", fmt.Sprintf(draft, "shop"), 403, "workflow.write"},
		{"source", "POST", "/validate", fmt.Sprintf(draft, "web"), 403, "workflow.write"},
		{"operator", "POST", "/validate", fmt.Sprintf(draft, "web"), 403, "workflow.source"},
		{"viewer", "POST", "/schedules:simulate", `{"to":"` + soon + `"}`, 200, "fires"},
		{"viewer", "POST", "/schedules:simulate", `{"to":"` + soon + `","namespace":"shop"}`, 403, "schedule.read"},
		{"viewer", "POST", "/schedules:simulate", `{"to":"` + soon + `","workflow":"shop/w"}`, 403, "schedule.read"},
		{"viewer", "POST", "/schedules:simulate", `{"to":"` + soon + `","with":` + fmt.Sprintf(draft, "shop") + `}`, 403, "schedule.read"},
		{"both", "POST", "/schedules:simulate", `{"to":"` + soon + `"}`, 403, "by namespace"},
		{"both", "POST", "/schedules:simulate", `{"to":"` + soon + `","workflow":"shop/w"}`, 200, "fires"},
		{"operator", "POST", "/runs", `{"workflow":"web/w"}`, 202, "web/w"},
		{"operator", "POST", "/runs", `{"workflow":"shop/w"}`, 404, `"code":"not_found"`},
		{"operator", "POST", "/runs:batch", `{"runs":[{"workflow":"shop/w","idempotency_key":"k"}]}`, 200, `"code":"not_found"`},
		{"operator", "POST", "/backfills", `{"workflow":"shop/w","instants":["2020-01-01T00:00:00Z"]}`, 404, `"code":"not_found"`},
		{"operator", "POST", "/runs:stop", `{"all":true,"dry_run":true}`, 403, "run.read"},
		{"operator", "POST", "/runs:stop", `{"tag":["a=b"],"dry_run":true}`, 403, "run.read"},
		{"operator", "POST", "/runs:stop", `{"ns":"shop","tag":["a=b"],"dry_run":true}`, 403, "run.read"},
		{"operator", "POST", "/runs:stop", `{"ns":"web","state":"succeeded","dry_run":true}`, 200, `"dry_run":true`},
		{"operator", "POST", "/runs:stop", `{"workflow":"shop/w","dry_run":true}`, 404, `"code":"not_found"`},
		{"operator", "PUT", "/workflows/web/w", "name: w\n", 403, "editor"},
		{"source", "POST", "/git-sources/web/f:plan", `{"url":"https://127.0.0.1:1/f.git"}`, 403, "workflow.write"},
		{"editor", "POST", "/git-sources/web/f:plan", `{"url":"file:///srv/f.git"}`, 403, "every namespace"},
		{"editor", "POST", "/git-sources/shop/f:plan", `{"url":"https://127.0.0.1:1/f.git"}`, 403, "workflow.source"},
		{"operator", "GET", "/nodes", "", 403, "node.read"},
		{"operator", "GET", "/events", "", 403, "events"},
		{"operator", "GET", "/events?run=" + ids["shop"], "", 404, ""},
		{"operator", "GET", "/events?workflow=shop/w", "", 404, `"code":"not_found"`},
		{"operator", "GET", "/events?workflow=web/w", "", 200, ": skein"},
		{"operator", "POST", "/events?namespace=web", fmt.Sprintf(shopEvent, "1"), 200, `"position"`},
		{"operator", "POST", "/events?namespace=shop", fmt.Sprintf(shopEvent, "1"), 403, "event.send"},
		{"operator", "POST", "/events", fmt.Sprintf(shopEvent, "1"), 403, "event.send"},
		{"viewer", "POST", "/schedules/web/w/e:seek", `{"to":"now"}`, 403, "schedule.operate"},
		{"viewer", "POST", "/events?namespace=web", fmt.Sprintf(shopEvent, "1"), 403, "event.send"},
		{"elsewhere", "POST", "/events?namespace=shop", fmt.Sprintf(shopEvent, "1"), 403, "event.send"},
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
		shown := strings.ReplaceAll(body, `"args":{"workflow":"W"}`, "") // the caller has named this workflow
		if c.who != "cluster" && c.who != "both" && status == 200 && (strings.Contains(shown, "RUN") || strings.Contains(shown, `"W"`)) {
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

// TestValuesOfStarts: a caller without run.values gets no answer with values, whichever call makes the run.
func TestValuesOfStarts(t *testing.T) {
	b := newRightsBed(t)
	b.token(store.Token{Name: "wide", Principal: store.FirstService, Verbs: "*", Namespaces: "*"})
	b.token(store.Token{Name: "narrow", Principal: store.FirstService, Verbs: "run.read run.start run.redo", Namespaces: "*"})
	file := "name: p\nnamespace: web\nparams: {by: {type: string, default: hush}, of: {type: string, default: x}}\ntasks: {a: {run: 'true'}}\n"
	if status, body := b.call("wide", "PUT", "/workflows/web/p", file); status != 201 {
		t.Fatal(status, body)
	}
	status, body := b.call("wide", "POST", "/runs", `{"workflow":"web/p","params":{"of":"hush"},"idempotency_key":"same"}`)
	first := want[api.Run](t, answer{status, nil, body}, 202)
	// Starts of this media type are passed to huma.
	const start, full = `{"workflow":"web/p"}`, "application/json; charset=utf-8"
	for name, c := range map[string]struct {
		path, body string
		header     []string
	}{
		"start":            {"/runs", start, nil},
		"start and wait":   {"/runs", start, []string{"Prefer", "wait=10"}},
		"full":             {"/runs", start, []string{"Content-Type", full}},
		"full and wait":    {"/runs", start, []string{"Content-Type", full, "Prefer", "wait=10"}},
		"existing":         {"/runs", `{"workflow":"web/p","params":{"of":"hush"},"idempotency_key":"same"}`, nil},
		"rerun":            {"/runs/" + first.ID + ":rerun", "{}", nil},
		"rerun and wait":   {"/runs/" + first.ID + ":rerun", "{}", []string{"Prefer", "wait=10"}},
		"rerun the newest": {"/runs/" + first.ID + ":rerun", `{"newest":true,"params":{"by":"hush"}}`, nil},
	} {
		for who, shown := range map[string]bool{"wide": true, "narrow": false} {
			status, body := b.call(who, "POST", c.path, c.body, c.header...)
			if status/100 != 2 || strings.Contains(body, "hush") != shown || strings.Contains(body, `"params":null`) == shown {
				t.Errorf("%s by %s: %d %s", name, who, status, body)
			}
		}
	}
	for path, body := range map[string]string{
		"/runs:batch": `{"runs":[{"workflow":"web/p","idempotency_key":"other"}]}`,
		"/runs:rerun": `{"runs":["` + first.ID + `"]}`,
	} {
		if status, body := b.call("narrow", "POST", path, body); status/100 != 2 || strings.Contains(body, "hush") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// TestTokensOfMakers: a principal can make a token only with verbs that the principal has, and the token ends
// with the rights of the principal.
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
		{"maker", `{"kind":"worker","name":"w","verbs":["run.read"]}`, 422, `"code":"invalid"`},
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
	short := store.Token{Name: "short", Principal: store.FirstService, Verbs: "*", Namespaces: "*", Expires: 4_000_000_000_000_000}
	b.token(short)
	for i, body := range []string{`{"kind":"api","name":"s1","never_expires":true}`, `{"kind":"worker","name":"s2"}`, `{"kind":"node","name":"s3","expires_at":"2999-01-01T00:00:00Z"}`} {
		status, text := b.call("short", "POST", "/tokens", body)
		made := want[api.NewToken](t, answer{status, nil, text}, 200)
		row := must(b.tokens.TokenByHash(t.Context(), must(auth.HashSecret(made.Secret))))
		if row.Maker != store.FirstService || row.Expires != short.Expires {
			t.Errorf("token %d of a token that expires: %+v", i, row)
		}
	}
	// A token for another principal is at most as wide as the token that makes it. A token that another
	// principal made cannot make tokens that outlive its own principal. The last token of administrators
	// stays.
	in := func(role, ns string) store.Binding { return store.Binding{Role: role, Namespace: ns} }
	other := b.principal("other", store.PrincipalActive, in("cluster", "*"))
	b.principal("nobody", store.PrincipalActive)
	b.token(store.Token{Name: "imp", Principal: store.FirstService, Verbs: "token.all user.impersonate run.read", Namespaces: "*"})
	b.token(store.Token{Name: "web", Principal: store.FirstService, Verbs: "*", Namespaces: "web"})
	b.token(store.Token{Name: "given", Principal: other, Maker: store.FirstService, Verbs: "*", Namespaces: "*"})
	for _, c := range []struct {
		who, path, body string
		status          int
		says            string
	}{
		{"imp", "", `{"kind":"api","name":"i1","for":"nobody"}`, 200, `"verbs":["token.all","user.impersonate","run.read"]`},
		{"imp", "", `{"kind":"api","name":"i2","for":"nobody","verbs":["run.read","run.start"]}`, 403, `"code":"forbidden"`},
		{"imp", "", `{"kind":"api","name":"i3","for":"nobody","verbs":["run.read"]}`, 200, `"verbs":["run.read"]`},
		{"cluster", "", `{"kind":"api","name":"i4","for":"nobody"}`, 200, `"user":"nobody"`},
		{"web", "", `{"kind":"api","name":"i5","for":"nobody"}`, 403, "token.all"},
		{"given", "", `{"kind":"worker","name":"g1"}`, 403, `"code":"forbidden"`},
		{"given", "", `{"kind":"node","name":"g2"}`, 403, `"code":"forbidden"`},
		{"given", "", `{"kind":"api","name":"g3","for":"nobody"}`, 403, `"code":"forbidden"`},
		{"given", "", `{"kind":"api","name":"g4","for":"other"}`, 200, `"user":"other"`},
		{"given", "", `{"kind":"api","name":"g5"}`, 200, `"user":"other"`},
		{"cluster", "/999:revoke", "", 404, "999"},
	} {
		if status, body := b.call(c.who, "POST", "/tokens"+c.path, c.body); status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s makes %s%s: %d %s", c.who, c.path, c.body, status, body)
		}
	}
	last := int64(0)
	for _, row := range must(b.tokens.TokenList(t.Context())) {
		if row.Name == "cluster" {
			last = row.ID
			continue
		}
		if row.Name == "imp" || row.Name == "reader" { // narrow tokens give no further rights
			continue
		}
		if status, body := b.call("cluster", "POST", fmt.Sprintf("/tokens/%d:revoke", row.ID), ""); status != 200 {
			t.Errorf("revoke %s: %d %s", row.Name, status, body)
		}
	}
	if status, body := b.call("cluster", "POST", fmt.Sprintf("/tokens/%d:revoke", last), ""); status != 409 || !strings.Contains(body, `"code":"conflict"`) {
		t.Errorf("the last token of administrators: %d %s", status, body)
	}
	if status, body := b.call("reader", "GET", "/runs", ""); status != 200 || !strings.Contains(body, b.ids["web"]) || strings.Contains(body, "RUN") {
		t.Errorf("a token that was made to read one namespace: %d %s", status, body)
	}
	if status, body := b.call("reader", "GET", "/workflows", ""); status != 403 {
		t.Errorf("a token that was made to read runs: %d %s", status, body)
	}
}

// TestStreamsOfACaller: event streams and followed logs of a caller count together, and a further one is
// refused until one of them ends. Other calls are not counted.
func TestStreamsOfACaller(t *testing.T) {
	b := newRightsBed(t)
	b.token(store.Token{Name: "ann", Principal: store.FirstService, Verbs: "*", Namespaces: "*"})
	gate := auth.New(auth.Config{Store: b.tokens, Required: true, Rates: auth.Rates{TokenStreams: 2}, Route: func(r *http.Request) auth.Route {
		row, _ := access.Match(r)
		return auth.Route{Verb: row.Verb}
	}}).Wrap(b.srv.Handler())
	door := httptest.NewServer(gate)
	defer door.Close()
	open := func(path string, status int) (end func()) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		r := must(http.NewRequestWithContext(ctx, http.MethodGet, door.URL+api.Prefix+path, nil))
		r.Host = "skein.example:8080"
		r.Header.Set("Authorization", "Bearer "+b.secrets["ann"])
		resp := must(door.Client().Do(r))
		if resp.StatusCode != status {
			t.Fatalf("%s: %d, want %d", path, resp.StatusCode, status)
		}
		return func() { cancel(); resp.Body.Close() }
	}
	first := open("/events", 200)
	second := open("/events?run="+b.ids["web"], 200)
	open("/events", 429)()
	open("/runs/"+b.ids["web"]+"/tasks/a/logs?follow=true", 429)()
	open("/runs?ns=web", 200)()
	first()
	eventually(t, "room for another stream", func() bool {
		r := must(http.NewRequestWithContext(t.Context(), http.MethodGet, door.URL+api.Prefix+"/events", nil))
		r.Host = "skein.example:8080"
		r.Header.Set("Authorization", "Bearer "+b.secrets["ann"])
		resp := must(door.Client().Do(r))
		defer resp.Body.Close()
		return resp.StatusCode == 200
	})
	second()
}
