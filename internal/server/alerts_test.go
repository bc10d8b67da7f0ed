package server_test

import (
	"fmt"
	"strings"
	"testing"

	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// TestAlertsOfNamespaces: people see and change the alerts and channels of their namespaces only, and a
// channel that runs a program needs the verbs alert.channel and node.control in all namespaces.
func TestAlertsOfNamespaces(t *testing.T) {
	b := newRightsBed(t)
	b.token(store.Token{Name: "cluster", Principal: store.FirstService, Verbs: "*", Namespaces: "*"})
	for _, role := range []string{"viewer", "operator", "admin"} {
		b.token(store.Token{Name: role, Principal: b.principal(role, store.PrincipalActive, store.Binding{Role: role, Namespace: "web"}), Verbs: "*", Namespaces: "*"})
	}
	of := map[string]string{}
	for _, ns := range []string{"web", "shop"} {
		source := "name: x\nnamespace: " + ns + "\nalerts: [{on: failed, to: ops}]\ntasks: {a: {run: 'true'}}\n"
		if a := b.do("PUT", "/api/v1/workflows/"+ns+"/x", source, "Content-Type", "application/yaml"); a.status != 201 {
			t.Fatal(a.status, a.body)
		}
		b.exec.fails.Store(true)
		b.run(ns + "/x")
		b.exec.fails.Store(false)
		all := want[api.List[api.Alert]](t, b.do("GET", "/api/v1/alerts?namespace="+ns, ""), 200)
		if len(all.Items) != 1 || all.Items[0].State != "open" || all.Items[0].Workflow != "x" || all.Items[0].Count != 1 {
			t.Fatalf("alerts %+v", all)
		}
		of[ns] = all.Items[0].ID
	}
	const none = "019a0000-0000-7000-8000-000000000000"
	for _, c := range []struct {
		who, method, path, body string
		status                  int
		has                     string
	}{
		{"viewer", "GET", "/alerts", "", 200, of["web"]},
		{"viewer", "GET", "/alerts?namespace=shop", "", 403, "alert.read"},
		{"viewer", "GET", "/alerts/" + of["web"], "", 200, `"pending"`},
		{"viewer", "GET", "/alerts/" + of["shop"], "", 404, `"code":"not_found"`},
		{"viewer", "GET", "/alerts/" + none, "", 404, `"code":"not_found"`},
		{"cluster", "GET", "/alerts/x", "", 404, `"code":"not_found"`},
		{"viewer", "POST", "/alerts/" + of["web"] + ":ack", "", 403, "alert.operate"},
		{"operator", "POST", "/alerts/" + of["shop"] + ":ack", "", 404, `"code":"not_found"`},
		{"operator", "POST", "/alerts/" + of["web"] + ":ack", `{"reason":"on it"}`, 200, `"acknowledged"`},
		{"viewer", "GET", "/alerts?state=acknowledged", "", 200, of["web"]},
		{"viewer", "GET", "/alerts?state=open", "", 200, `"items":[]`},
		{"operator", "POST", "/alerts/" + of["web"] + ":resolve", "", 200, `"resolved"`},
		{"viewer", "GET", "/alerts?state=resolved", "", 200, of["web"]},
		{"viewer", "GET", "/alerts?state=over", "", 422, "state"},
		{"operator", "POST", "/alerts/" + of["web"] + ":ack", "", 409, `"code":"conflict"`},
		{"viewer", "POST", "/silences/web", `{"seconds":60,"reason":"a test"}`, 403, "alert.operate"},
		{"operator", "POST", "/silences/shop", `{"seconds":60,"reason":"a test"}`, 403, "alert.operate"},
		{"operator", "POST", "/silences/*", `{"seconds":60,"reason":"a test"}`, 403, "alert.operate"},
		{"operator", "POST", "/silences/web", `{"seconds":60,"reason":"a test","workflow":"none"}`, 404, "none"},
		{"operator", "POST", "/silences/web", `{"seconds":0,"reason":"a test"}`, 422, "seconds"},
		{"operator", "POST", "/silences/web", `{"seconds":60}`, 422, "reason"},
		{"operator", "POST", "/silences/web", `{"seconds":60,"reason":"a test","workflow":"x","rule":"failed"}`, 200, `"active"`},
		{"cluster", "POST", "/silences/*", `{"seconds":60,"reason":"maintenance"}`, 200, `"*"`},
		{"cluster", "POST", "/silences/shop", `{"seconds":60,"reason":"of the shop"}`, 200, `"shop"`},
		{"viewer", "GET", "/silences", "", 200, `"maintenance"`},
		{"viewer", "GET", "/silences?namespace=shop", "", 403, "alert.read"},
		{"operator", "POST", "/silences/web/" + none + ":end", "", 404, `"code":"not_found"`},
		{"operator", "PUT", "/channels/web/ops", `{"config":{"log":{}}}`, 403, "alert.channel"},
		{"admin", "PUT", "/channels/web/ops", `{"config":{"log":{}}}`, 200, `"version":1`},
		{"admin", "PUT", "/channels/shop/ops", `{"config":{"log":{}}}`, 403, "alert.channel"},
		{"admin", "PUT", "/channels/web/page", `{"config":{"command":{"run":["/bin/true"]}}}`, 403, `"code":"forbidden"`},
		{"cluster", "PUT", "/channels/web/page", `{"config":{"command":{"run":["/bin/true"]}}}`, 200, `"command"`},
		{"admin", "PUT", "/channels/web/bad", `{"config":{"pager":{}}}`, 422, `"code":"invalid"`},
		{"admin", "GET", "/channels", "", 200, `"ops"`},
		{"admin", "PUT", "/cluster-alerts", `{"rules":[]}`, 403, "node.control"},
		{"cluster", "GET", "/cluster-alerts", "", 200, `"version":0`},
		{"cluster", "PUT", "/cluster-alerts", `{"rules":[{"on":["failed"],"to":["ops"]}]}`, 422, "unknown event"},
		{"cluster", "PUT", "/cluster-alerts", `{"rules":[{"on":["disk_low"],"to":["ops"],"limit":"10"}]}`, 422, "percentage"},
		{"cluster", "PUT", "/cluster-alerts", `{"rules":[{"on":["disk_low"],"to":["ops"],"limit":"12.5%"},{"on":["node_lost","queue_old"],"to":["ops"],"escalation":[{"seconds":60,"channels":["boss"]}]}]}`, 200, `"limit":"12.5%"`},
		{"cluster", "GET", "/cluster-alerts", "", 200, `"node_lost+queue_old"`},
		{"viewer", "GET", "/channels", "", 403, "alert.channel"},
		{"cluster", "PUT", "/channels/shop/theirs", `{"config":{"log":{}}}`, 200, `"version":1`},
		{"cluster", "GET", "/channels?namespace=shop", "", 200, `"theirs"`},
		{"admin", "GET", "/channels?namespace=shop", "", 403, "alert.channel"},
		{"admin", "GET", "/channels?namespace=web", "", 200, `"ops"`},
		{"admin", "POST", "/channels/shop/theirs:test", "", 403, "alert.channel"},
		{"operator", "POST", "/channels/web/ops:test", "", 403, "alert.channel"},
		{"admin", "DELETE", "/channels/shop/theirs", "", 403, "alert.channel"},
		{"admin", "DELETE", "/channels/web/ops", "", 204, ""},
		{"admin", "DELETE", "/channels/web/ops", "", 404, `"code":"not_found"`},
	} {
		status, body := b.call(c.who, c.method, c.path, c.body, "Content-Type", "application/json")
		if status != c.status || !strings.Contains(body, c.has) {
			t.Errorf("%s %s %s: %d %s, want %d with %q", c.who, c.method, c.path, status, body, c.status, c.has)
		}
		if c.who != "cluster" && strings.Contains(body, of["shop"]) && !strings.Contains(c.path, of["shop"]) {
			t.Error(fmt.Sprintf("%s sees an alert of another namespace: %s", c.who, body))
		}
	}
	if status, body := b.call("admin", "GET", "/channels", ""); status != 200 || !strings.Contains(body, `"page"`) || strings.Contains(body, "theirs") {
		t.Errorf("an admin of web sees the channels %d %s", status, body)
	}
}
