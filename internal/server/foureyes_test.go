package server_test

import (
	"strings"
	"testing"

	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// TestFourEyes: an approval with four_eyes is decided neither by the starter of the run nor by a caller that
// has a token of the starter, or made one for the starter. No other verb leads around the approval.
func TestFourEyes(t *testing.T) {
	b := newRightsBed(t)
	for name, ask := range map[string]string{"pay": "run: 'true'", "late": "wait: 1h"} {
		if a := b.do("PUT", "/api/v1/workflows/web/"+name, "name: "+name+"\nnamespace: web\ntasks:\n  ask: {"+ask+"}\n"+
			"  ok: {needs: ask, approval: {four_eyes: true}}\n  pay: {needs: ok, run: 'true'}\n  more: {run: 'true'}\n", "Content-Type", "application/yaml"); a.status != 201 {
			t.Fatal(a)
		}
	}
	principals := map[string]int64{"api": store.FirstService}
	for _, name := range []string{"ann", "bob", "cy", "bot"} {
		principals[name] = b.principal(name, store.PrincipalActive, store.Binding{Role: "admin", Namespace: "web"})
	}
	token := func(name, of, maker string, parent int64) {
		b.token(store.Token{Name: name, Principal: principals[of], Maker: principals[maker], Parent: parent, Verbs: "*", Namespaces: "*"})
	}
	token("ann", "ann", "", 0)
	token("bob", "bob", "", 0)
	token("bob by cy", "bob", "cy", 0)
	token("bob by ann", "bob", "ann", 0)
	token("bob below ann", "bob", "bob", 1)
	token("bot", "bot", "cy", 0)
	token("cy", "cy", "ann", 0)
	token("one", "api", "", 0)
	token("two", "api", "", 0)

	waits := func(who string) string {
		t.Helper()
		var run api.Run
		if who == "local" {
			run = want[api.Run](t, b.post("/api/v1/runs", `{"workflow":"web/pay"}`), 202)
		} else {
			status, text := b.call(who, "POST", "/runs", `{"workflow":"web/pay"}`)
			run = want[api.Run](t, answer{status: status, body: text}, 202)
		}
		eventually(t, "the approval", func() bool {
			return want[api.Task](t, b.get("/api/v1/runs/"+run.ID+"/tasks/ok"), 200).State == "deferred"
		})
		return "/runs/" + run.ID + "/tasks/"
	}
	refuses := func(who, path, body, about string) {
		t.Helper()
		status, text := b.call(who, "POST", path, body)
		if status != 403 || !strings.Contains(text, `"code":"four_eyes"`) || !strings.Contains(text, `"about":"`+about+`"`) {
			t.Errorf("%s %s %s: %d %s", who, path, body, status, text)
		}
	}
	run := waits("ann")
	for _, c := range [][3]string{
		{"ok:approve", `{}`}, {"ok:approve", `{"reject":true}`}, {"ok:mark", `{"state":"succeeded","reason":"r"}`}, {"ok:skip", `{}`},
		{"pay:retry", `{}`},
	} {
		refuses("ann", run+c[0], c[1], "four_eyes")
	}
	refuses("ann", "/runs", `{"workflow":"web/pay","from":"pay"}`, "four_eyes_from")
	refuses("bob", "/runs", `{"workflow":"web/pay","from":"more"}`, "four_eyes_from") // ok and pay would be skipped
	refuses("bob", strings.TrimSuffix(run, "/tasks/")+":rerun", `{"from":"pay"}`, "four_eyes_from")
	refuses("bob by ann", run+"ok:approve", `{}`, "four_eyes_token")
	refuses("bob below ann", run+"ok:approve", `{}`, "four_eyes_token")
	refuses("cy", run+"ok:approve", `{}`, "four_eyes_token")
	if a := wantProblem(t, b.post("/api/v1"+run+"ok:approve", `{}`), 403, api.ProblemFourEyes); a.About != "four_eyes_unproven" {
		t.Errorf("%+v", a)
	}
	if status, text := b.call("bob", "POST", run+"ok:approve", `{}`); status != 200 {
		t.Errorf("another person: %d %s", status, text)
	}

	// An approval that an operator has led around is not given.
	status, text := b.call("ann", "POST", "/runs", `{"workflow":"web/late"}`)
	run = "/runs/" + want[api.Run](t, answer{status: status, body: text}, 202).ID + "/tasks/"
	eventually(t, "the skip", func() bool { status, _ = b.call("ann", "POST", run+"ask:skip", `{}`); return status/100 == 2 })
	eventually(t, "the end", func() bool { return want[api.Task](t, b.get("/api/v1"+run+"pay"), 200).State == "skipped" })
	refuses("ann", run+"pay:retry", `{}`, "four_eyes")
	if status, text = b.call("bob", "POST", run+"pay:retry", `{}`); status/100 != 2 {
		t.Errorf("another person: %d %s", status, text)
	}

	run = waits("bot") // with a token that cy has made
	refuses("cy", run+"ok:approve", `{}`, "four_eyes_maker")
	if status, text := b.call("ann", "POST", run+"ok:approve", `{"reject":true}`); status != 200 {
		t.Errorf("another person: %d %s", status, text)
	}
	run = waits("one")
	refuses("two", run+"ok:approve", `{}`, "four_eyes") // the names of tokens prove nothing
	run = waits("local")
	refuses("bob", run+"ok:approve", `{}`, "four_eyes_token") // the operator has made it
	if status, text := b.call("bob by cy", "POST", run+"ok:approve", `{}`); status != 200 {
		t.Errorf("another person: %d %s", status, text)
	}
}

// TestFourEyesLedAround: a mark of another task does not make a task run whose approval was not given. A skip
// that makes no such task run is not refused.
func TestFourEyesLedAround(t *testing.T) {
	b := newRightsBed(t)
	if a := b.do("PUT", "/api/v1/workflows/web/pay", "name: pay\nnamespace: web\ntasks:\n  check: {run: 'true'}\n  ask: {wait: 1h}\n"+
		"  ok: {needs: ask, approval: {four_eyes: true}}\n  build: {needs: ok, run: 'true'}\n  pay: {needs: [build, check], run: 'true'}\n"+
		"  tell: {needs: build, run: 'true'}\n  say: {needs: tell, run: 'true'}\n", "Content-Type", "application/yaml"); a.status != 201 {
		t.Fatal(a)
	}
	for _, name := range []string{"ann", "bob"} {
		id := b.principal(name, store.PrincipalActive, store.Binding{Role: "admin", Namespace: "web"})
		b.token(store.Token{Name: name, Principal: id, Verbs: "*", Namespaces: "*"})
	}
	status, text := b.call("ann", "POST", "/runs", `{"workflow":"web/pay"}`)
	run := "/runs/" + want[api.Run](t, answer{status: status, body: text}, 202).ID + "/tasks/"
	state := func(task string) string { return want[api.Task](t, b.get("/api/v1"+run+task), 200).State }
	eventually(t, "the wait", func() bool { return state("ask") == "deferred" && state("check") == "succeeded" })
	refused := func(verb, body string) {
		t.Helper()
		if status, text := b.call("ann", "POST", run+verb, body); status != 403 || !strings.Contains(text, `"about":"four_eyes"`) {
			t.Errorf("%s: %d %s", verb, status, text)
		}
	}
	const succeeded = `{"state":"succeeded","reason":"r"}`
	refused("build:mark", succeeded) // pay needs build and check
	refused("build:skip", `{}`)
	refused("ask:skip", `{}`) // it skips ok and build, and pay needs check, too
	refused("tell:mark", succeeded)
	for _, c := range [][3]string{{"ann", "tell:skip", `{}`}, {"ann", "build:mark", `{"state":"failed","reason":"r"}`}, {"bob", "build:mark", succeeded}} {
		if status, text := b.call(c[0], "POST", run+c[1], c[2]); status/100 != 2 {
			t.Errorf("%v: %d %s", c, status, text)
		}
	}
	eventually(t, "pay", func() bool { return state("pay") == "succeeded" })
}
