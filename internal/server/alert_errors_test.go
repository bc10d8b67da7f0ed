package server_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// TestErrorsOfChannels checks that the answer of a receiver or a program is shown only to callers that may
// see the channel.
func TestErrorsOfChannels(t *testing.T) {
	b := newRightsBed(t)
	for role, ns := range map[string]string{"viewer": "web", "operator": "web", "admin": "web"} {
		b.token(store.Token{Name: role, Principal: b.principal(role, store.PrincipalActive, store.Binding{Role: role, Namespace: ns}), Verbs: "*", Namespaces: "*"})
	}
	b.token(store.Token{Name: "narrow", Principal: b.principal("narrow", store.PrincipalActive, store.Binding{Role: "viewer", Namespace: "web"},
		store.Binding{Role: "admin", Namespace: "shop"}), Verbs: "*", Namespaces: "*"})
	source := "name: x\nnamespace: web\nalerts: [{on: failed, to: ops}]\ntasks: {a: {run: 'true'}}\n"
	if a := b.do("PUT", "/api/v1/workflows/web/x", source, "Content-Type", "application/yaml"); a.status != 201 {
		t.Fatal(a.status, a.body)
	}
	b.exec.fails.Store(true)
	b.run("web/x")
	all := want[api.List[api.Alert]](t, b.do("GET", "/api/v1/alerts?namespace=web", ""), 200)
	if len(all.Items) != 1 {
		t.Fatalf("alerts %+v", all)
	}
	id := all.Items[0].ID
	told := must(b.db.Notices(t.Context(), uuid.MustParse(id)))
	if len(told) != 1 {
		t.Fatalf("notices %+v", told)
	}
	told[0].Tries, told[0].Error = 1, "Cannot POST /hooks/canary"
	if err := b.db.NoteNotice(t.Context(), told[0]); err != nil {
		t.Fatal(err)
	}
	for who, shown := range map[string]bool{"viewer": false, "operator": false, "narrow": false, "admin": true} {
		calls := [][2]string{{"GET", "/alerts/" + id}}
		if who == "operator" {
			calls = append(calls, [2]string{"POST", "/alerts/" + id + ":ack"})
		}
		for _, c := range calls {
			status, body := b.call(who, c[0], c[1], "", "Content-Type", "application/json")
			if status != 200 || strings.Contains(body, "canary") != shown || strings.Contains(body, "did not take") == shown {
				t.Errorf("%s %s as %s: %d %s", c[0], c[1], who, status, body)
			}
		}
	}
}
