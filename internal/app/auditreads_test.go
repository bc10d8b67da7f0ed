package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// TestAuditedReads: with audit_reads, the reads of logs, artifacts and values of a namespace have rows, one
// for each caller and object. Reads of other namespaces, refused reads, and reads without values have none.
func TestAuditedReads(t *testing.T) {
	t.Setenv("SKEIN_AUDIT_READS", "shop, finance")
	c := testConfig(t, nil)
	n, k, stop := startNode(t, c)
	bearer := ""
	call := func(method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, n.URL()+api.Prefix+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if n.asUser(req); bearer != "" {
			req.Header.Set("Authorization", bearer)
		}
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		return answered(t, req)
	}
	ids := map[string]string{}
	for _, ns := range []string{"shop", "web"} {
		source := "name: w\nnamespace: " + ns + "\nparams: {p: {type: string, default: x}}\ntasks:\n  a: {run: 'echo hello; echo file > f', artifacts: [f]}\n"
		if _, err := k.Apply(t.Context(), ns+"/w", api.ApplyRequest{Source: source}); err != nil {
			t.Fatal(err)
		}
		run, _, err := k.Start(t.Context(), api.RunRequest{Workflow: ns + "/w"})
		if err != nil {
			t.Fatal(err)
		}
		ids[ns] = end(t, k, run.ID).ID
	}
	call("POST", "/roles", `{"name":"blind","verbs":["workflow.read","run.read"]}`)
	tokens := map[string]string{}
	for name, role := range map[string]string{"ann": "viewer", "bob": "blind"} {
		if status, text := call("POST", "/users", `{"name":"`+name+`","roles":[{"role":"`+role+`"}]}`); status != 201 {
			t.Fatal(status, text)
		}
		status, text := call("POST", "/tokens", `{"kind":"api","name":"token of `+name+`","for":"`+name+`"}`)
		var made api.NewToken
		if err := json.Unmarshal([]byte(text), &made); err != nil {
			t.Fatal(status, text)
		}
		tokens[name] = "Bearer " + made.Secret
	}
	began := time.Now()
	for name, token := range tokens {
		bearer = token
		for _, ns := range []string{"shop", "web"} {
			of := "/runs/" + ids[ns]
			for _, path := range []string{of, of, of, of + "/tasks/a", of + "/tasks/a/logs", of + "/tasks/a/artifacts/f", of + "/tasks/a/artifacts/none", "/runs?ns=" + ns + "&include=params", "/runs?ns=" + ns} {
				status, text := call("GET", path, "")
				if want := map[bool]int{true: 200, false: 403}[name == "ann" || !strings.Contains(path, "/logs") && !strings.Contains(path, "/artifacts")]; status != want && !strings.HasSuffix(path, "none") {
					t.Errorf("%s GET %s: %d %s", name, path, status, text)
				}
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if err := stop(); err != nil { // the end of the node writes the rows
		t.Fatal(err)
	}
	db, err := dbadmin.OpenReadOnly(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.AuditList(t.Context(), store.AuditQuery{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	got, of := map[string]int64{}, "/runs/"+ids["shop"]
	for _, r := range rows {
		if r.Outcome != store.AuditRead || r.Principal == "local" { // the test itself waits for the runs
			continue
		}
		if got[r.Verb+" "+r.Object] += r.Count; r.Namespace != "shop" || r.Principal != "ann" || r.Kind != "user" || r.Address != "127.0.0.1" || r.At.Time().Before(began.Add(-time.Minute)) {
			t.Errorf("%+v", r)
		}
	}
	for what, count := range map[string]int64{"run.values " + of: 3, "run.values " + of + "/tasks/a": 1, "log.read " + of + "/tasks/a/logs": 1,
		"artifact.read " + of + "/tasks/a/artifacts/f": 1, "run.values /runs": 1} {
		if got[what] != count {
			t.Errorf("%s was counted %d times, want %d", what, got[what], count)
		}
		delete(got, what)
	}
	if len(got) > 0 {
		t.Errorf("further rows: %v", got)
	}
}
