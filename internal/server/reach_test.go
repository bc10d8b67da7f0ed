package server_test

import (
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
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
		{"web", "plain", 404, "there is no workflow shop/plain"}, // the same answer as for a missing workflow
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

// TestOffersAtEachEnd: a trigger of another namespace reacts to the end of a run only if the present version
// of the ended run's workflow offers itself to that namespace.
func TestOffersAtEachEnd(t *testing.T) {
	b := newBed(t, true)
	put := func(ns, name, text string) {
		t.Helper()
		a := b.do("PUT", "/api/v1/workflows/"+ns+"/"+name, "name: "+name+"\nnamespace: "+ns+"\n"+text+"tasks: {a: {run: 'true'}}\n", "Content-Type", "application/yaml")
		if a.status/100 != 2 {
			t.Fatal(a.status, a.body)
		}
	}
	put("shop", "w", "offers: [web]\n")
	put("shop", "own", "triggers: [{name: after, run_of: {workflow: w}}]\n")
	put("web", "far", "triggers: [{name: after, run_of: {workflow: shop/w}}]\n")
	outcomes := func(of string) (all []string) {
		for _, f := range want[api.List[api.Fire]](t, b.get("/api/v1/schedules/"+of+"/after/fires"), 200).Items {
			all = append(all, f.Outcome)
			if f.Outcome == store.OutcomeSkipped && (f.Reason == nil || *f.Reason != "offers: workflow shop/w is not offered to namespace web: add web to the key offers in its file, and apply it") {
				t.Errorf("%+v", f)
			}
		}
		slices.Reverse(all)
		return all
	}
	const fired, skipped = store.OutcomeFired, store.OutcomeSkipped
	for i, c := range []struct{ offers, far string }{{"", fired}, {"offers: []\n", skipped}, {"offers: [ops]\n", skipped}, {"offers: ['*']\n", fired}} {
		if i > 0 {
			put("shop", "w", c.offers)
		}
		b.run("shop/w")
		for of, outcome := range map[string]string{"shop/own": fired, "web/far": c.far} {
			if all := outcomes(of); len(all) != i+1 || all[i] != outcome {
				t.Errorf("%s after %q: %q", of, c.offers, all)
			}
		}
	}
}
