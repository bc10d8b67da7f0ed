package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestExplainOfOthers: a run of another namespace that holds a lock or a queue slot is named only to callers
// that may read it.
func TestExplainOfOthers(t *testing.T) {
	n, k, _ := startNode(t, testConfig(t, nil))
	if _, err := k.SetQueue(t.Context(), "gpu", api.QueueRequest{Limit: 1}); err != nil {
		t.Fatal(err)
	}
	started := func(name, text string) string {
		t.Helper()
		ns, short, _ := strings.Cut(name, "/")
		if _, err := k.Apply(t.Context(), name, api.ApplyRequest{Source: "name: " + short + "\nnamespace: " + ns + "\n" + text}); err != nil {
			t.Fatal(err)
		}
		run, _, err := k.Start(t.Context(), api.RunRequest{Workflow: name})
		if err != nil {
			t.Fatal(err)
		}
		return run.ID
	}
	post := func(path, body string, into any) {
		t.Helper()
		resp, err := k.Call(t.Context(), http.MethodPost, path, json.RawMessage(body), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	waits := func(run, state string) {
		t.Helper()
		eventually(t, "task a of run "+run+" is "+state, func() bool {
			task, err := k.Task(t.Context(), run, "a")
			return err == nil && task.State == state
		})
	}
	const holds = "tasks: {a: {approval: {}}}\n"
	const tasks = "tasks: {a: {run: 'sleep 30', queue: gpu}}\n"
	lock, slots := started("shop/lock", "locks: [global/l]\n"+holds), started("shop/tasks", tasks)
	waits(slots, "running")
	behind := map[string]string{"lock": started("web/lock", "locks: [global/l]\n"+holds), "tasks": started("web/tasks", tasks)}
	waits(behind["tasks"], "ready")

	secret := map[string]string{}
	for who, roles := range map[string]string{"web": `{"role":"viewer","namespace":"web"}`, "all": `{"role":"viewer","namespace":"web"},{"role":"viewer","namespace":"shop"}`} {
		post("/users", `{"name":"`+who+`","roles":[`+roles+`]}`, &struct{}{})
		var made api.NewToken
		post("/tokens", `{"kind":"api","name":"token of `+who+`","for":"`+who+`"}`, &made)
		secret[who] = made.Secret
	}
	for kind, holder := range map[string]string{"lock": lock, "tasks": slots} {
		for who, bearer := range secret {
			as, err := skein.New(n.URL(), skein.WithToken(bearer))
			if err != nil {
				t.Fatal(err)
			}
			x, err := as.Explain(t.Context(), behind[kind], "")
			as.Close()
			if err != nil || len(x.Reasons) == 0 || x.Reasons[0].Holder == nil {
				t.Fatalf("%s, %s: %+v, %v", who, kind, x, err)
			}
			all, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			want := "run " + holder
			if who == "web" {
				want = "a run of another namespace"
			}
			if got := *x.Reasons[0].Holder; !strings.HasPrefix(got, want) || who == "web" && strings.Contains(string(all), holder) {
				t.Errorf("%s, %s: %s", who, kind, all)
			}
		}
	}
}
