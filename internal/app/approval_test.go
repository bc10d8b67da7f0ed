package app

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

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
