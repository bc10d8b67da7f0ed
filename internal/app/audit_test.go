package app

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres/pgtest"
	api "skein.dev/skein/sdk/api/v1"
)

// auditedElsewhere lists the routes that a single node cannot carry out, with the check of the store
// contract that shows their rows, or with another test.
var auditedElsewhere = map[string]string{
	"POST /nodes/{name}:cordon":        "needs a cluster: orders to nodes and moves of shards are audited",
	"POST /nodes/{name}:drain":         "needs a cluster: orders to nodes and moves of shards are audited",
	"POST /nodes/{name}:uncordon":      "needs a cluster: orders to nodes and moves of shards are audited",
	"POST /shards/{id}:move":           "needs a cluster: orders to nodes and moves of shards are audited",
	"POST /workflows/{ns}/{name}:move": "needs a cluster: orders to nodes and moves of shards are audited",
	"POST /admin/scheduler:stop":       "needs a cluster: orders to nodes and moves of shards are audited",
	"POST /admin/scheduler:start":      "needs a cluster: orders to nodes and moves of shards are audited",
	"GET /auth/{name}/callback":        "needs a provider: TestOIDC",
	"POST /auth/{name}/logout":         "needs a provider: TestOIDC",
	"DELETE /session":                  "needs a session: TestAuditedSignIns",
	"POST /session":                    "needs a password: TestAuditedSignIns",
	"DELETE /sessions/{id}":            "needs a session: TestAuditedSignIns",
}

const auditedFlow = "name: w\nalerts: [{on: stopped, to: ops}]\nparams: {p: {type: string, default: x}}\ntriggers: [{name: t, cron: '0 0 1 1 *'}, {name: e, event: {type: paid}}, {name: h, webhook: {}}]\ntasks:\n  gate: {approval: {}}\n" +
	"  slow: {run: sleep 60}\n  last: {needs: slow, run: 'true'}\n  more: {needs: slow, run: 'true'}\n"

// auditBed is a node with its own calls.
type auditBed struct {
	*testing.T
	n *Node
}

func (b *auditBed) call(method, path, body string) (int, string) {
	b.Helper()
	r := httptest.NewRequest(method, "http://localhost/api/v1"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	} else {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	w := httptest.NewRecorder()
	b.n.Handler().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func (b *auditBed) must(method, path, body string) string {
	b.Helper()
	code, text := b.call(method, path, body)
	if code >= 300 {
		b.Fatalf("%s %s: %d %s", method, path, code, text)
	}
	return text
}

func (b *auditBed) rows() []store.Audit {
	b.Helper()
	rows, err := b.n.store.AuditList(b.Context(), store.AuditQuery{Limit: 1000})
	if err != nil {
		b.Fatal(err)
	}
	return rows
}

// run starts a run and waits until its task slow runs.
func (b *auditBed) run() string {
	b.Helper()
	var run api.Run
	if err := json.Unmarshal([]byte(b.must("POST", "/runs", `{"workflow":"w"}`)), &run); err != nil {
		b.Fatal(err)
	}
	for end := time.Now().Add(patience); !strings.Contains(b.must("GET", "/runs/"+run.ID+"/tasks/slow", ""), `"running"`); {
		if time.Now().After(end) {
			b.Fatal("the task does not run")
		}
		time.Sleep(5 * time.Millisecond)
	}
	return run.ID
}

// TestAuditedRoutes calls every route that changes something, and finds a row of each call. A route that
// is neither called here, nor in auditedElsewhere, nor in the list of exceptions of the server, fails the
// test.
func TestAuditedRoutes(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) { auditedRoutes(t, nil) })
	t.Run("PostgreSQL", func(t *testing.T) {
		pg, err := pgtest.Start(pgtest.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = pg.Close() }()
		auditedRoutes(t, map[string]string{"db": pg.URL("postgres"), "name": "n1"})
	})
}

// secretKey makes a file with a key for the secrets of a cluster.
func secretKey(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "secret.key")
	if err := os.WriteFile(path, []byte(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// auditedOrphans makes an orphan, finds it in the list, and calls the routes about it.
func auditedOrphans(b *auditBed, check func(route, path, body string) string) {
	b.Helper()
	check("PUT /workflows/{ns}/{name}", "/workflows/default/o", `{"source":"name: o\ntasks: {a: {run: 'echo job-1 > \"$SKEIN_HANDLE\"; exit 1', release: exit 1, release_timeout: 1ms}}\n"}`)
	b.must("POST", "/runs", `{"workflow":"o"}`)
	listed := func() (all api.List[api.Orphan]) {
		if err := json.Unmarshal([]byte(b.must("GET", "/orphans?namespace=default", "")), &all); err != nil {
			b.Fatal(err)
		}
		return all
	}
	until := func(want int) (all api.List[api.Orphan]) {
		for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
			if all = listed(); len(all.Items) == want {
				return all
			}
			if time.Now().After(end) {
				b.Fatalf("%d orphans are listed, want %d", len(all.Items), want)
			}
		}
	}
	o := until(1).Items[0]
	if o.Workflow != "o" || o.Task != "a" || o.Attempt != 1 || o.Handle != "job-1" || o.Why == "" {
		b.Errorf("orphan %+v", o)
	}
	if other := b.must("GET", "/orphans?namespace=shop", ""); strings.Contains(other, "job-1") {
		b.Errorf("another namespace lists %s", other)
	}
	at := "/runs/" + o.Run + "/tasks/a"
	check("POST /runs/{id}/tasks/{task}:release", at+":release", "")
	check("POST /runs/{id}/tasks/{task}:dismiss", at+":dismiss", `{"attempt":1,"reason":"it has ended"}`)
	until(0)
	if code, text := b.call("POST", at+":dismiss", ""); code != http.StatusConflict {
		b.Errorf("a second dismiss: %d %s", code, text)
	}
}

// auditedOwn calls the routes of queues and classes of a namespace.
func auditedOwn(check func(route, path, body string) string) {
	check("PUT /queues/{ns}/{name}", "/queues/default/q", `{"limit":1}`)
	for _, verb := range []string{"pause", "drain", "resume"} {
		check("POST /queues/{ns}/{name}:"+verb, "/queues/default/q:"+verb, "")
	}
	check("DELETE /queues/{ns}/{name}", "/queues/default/q", "")
	check("PUT /classes/{ns}/{name}", "/classes/default/big", `{"cpu":1}`)
	check("DELETE /classes/{ns}/{name}", "/classes/default/big", "")
}

// auditedOutside calls the routes about other systems.
func auditedOutside(b *auditBed, check func(route, path, body string) string) {
	check("PUT /connections/{ns}/{name}", "/connections/default/crm", `{"config":{"http":{"url":"http://127.0.0.1:9"}}}`)
	check("POST /connections/{ns}/{name}:test", "/connections/default/crm:test", "")
	check("DELETE /connections/{ns}/{name}", "/connections/default/crm", "")
	check("PUT /git-sources/{ns}/{name}", "/git-sources/default/flows", `{"url":"file:///nowhere.git"}`)
	check("POST /git-sources/{ns}/{name}:plan", "/git-sources/default/flows:plan", "")
	const other = "file:///elsewhere.git"
	check("POST /git-sources/{ns}/{name}:plan", "/git-sources/default/flows:plan", `{"url":"`+other+`"}`)
	if is := b.rows()[0].Detail; is != other { // the secrets of the source go to this address
		b.Errorf("the row of a plan with values names the address %q, want %q", is, other)
	}
	check("POST /git-sources/{ns}/{name}:sync", "/git-sources/default/flows:sync", "")
	check("DELETE /git-sources/{ns}/{name}", "/git-sources/default/flows", "")
}

func auditedRoutes(t *testing.T, flags map[string]string) {
	if len(flags) > 0 {
		flags["secret-key-file"] = secretKey(t)
	}
	n, _, stop := startNode(t, testConfig(t, flags))
	defer stop()
	b := &auditBed{t, n}
	source, err := json.Marshal(api.ApplyRequest{Source: auditedFlow})
	second, err2 := json.Marshal(api.ApplyRequest{Source: strings.Replace(auditedFlow, "sleep 60", "sleep 61", 1)})
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	called := map[string]bool{} // check makes a call and compares its row with the expected row
	check := func(route, path, body string) string {
		t.Helper()
		method, pattern, _ := strings.Cut(route, " ")
		row := access.RowOf(method, api.Prefix+pattern)
		called[route] = true
		before := len(b.rows())
		text := b.must(method, path, body)
		rows := b.rows()
		if len(rows) == before {
			t.Errorf("%s writes no audit row", route)
			return text
		}
		if r := rows[0]; r.Verb != row.Verb.String() || r.Action == "" || r.Principal != "local" || !strings.HasPrefix(r.Object, strings.SplitN(path, "?", 2)[0]) || r.Outcome != store.AuditDone {
			t.Errorf("%s: row %+v", route, r)
		} else if strings.Contains(pattern, "{ns}") && r.Namespace != "default" || strings.Contains(pattern, "/runs/{id}") && r.Namespace != "default" {
			t.Errorf("%s: namespace %q", route, r.Namespace)
		}
		return text
	}
	check("PUT /workflows/{ns}/{name}", "/workflows/default/w", string(source))
	check("PUT /workflows/{ns}/{name}", "/workflows/default/w", string(second))
	check("POST /workflows/{ns}/{name}:rollback", "/workflows/default/w:rollback", `{"version":1}`)
	check("POST /workflows/{ns}/{name}:pause", "/workflows/default/w:pause", "")
	check("POST /workflows/{ns}/{name}:resume", "/workflows/default/w:resume", "")
	one := b.run()
	const ofRun = "POST /runs/{id}"
	check(ofRun+":pause", "/runs/"+one+":pause", "")
	check(ofRun+":resume", "/runs/"+one+":resume", "")
	check(ofRun+"/tasks/{task}:approve", "/runs/"+one+"/tasks/gate:approve", `{}`)
	check(ofRun+"/tasks/{task}:skip", "/runs/"+one+"/tasks/more:skip", "")
	check(ofRun+"/tasks/{task}:mark", "/runs/"+one+"/tasks/last:mark", `{"state":"succeeded","reason":"r"}`)
	check(ofRun+"/tasks/{task}:stop", "/runs/"+one+"/tasks/slow:stop", "")
	two := b.run()
	check(ofRun+":stop", "/runs/"+two+":stop", "")
	ended := func(run string) {
		t.Helper()
		for end := time.Now().Add(patience); !strings.Contains(b.must("GET", "/runs/"+run, ""), `"state":"stopped"`); {
			if time.Now().After(end) {
				t.Fatal("the run does not end")
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	ended(two)
	var open api.List[api.Alert]
	if err := json.Unmarshal([]byte(b.must("GET", "/alerts?workflow=w", "")), &open); err != nil || len(open.Items) != 1 || open.Items[0].Event != "stopped" {
		t.Fatalf("alerts %+v, %v", open, err)
	}
	check("POST /alerts/{id}:ack", "/alerts/"+open.Items[0].ID+":ack", `{"reason":"r"}`)
	check("POST /alerts/{id}:resolve", "/alerts/"+open.Items[0].ID+":resolve", "")
	check(ofRun+":recover", "/runs/"+two+":recover", "")
	check(ofRun+":kill", "/runs/"+two+":kill", "")
	ended(two)
	check(ofRun+"/tasks/{task}:retry", "/runs/"+two+"/tasks/slow:retry", "")
	for _, c := range [][2]string{{"t:pause", ""}, {"t:resume", ""}, {"t:trigger", ""}, {"e:seek", `{"to":"now"}`}} {
		check("POST /schedules/{ns}/{workflow}/{trigger}"+c[0][1:], "/schedules/default/w/"+c[0], c[1])
	}
	var fill api.Backfill
	if err := json.Unmarshal([]byte(check("POST /backfills", "/backfills", `{"workflow":"w","from":"2020-01-01T00:00:00Z","to":"2023-01-02T00:00:00Z"}`)), &fill); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"pause", "resume", "cancel"} {
		check("POST /backfills/{id}:"+verb, fmt.Sprintf("/backfills/%v:%s", fill.ID, verb), "")
	}
	check("PUT /queues/{name}", "/queues/q", `{"limit":1}`)
	for _, verb := range []string{"pause", "drain", "resume"} {
		check("POST /queues/{name}:"+verb, "/queues/q:"+verb, "")
	}
	check("DELETE /queues/{name}", "/queues/q", "")
	auditedOwn(check)
	check("PUT /secrets/{ns}/{name}", "/secrets/default/S", `{"value":"canary-1234"}`)
	if len(flags) == 0 {
		check("POST /keys:rotate", "/keys:rotate", "{}")
	} else {
		called["POST /keys:rotate"] = true // people add the next key to the files of a cluster
		for _, verb := range []string{"cordon", "uncordon"} {
			check("POST /nodes/{name}:"+verb, "/nodes/n1:"+verb, "")
		}
		for _, verb := range []string{"stop", "start"} {
			check("POST /admin/scheduler:"+verb, "/admin/scheduler:"+verb, "")
		}
	}
	check("POST /schedules/{ns}/{workflow}/{trigger}:secret", "/schedules/default/w/h:secret", "")
	check("DELETE /secrets/{ns}/{name}", "/secrets/default/S", "")
	auditedOutside(b, check)
	auditedOrphans(b, check)
	check("POST /silences/{ns}", "/silences/default", `{"seconds":60,"reason":"r"}`)
	var quiet api.List[api.Silence]
	if err := json.Unmarshal([]byte(b.must("GET", "/silences", "")), &quiet); err != nil || len(quiet.Items) != 1 {
		t.Fatalf("silences %+v, %v", quiet, err)
	}
	check("POST /silences/{ns}/{id}:end", "/silences/default/"+quiet.Items[0].ID+":end", "")
	check("PUT /cluster-alerts", "/cluster-alerts", `{"rules":[{"on":["node_lost"],"to":["ops"]}]}`)
	check("PUT /channels/{ns}/{name}", "/channels/default/ops", `{"config":{"log":{}}}`)
	check("POST /channels/{ns}/{name}:test", "/channels/default/ops:test", "")
	check("DELETE /channels/{ns}/{name}", "/channels/default/ops", "")
	check("POST /tokens", "/tokens", `{"kind":"invite","name":"w1"}`)
	check("POST /authority:rotate", "/authority:rotate", "")
	check("PUT /namespaces/{ns}", "/namespaces/default", `{"quotas":{"runs":1000}}`)
	check("PUT /classes/{name}", "/classes/big", `{"cpu":1}`)
	check("DELETE /classes/{name}", "/classes/big", "")
	check("POST /users", "/users", `{"name":"ada","kind":"user","password":"canary correct horse 77"}`)
	check("POST /users/{name}:password", "/users/ada:password", `{"password":"canary battery staple 78"}`)
	check("POST /users/{name}:disable", "/users/ada:disable", "")
	check("POST /users/{name}:enable", "/users/ada:enable", "")
	check("POST /roles", "/roles", `{"name":"looks","verbs":["run.read"]}`)
	check("POST /bindings", "/bindings", `{"user":"ada","role":"looks","namespace":"default"}`)
	check("DELETE /bindings/{user}/{role}/{ns}", "/bindings/ada/looks/default", "")
	check("DELETE /roles/{name}", "/roles/looks", "")
	check("DELETE /users/{name}", "/users/ada", "")
	var token api.NewToken
	if err := json.Unmarshal([]byte(check("POST /tokens", "/tokens", `{"kind":"api","name":"ci"}`)), &token); err != nil {
		t.Fatal(err)
	}
	code := map[string]string{}
	if err := json.Unmarshal([]byte(check("POST /session:code", "/session:code", "")), &code); err == nil && code["code"] == "" {
		t.Error("no code")
	}
	check("POST /tokens/{id}:rotate", fmt.Sprintf("/tokens/%d:rotate", token.ID), "")
	check("POST /tokens/{id}:revoke", fmt.Sprintf("/tokens/%d:revoke", token.ID), "")
	if code, text := b.call("POST", "/nodes/"+n.cfg.Name+":log-level", `{"level":"debug"}`); code == http.StatusOK && b.rows()[0].Action != "set-log-level" {
		t.Errorf("the level of the log was changed without a row: %s", text)
	}
	called["POST /nodes/{name}:log-level"] = true
	check("DELETE /workflows/{ns}/{name}", "/workflows/default/w", "")
	for _, row := range access.Table() {
		route := row.Method + " " + strings.TrimPrefix(row.Path, api.Prefix)
		if server.Audited(&row) && !called[route] && auditedElsewhere[route] == "" {
			t.Errorf("%s changes something and is not called here: add a call, or an exception with its reason to the server", route)
		}
	}
	for _, r := range b.rows() {
		if text := fmt.Sprintf("%+v", r); strings.Contains(text, "canary") || strings.Contains(text, token.Secret) {
			t.Errorf("a row holds a secret: %s", text)
		}
	}
}

// TestAuditedSignIns: rows name the person who signs in, signs out, or ends a session. Refused sign-ins are
// counted in one row. It contains no name, because any stranger can send a name.
func TestAuditedSignIns(t *testing.T) {
	c := testConfig(t, nil)
	n, _, stop := startNode(t, c)
	b := &auditBed{t, n}
	const password = "canary correct horse 77"
	b.must("POST", "/users", `{"name":"ada","kind":"user","password":"`+password+`"}`)
	call := func(method, path, body, cookie string, status int) *http.Response {
		t.Helper()
		r := httptest.NewRequest(method, n.URL()+"/api/v1"+path, strings.NewReader(body))
		r.RemoteAddr = "127.0.0.1:4"
		if cookie != "" {
			r.Header.Set("Cookie", cookie)
		}
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		w := httptest.NewRecorder()
		n.http.Handler.ServeHTTP(w, r)
		if w.Code != status {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		return w.Result()
	}
	signIn := func() (cookie string) {
		t.Helper()
		answer := call("POST", "/session", `{"user":"ada","password":"`+password+`"}`, "", http.StatusOK)
		return answer.Cookies()[0].Name + "=" + answer.Cookies()[0].Value
	}
	wants := func(object string, session bool) {
		t.Helper()
		if r := b.rows()[0]; r.Principal != "ada" || r.Kind != "user" || r.Object != object || r.Address != "127.0.0.1" || r.Outcome != store.AuditDone || (r.Session > 0) != session {
			t.Errorf("%s: row %+v", object, r)
		}
	}
	one, two := signIn(), signIn()
	wants("/session", false)
	var is api.Session
	if err := json.NewDecoder(call("GET", "/session", "", one, http.StatusOK).Body).Decode(&is); err != nil {
		t.Fatal(err)
	}
	call("DELETE", "/sessions/"+is.ID, "", two, http.StatusNoContent)
	wants("/sessions/"+is.ID, true)
	call("DELETE", "/session", "", two, http.StatusNoContent)
	wants("/session", true)
	if rows := b.rows(); len(rows) != 5 {
		t.Errorf("%d rows, want 5: %+v", len(rows), rows)
	}
	for range 3 {
		call("POST", "/session", `{"user":"ada","password":"another canary"}`, "", http.StatusUnauthorized)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	db, err := dbadmin.OpenReadOnly(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.AuditList(t.Context(), store.AuditQuery{Limit: 10})
	if err != nil || len(rows) != 6 {
		t.Fatalf("%+v, %v", rows, err)
	}
	if r := rows[0]; r.Outcome != store.AuditRefused || r.Count != 3 || r.Action != "POST /api/v1/session" || r.Address != "127.0.0.1" || r.Principal != "" {
		t.Errorf("refused sign-ins: %+v", r)
	}
	if strings.Contains(fmt.Sprintf("%+v", rows), "canary") {
		t.Errorf("a row holds a password: %+v", rows)
	}
}
