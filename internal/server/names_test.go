package server_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// TestNamesOfNamespaces: people of a namespace can change its queues and classes, and can see only these and
// the shared ones. A name with a slash is not another way to an object of a namespace. To share a lock, an
// author needs the right to change shared queues.
func TestNamesOfNamespaces(t *testing.T) {
	b := newRightsBed(t)
	b.token(store.Token{Name: "cluster", Principal: store.FirstService, Verbs: "*", Namespaces: "*"})
	for _, role := range []string{"viewer", "editor", "admin"} {
		b.token(store.Token{Name: role, Principal: b.principal(role, store.PrincipalActive, store.Binding{Role: role, Namespace: "web"}), Verbs: "*", Namespaces: "*"})
	}
	cursor := func(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }
	const queue, class = `{"limit":1}`, `{"cpu":1}`
	for _, c := range []struct {
		who, method, path, body string
		status                  int
		has, lacks              string
	}{
		{"cluster", "PUT", "/queues/etl", queue, 200, `"name":"etl"`, "namespace"},
		{"cluster", "PUT", "/queues/shop/etl", queue, 200, `"name":"shop/etl","namespace":"shop"`, ""},
		{"editor", "PUT", "/queues/etl", queue, 403, "queue.write", ""},
		{"editor", "PUT", "/queues/shop/etl", queue, 403, "queue.write", ""},
		{"editor", "PUT", "/queues/web/etl", queue, 200, `"name":"web/etl"`, ""},
		{"editor", "PUT", "/queues/web/e!l", queue, 422, "is not the name of a queue", ""},
		{"cluster", "PUT", "/queues/WEB/etl", queue, 422, "cannot be the name of a namespace", ""},
		{"viewer", "PUT", "/queues/web/etl", queue, 403, "queue.write", ""},
		{"viewer", "GET", "/queues", "", 200, `"web/etl"`, "shop"},
		{"viewer", "GET", "/queues?limit=1&cursor=" + cursor("etl"), "", 200, `"web/etl"`, cursor("shop/etl")},
		{"viewer", "GET", "/queues/etl", "", 200, `"etl"`, ""},
		{"viewer", "GET", "/queues/shop/etl", "", 403, "queue.read", ""},
		{"viewer", "GET", "/queues/shop%2Fetl", "", 404, "no shared queue", ""},
		{"cluster", "PUT", "/queues/shop%2Fother", queue, 404, "no shared queue", ""},
		{"cluster", "POST", "/queues/shop%2Fetl:pause", "", 404, "no shared queue", ""},
		{"cluster", "DELETE", "/queues/shop%2Fetl", "", 404, "no shared queue", ""},
		{"editor", "POST", "/queues/web/etl:pause", `{"reason":"r"}`, 200, `"paused"`, ""},
		{"editor", "POST", "/queues/shop/etl:pause", "", 403, "queue.write", ""},
		{"editor", "DELETE", "/queues/web/etl", "", 204, "", ""},
		{"cluster", "PUT", "/classes/shop/heavy", class, 200, `"shop/heavy"`, ""},
		{"editor", "PUT", "/classes/web/heavy", class, 403, "class.write", ""},
		{"admin", "PUT", "/classes/web/heavy", class, 200, `"namespace":"web"`, ""},
		{"admin", "PUT", "/classes/heavy", class, 403, "class.write", ""},
		{"admin", "PUT", "/classes/shop/heavy", class, 403, "class.write", ""},
		{"admin", "GET", "/classes", "", 200, `"web/heavy"`, "shop"},
		{"cluster", "DELETE", "/classes/shop%2Fheavy", "", 404, "no resource class", ""},
		{"admin", "DELETE", "/classes/web/heavy", "", 204, "", ""},
		{"cluster", "PUT", "/namespaces/web", `{"quotas":{},"allow_read":["/srv"]}`, 422, "need the level fence", ""},
		{"cluster", "PUT", "/namespaces/web", `{"quotas":{},"isolation":"fence","allow_read":["/srv/../etc"]}`, 422, "shortest form", ""},
		{"cluster", "PUT", "/namespaces/web", `{"quotas":{},"isolation":"fence","allow_read":["/"]}`, 422, "shortest form", ""},
		{"cluster", "PUT", "/namespaces/web", `{"quotas":{},"egress":"10.0.0.1/8"}`, 422, "bits after its mask", ""},
		{"cluster", "PUT", "/namespaces/web", `{"quotas":{},"isolation":"fence","allow_read":["/srv/a"],"egress":"public"}`, 200, `"allow_read":["/srv/a"],"egress":"public"`, ""},
		{"cluster", "PUT", "/namespaces/web", `{"quotas":{},"isolation":"none"}`, 422, "need the level fence", ""},
		{"cluster", "PUT", "/namespaces/web", `{"quotas":{}}`, 200, `"egress":"public"`, ""},
		{"admin", "PUT", "/namespaces/web", `{"quotas":{},"egress":"any"}`, 403, "namespace.write", ""},
	} {
		status, body := b.call(c.who, c.method, c.path, c.body, "Content-Type", "application/json")
		if status != c.status || !strings.Contains(body, c.has) || c.lacks != "" && strings.Contains(body, c.lacks) {
			t.Errorf("%s %s %s %s: %d %s, want %d with %q and without %q", c.who, c.method, c.path, c.body, status, body, c.status, c.has, c.lacks)
		}
	}
	for i := range 51 {
		want := 200
		if i == 50 {
			want = 409
		}
		if status, body := b.call("admin", "PUT", fmt.Sprintf("/classes/web/c%d", i), class, "Content-Type", "application/json"); status != want {
			t.Errorf("class %d: %d %s", i, status, body)
		}
	}
	if status, body := b.call("admin", "PUT", "/classes/web/c1", class, "Content-Type", "application/json"); status != 200 {
		t.Errorf("a change at the limit: %d %s", status, body)
	}
	locked := "name: l\nnamespace: web\nlocks: [global/dock]\ntasks: {a: {run: 'true'}}\n"
	status, body := b.call("editor", "PUT", "/workflows/web/l", locked, "Content-Type", "application/yaml")
	if status != 403 {
		t.Errorf("a shared lock of an editor: %d %s", status, body)
	}
	if status, body = b.call("cluster", "PUT", "/workflows/web/l", locked, "Content-Type", "application/yaml"); status != 201 {
		t.Errorf("a shared lock of an administrator: %d %s", status, body)
	}
}

// TestExplainOwnQueue: the action that explain offers for a paused queue of a namespace is a call that works.
func TestExplainOwnQueue(t *testing.T) {
	b := newBed(t, true)
	want[api.Queue](t, b.do("PUT", "/api/v1/queues/shop/etl", `{"limit":1}`, "Content-Type", "application/json"), 200)
	want[api.Queue](t, b.post("/api/v1/queues/shop/etl:pause", ""), 200)
	want[api.Applied](t, b.do("PUT", "/api/v1/workflows/shop/w", "name: w\nnamespace: shop\ntasks: {a: {queue: etl, run: x}}\n", "Content-Type", "application/yaml"), 201)
	run := want[api.Run](t, b.post("/api/v1/runs", `{"workflow":"shop/w"}`), 202)
	var actions []api.Action
	eventually(t, "the task waits for the queue", func() bool {
		for _, r := range want[api.Explanation](t, b.get("/api/v1/runs/"+run.ID+"/tasks/a/explain"), 200).Reasons {
			if r.Code == "queue_paused" {
				actions = r.Actions
			}
		}
		return len(actions) > 0
	})
	if q := want[api.Queue](t, b.post(actions[0].Path, ""), 200); q.State != "active" {
		t.Errorf("the queue is %+v after %+v", q, actions[0])
	}
}
