package app

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	api "skein.dev/skein/sdk/api/v1"
)

// TestDefinitionOfATask: an attempt's command, environment, request and limits are shown with the values of
// the run. The value of a secret is shown nowhere. The caller needs the verbs about the file and the values.
func TestDefinitionOfATask(t *testing.T) {
	n, k, stop := startNode(t, testConfig(t, nil))
	defer stop()
	bearer := ""
	call := func(method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, n.URL()+api.Prefix+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if n.asUser(req); bearer != "" {
			req.Header.Set("Authorization", "Bearer "+bearer)
		}
		return answered(t, req)
	}
	const value = "hunter2-of-the-test"
	if status, text := call("PUT", "/secrets/default/DB", `{"value":"`+value+`"}`); status/100 != 2 {
		t.Fatal(status, text)
	}
	run := begin(t, k, `  count: {run: 'echo n=7 >> "$SKEIN_OUTPUT"', outputs: {n: int}}
  load:
    needs: count
    if: success()
    run: 'exit 3'
    env: {ROWS: "${{ tasks.count.outputs.n }}", DSN: "x-${{ secrets.DB }}", TRY: "${{ run.attempt }}"}
    timeout: 5m
    retry: {max: 1, delay: 1ms}
    outputs: {none: int}
  py: {run: [echo, "a b"], description: Says it}
  hook: {http: {url: "http://127.0.0.1:9/x", method: POST, headers: {Authorization: "Bearer ${{ secrets.DB }}"}, body: {n: 1}}}
  over: {http: {connection: shop, url: /health}}
  each: {foreach: [red, blue], run: 'true', env: {COLOUR: "${{ item }}"}}
  after: {needs: load, run: 'true', if: "always()", env: {X: "${{ tasks.load.outputs.none }}"}}
  say: {approval: {message: Well?}, needs: load}
`)
	end(t, k, run)
	show := func(path string) api.TaskDefinition {
		t.Helper()
		status, text := call("GET", "/runs/"+run+"/tasks/"+path, "")
		if status != http.StatusOK {
			t.Fatal(path, status, text)
		}
		if strings.Contains(text, value) {
			t.Errorf("%s has the value of the secret: %s", path, text)
		}
		var d api.TaskDefinition
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	env := func(d api.TaskDefinition) (all []string) {
		for _, e := range d.Env {
			all = append(all, e.Name+"="+e.Value)
		}
		return all
	}
	load := show("load/definition")
	if load.Kind != "shell" || !slices.Equal(load.Command, []string{"sh", "-c", "exit 3"}) || !slices.Equal(load.Needs, []string{"count"}) ||
		load.If == nil || *load.If != "success()" || load.Retries != 1 || load.Timeout == nil || *load.Timeout != "5m" || load.Fault != nil {
		t.Errorf("%+v", load)
	}
	if got := env(load); !slices.Equal(got, []string{"ROWS=7", "DSN=x-•••", "TRY=2"}) || !slices.Equal(load.Secrets, []string{"DB"}) {
		t.Errorf("%q, secrets %q", got, load.Secrets)
	}
	if first := env(show("load/definition?attempt=1")); first[2] != "TRY=1" {
		t.Errorf("of the first attempt: %q", first)
	}
	if py := show("py/definition"); py.Kind != "argv" || !slices.Equal(py.Command, []string{"echo", "a b"}) || *py.Description != "Says it" {
		t.Errorf("%+v", py)
	}
	hook := show("hook/definition")
	if r := hook.Request; r == nil || r.Method != "POST" || r.URL != "http://127.0.0.1:9/x" || r.Headers[0].Value != "Bearer •••" || *r.Body != `{"n":1}` {
		t.Errorf("%+v", hook.Request)
	}
	if over := show("over/definition").Request; over == nil || over.Connection == nil || *over.Connection != "shop" || over.URL != "/health" {
		t.Errorf("%+v", over)
	}
	if each := show("each/definition"); each.Kind != "foreach" || len(each.Env) != 0 {
		t.Errorf("%+v", each)
	}
	if one := show("each.1/definition"); one.Kind != "shell" || env(one)[0] != "COLOUR=blue" {
		t.Errorf("%+v", one)
	}
	if after := show("after/definition"); after.Fault == nil || !strings.Contains(*after.Fault, "gave no output") || len(after.Env) != 0 {
		t.Errorf("%+v", after)
	}
	if say := show("say/definition"); say.Kind != "approval" || say.Attempt != 0 {
		t.Errorf("%+v", say)
	}
	for path, status := range map[string]int{"load/definition?attempt=9": 404, "none/definition": 404, "load/definition?attempt=0": 422} {
		if got, text := call("GET", "/runs/"+run+"/tasks/"+path, ""); got != status {
			t.Errorf("%s: %d %s, want %d", path, got, text, status)
		}
	}
	if status, text := call("POST", "/roles", `{"name":"reader-of-files","verbs":["workflow.read","workflow.source","run.read"]}`); status/100 != 2 {
		t.Fatal(status, text)
	}
	for role, want := range map[string]string{"viewer": "workflow.source", "operator": "workflow.source", "reader-of-files": "run.values", "editor": ""} {
		bearer = ""
		if status, text := call("POST", "/users", `{"name":"u-`+role+`","roles":[{"role":"`+role+`"}]}`); status/100 != 2 {
			t.Fatal(status, text)
		}
		_, text := call("POST", "/tokens", `{"kind":"api","name":"t-`+role+`","for":"u-`+role+`"}`)
		var made api.NewToken
		if err := json.Unmarshal([]byte(text), &made); err != nil {
			t.Fatal(err, text)
		}
		bearer = made.Secret
		status, text := call("GET", "/runs/"+run+"/tasks/load/definition", "")
		if want == "" && status != 200 || want != "" && (status != 403 || !strings.Contains(text, want)) {
			t.Errorf("%s: %d %s", role, status, text)
		}
	}
}
