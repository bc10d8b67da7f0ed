package server_test

import (
	"strings"
	"testing"

	"skein.dev/skein/internal/store"
)

// TestReach applies workflows that use a workflow of another namespace. The key offers of the used workflow
// decides; without that key, the rights of the author decide.
func TestReach(t *testing.T) {
	b := newRightsBed(t)
	in := func(role, ns string) store.Binding { return store.Binding{Role: role, Namespace: ns} }
	b.token(store.Token{Name: "cluster", Principal: store.FirstService, Verbs: "*", Namespaces: "*"})
	b.token(store.Token{Name: "web", Principal: b.principal("web", store.PrincipalActive, in("editor", "web")), Verbs: "*", Namespaces: "*"})
	b.token(store.Token{Name: "both", Principal: b.principal("both", store.PrincipalActive, in("editor", "web"), in("viewer", "shop")), Verbs: "*", Namespaces: "*"})
	for name, offers := range map[string]string{"plain": "", "web": "offers: [web, ops]\n", "all": "offers: [\"*\"]\n", "none": "offers: []\n", "ops": "offers: [ops]\n"} {
		if status, body := b.call("cluster", "PUT", "/workflows/shop/"+name, "name: "+name+"\nnamespace: shop\n"+offers+"tasks: {a: {run: 'true'}}\n"); status != 201 {
			t.Fatal(status, body)
		}
	}
	status, body := b.call("cluster", "PUT", "/workflows/shop/gone", "name: gone\nnamespace: shop\noffers: [web]\ntasks: {a: {run: 'true'}}\n")
	if status != 201 || strings.Contains(body, "offers: []") {
		t.Error(status, body)
	}
	if status, body = b.call("cluster", "PUT", "/workflows/shop/gone", "name: gone\nnamespace: shop\ntasks: {a: {run: 'true'}}\n"); status != 200 || !strings.Contains(body, "to refuse them, write offers: []") {
		t.Error(status, body)
	}
	uses := map[string]string{
		"call": "tasks: {a: {workflow: shop/NAME}}\n", "wait": "tasks: {a: {dependent: {workflow: shop/NAME}}}\n",
		"hear": "triggers: [{name: after, run_of: {workflow: shop/NAME}}]\ntasks: {a: {run: 'true'}}\n",
	}
	for _, c := range []struct {
		who, of string
		status  int
		says    string
	}{
		{"web", "web", 201, ""},
		{"web", "all", 201, ""},
		{"web", "plain", 404, "there is no workflow shop/plain"}, // as if it were not there
		{"web", "none", 404, "there is no workflow shop/none"},
		{"web", "ops", 404, "there is no workflow shop/ops"},
		{"web", "missing", 404, "there is no workflow shop/missing"},
		{"both", "web", 201, ""},
		{"cluster", "plain", 201, ""},
		{"cluster", "none", 403, "add web to the key offers"},
		{"cluster", "ops", 403, "add web to the key offers"},
	} {
		for use, file := range uses {
			name := use + "-" + c.who + "-" + c.of
			status, body := b.call(c.who, "PUT", "/workflows/web/"+name, "name: "+name+"\nnamespace: web\n"+strings.ReplaceAll(file, "NAME", c.of))
			if status != c.status || !strings.Contains(body, c.says) {
				t.Errorf("%s: %d %s; want %d %q", name, status, body, c.status, c.says)
			}
		}
	}
}
