package server_test

import (
	"strconv"
	"strings"
	"testing"

	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// TestQuotas: only people of the cluster set quotas, every member of a namespace sees them, and a refusal
// names the quota.
func TestQuotas(t *testing.T) {
	b := newRightsBed(t)
	b.token(store.Token{Name: "cluster", Principal: store.FirstService, Verbs: "*", Namespaces: "*"})
	for _, role := range []string{"viewer", "editor", "admin"} {
		b.token(store.Token{Name: role, Principal: b.principal(role, store.PrincipalActive, store.Binding{Role: role, Namespace: "web"}), Verbs: "*", Namespaces: "*"})
	}
	for _, ns := range []string{"web", "shop"} {
		source := "name: x\nnamespace: " + ns + "\nparams: {p: {type: string, default: ''}}\ntasks: {a: {approval: {}}, b: {approval: {}}}\n"
		if a := b.do("PUT", "/api/v1/workflows/"+ns+"/x", source, "Content-Type", "application/yaml"); a.status != 201 {
			t.Fatal(a.status, a.body)
		}
	}
	for _, c := range []struct {
		who, method, path, body string
		status                  int
		has                     string
	}{
		{"viewer", "GET", "/namespaces", "", 200, `"web"`},
		{"viewer", "GET", "/namespaces?namespace=shop", "", 403, "namespace.read"},
		{"admin", "PUT", "/namespaces/web", `{"quotas":{"runs":2}}`, 403, "namespace.write"},
		{"cluster", "PUT", "/namespaces/web", `{"quotas":{"runs":0}}`, 422, "quotas.runs"},
		{"cluster", "PUT", "/namespaces/WEB", `{"quotas":{"runs":2}}`, 422, `"code":"invalid"`},
		{"admin", "PUT", "/namespaces/web", `{"quotas":{},"isolation":"none"}`, 403, "namespace.write"},
		{"cluster", "PUT", "/namespaces/safe", `{"quotas":{},"isolation":"tower"}`, 422, "isolation"},
		{"cluster", "PUT", "/namespaces/safe", `{"quotas":{},"isolation":"user"}`, 200, `"isolation":"user"`},
		{"cluster", "PUT", "/namespaces/safe", `{"quotas":{"runs":2}}`, 200, `"isolation":"user"`},
		{"cluster", "GET", "/namespaces?namespace=safe", "", 200, `"isolation":"user"`},
		{"cluster", "PUT", "/namespaces/safe", `{"quotas":{},"isolation":"none"}`, 200, `{"name":"safe","quotas":{},"stored_bytes"`},
		{"cluster", "PUT", "/namespaces/empty", `{"quotas":{"runs":2}}`, 200, `"runs":0`},
		{"cluster", "PUT", "/namespaces/web", `{"quotas":{"runs":2,"tasks":2,"params_bytes":20}}`, 200, `"runs":2`},
		{"editor", "POST", "/runs", `{"workflow":"web/x"}`, 202, ""},
		{"editor", "POST", "/runs", `{"workflow":"web/x"}`, 202, ""},
		{"editor", "POST", "/runs", `{"workflow":"web/x"}`, 429, `"code":"quota_exceeded"`},
		{"editor", "POST", "/runs:batch", `{"runs":[{"workflow":"web/x","idempotency_key":"k"}]}`, 0, "quota_exceeded"},
		{"cluster", "POST", "/runs", `{"workflow":"shop/x"}`, 202, ""},
		{"editor", "POST", "/runs", `{"workflow":"web/x","params":{"p":"a long text for it"}}`, 422, `"code":"quota_exceeded"`},
		{"viewer", "GET", "/namespaces?namespace=web", "", 200, `"runs":2,"runs_in_hour":2`},
		{"cluster", "GET", "/namespaces?limit=1", "", 200, `"empty"`},
	} {
		status, body := b.call(c.who, c.method, c.path, c.body, "Content-Type", "application/json")
		if c.status != 0 && status != c.status || !strings.Contains(body, c.has) {
			t.Errorf("%s %s %s %s: %d %s, want %d and %s", c.who, c.method, c.path, c.body, status, body, c.status, c.has)
		}
	}
	source := "name: y\nnamespace: web\ntasks: {a: {approval: {}}, b: {approval: {}}, c: {approval: {}}}\n"
	wantProblem(t, b.do("PUT", "/api/v1/workflows/web/y", source, "Content-Type", "application/yaml"), 422, api.ProblemQuota)
	var names []string
	for cursor := ""; ; {
		page := want[api.List[api.Namespace]](t, b.do("GET", "/api/v1/namespaces?limit=1"+cursor, ""), 200)
		for _, n := range page.Items {
			names = append(names, n.Name)
		}
		if page.Next == nil {
			break
		}
		cursor = "&cursor=" + *page.Next
	}
	if got := strings.Join(names, " "); !strings.Contains(got, "empty shop web") {
		t.Errorf("namespaces %s", got)
	}
	want[api.Namespace](t, b.do("PUT", "/api/v1/namespaces/web", `{"quotas":{"runs_per_hour":1}}`), 200)
	var refused answer
	for range 3 { // an hour may begin meanwhile
		if refused = b.do("POST", "/api/v1/runs", `{"workflow":"web/x"}`); refused.status == 429 {
			break
		}
	}
	if after, err := strconv.Atoi(refused.header.Get("Retry-After")); err != nil || after < 1 || after > 3600 {
		t.Errorf("%d, Retry-After %q", refused.status, refused.header.Get("Retry-After"))
	}
	is := want[api.Namespace](t, b.do("PUT", "/api/v1/namespaces/web", `{"quotas":{}}`), 200)
	if is.Quotas != (api.Quotas{}) || is.Runs != nil {
		t.Errorf("%+v", is)
	}
	if a := b.do("POST", "/api/v1/runs", `{"workflow":"web/x"}`); a.status != 202 {
		t.Errorf("a run without quotas: %d %s", a.status, a.body)
	}
}
