package app

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/store"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestApprovalNeedsAToken checks that if an approval names a user, only that user can decide it. Neither a
// header nor the name of a token makes a caller that user.
func TestApprovalNeedsAToken(t *testing.T) {
	n, k, stop := startNode(t, testConfig(t, nil))
	run := begin(t, k, "  pay: {approval: {by: [cfo]}}\n  any: {approval: {message: Ship it?}}\n")
	call := func(path, body string, header ...string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.URL()+api.Prefix+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		n.asUser(req)
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		return answered(t, req)
	}
	bearer := map[string]string{}
	token := func(name, body string) {
		t.Helper()
		status, text := call("/tokens", body)
		var made api.NewToken
		if err := json.Unmarshal([]byte(text), &made); err != nil || status/100 != 2 {
			t.Fatalf("%d %s %v", status, text, err)
		}
		bearer[name] = "Bearer " + made.Secret
	}
	token("named", `{"kind":"api","name":"cfo"}`) // before there is such a user
	if status, text := call("/users", `{"name":"cfo","roles":[{"role":"operator"}]}`); status != http.StatusConflict {
		t.Errorf("a user with the name of a token: %d %s", status, text)
	}
	call("/tokens/1:revoke", "")
	for _, name := range []string{"cfo", "clerk"} {
		if status, text := call("/users", `{"name":"`+name+`","roles":[{"role":"operator"}]}`); status != http.StatusCreated {
			t.Fatalf("%d %s", status, text)
		}
		token(name, `{"kind":"api","name":"token of `+name+`","for":"`+name+`"}`)
	}
	token("named", `{"kind":"api","name":"CFO of all"}`)
	waits := func(task string) bool {
		got, err := k.Run(t.Context(), run, skein.WithTasks())
		if err != nil {
			t.Fatal(err)
		}
		for _, is := range got.Tasks {
			if is.Name == task {
				return is.State == "deferred"
			}
		}
		return false
	}
	for began := time.Now(); !waits("pay") || !waits("any"); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("the approvals are not waited for")
		}
	}
	// The question is part of the reason, so that a person need not read the file.
	why, err := k.Explain(t.Context(), run, "any")
	if err != nil || len(why.Reasons) != 1 || why.Reasons[0].What != "task any waits for a person to approve: Ship it?" || why.Reasons[0].Args["message"] != "Ship it?" {
		t.Errorf("the reason of an approval with a message: %+v %v", why, err)
	}
	for name, header := range map[string][]string{
		"nothing":             nil,
		"the header of old":   {"X-Skein-User", "cfo"},
		"a claim":             {api.HeaderClaimedBy, "cfo"},
		"another's token":     {"Authorization", bearer["clerk"]},
		"a token without one": {"Authorization", bearer["named"]},
		"that, and a claim":   {"Authorization", bearer["clerk"], api.HeaderClaimedBy, "cfo", "X-Skein-User", "cfo"},
		"a principal made up": {"X-Skein-Principal", "cfo"},
	} {
		if status, text := call("/runs/"+run+"/tasks/pay:approve", "{}", header...); status != http.StatusForbidden || !strings.Contains(text, api.ProblemNotAllowed) {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if status, text := call("/runs/"+run+"/tasks/pay:approve", "{}", "Authorization", bearer["cfo"]); status/100 != 2 {
		t.Errorf("the holder: %d %s", status, text)
	}
	if status, text := call("/runs/"+run+"/tasks/any:approve", "{}", api.HeaderClaimedBy, "ada"); status/100 != 2 || !strings.Contains(text, "local (ada)") {
		t.Errorf("an approval of anybody: %d %s", status, text)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// TestFourEyes: the starter of a run is also the person who fired its trigger by hand, who made its backfill,
// or who started the run that called it. explain says who may not decide, and the audit log names the refused
// attempt. A run that an event started has no starter.
func TestFourEyes(t *testing.T) {
	c := testConfig(t, nil)
	n, k, stop := startNode(t, c)
	bearer := map[string]string{}
	call := func(who, method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, n.URL()+api.Prefix+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if n.asUser(req); who != "" {
			req.Header.Set("Authorization", "Bearer "+bearer[who])
		}
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		return answered(t, req)
	}
	must := func(who, method, path, body string, into any) {
		t.Helper()
		status, text := call(who, method, path, body)
		if err := json.Unmarshal([]byte(text), into); err != nil || status/100 != 2 {
			t.Fatalf("%s %s: %d %s %v", method, path, status, text, err)
		}
	}
	for _, name := range []string{"ann", "bob"} {
		var made api.NewToken
		must("", "POST", "/users", `{"name":"`+name+`","roles":[{"role":"admin"}]}`, &api.User{})
		must("", "POST", "/tokens", `{"kind":"api","name":"token of `+name+`","for":"`+name+`"}`, &made)
		bearer[name] = made.Secret
	}
	for name, source := range map[string]string{
		"pay":  "name: pay\ntriggers: [{name: t, cron: '0 0 1 1 *'}, {name: e, event: {type: paid}}]\ntasks:\n  ok: {approval: {four_eyes: true, message: Pay?}}\n",
		"call": "name: call\ntasks:\n  ok: {workflow: pay}\n",
	} {
		if _, err := k.Apply(t.Context(), name, api.ApplyRequest{Source: source}); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	waits := func(origin string) string {
		t.Helper()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			var runs api.List[api.Run]
			must("", "GET", "/runs?workflow=pay&state=suspended", "", &runs)
			for _, run := range runs.Items {
				if !seen[run.ID] {
					if seen[run.ID] = true; run.Origin != origin {
						t.Errorf("the run has the origin %s, want %s", run.Origin, origin)
					}
					return run.ID
				}
			}
		}
		t.Fatalf("no run of the origin %s waits", origin)
		return ""
	}
	starts := map[string]func(){
		"api":    func() { must("ann", "POST", "/runs", `{"workflow":"pay"}`, &api.Run{}) },
		"manual": func() { must("ann", "POST", "/schedules/default/pay/t:trigger", `{}`, &json.RawMessage{}) },
		"backfill": func() {
			must("ann", "POST", "/backfills", `{"workflow":"pay","trigger":"t","from":"2024-12-31T00:00:00Z","to":"2025-01-02T00:00:00Z"}`, &api.Backfill{})
		},
		"parent": func() { must("ann", "POST", "/runs", `{"workflow":"call"}`, &api.Run{}) },
		"sensor": func() {
			must("ann", "POST", "/events", `{"specversion":"1.0","id":"1","source":"t","type":"paid"}`, &json.RawMessage{})
		},
	}
	for origin, start := range starts {
		start()
		id := waits(origin)
		status, text := call("ann", "POST", "/runs/"+id+"/tasks/ok:approve", `{}`)
		if origin == "sensor" {
			if status != 200 {
				t.Errorf("%s: %d %s", origin, status, text)
			}
			continue
		}
		if status != 403 || !strings.Contains(text, "ann started run "+id) {
			t.Errorf("%s: %d %s", origin, status, text)
		}
		var why, other api.Explanation
		must("ann", "GET", "/runs/"+id+"/tasks/ok/explain", "", &why)
		if r := why.Reasons[0]; r.What != "task ok waits for a person other than ann to approve: Pay?" || r.Args["refused"] == nil {
			t.Errorf("%s: explained to the starter: %+v", origin, r)
		}
		must("bob", "GET", "/runs/"+id+"/tasks/ok/explain", "", &other)
		if r := other.Reasons[0]; r.Args["refused"] != nil || r.Args["starter"] != "ann" {
			t.Errorf("%s: explained to another person: %+v", origin, r)
		}
		must("bob", "POST", "/runs/"+id+"/tasks/ok:approve", `{}`, &api.Task{})
	}
	http.DefaultClient.CloseIdleConnections()
	if err := stop(); err != nil { // the end of the node writes the rows of refused calls
		t.Fatal(err)
	}
	db, err := dbadmin.OpenReadOnly(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.AuditList(t.Context(), store.AuditQuery{Verb: "run.approve", Principal: "ann", Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	refused := map[string]bool{}
	for _, r := range rows {
		run, _, _ := strings.Cut(strings.TrimPrefix(r.Object, "/runs/"), "/")
		if r.Outcome == store.AuditRefused && r.Namespace == "default" && r.Detail == "four_eyes: ann started run "+run {
			refused[run] = true
		}
	}
	if len(refused) != len(starts)-1 {
		t.Errorf("the rows of refused attempts: %+v", rows)
	}
}

// answered sends a request, and returns the status and the body of the answer.
func answered(t *testing.T, req *http.Request) (status int, body string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
