package app

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// TestRequestsToTheNode checks that a task cannot make a token by a request to its own node, whatever name of
// the address it uses. It can call another server on loopback.
func TestRequestsToTheNode(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusTemporaryRedirect)
	}))
	defer site.Close()
	n, k, _ := startNode(t, testConfig(t, nil))
	_, port, err := net.SplitHostPort(n.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	path := ":" + port + "/api/v1/tokens"
	const mint = ", method: POST, headers: {Content-Type: application/json}, body: {kind: node, name: ssrf}"
	requests := []string{
		`url: "http://127.0.0.1` + path + `"` + mint, `url: "http://[::ffff:127.0.0.1]` + path + `"` + mint, `url: "http://0.0.0.0` + path + `"` + mint,
		`url: "http://localhost` + path + `"` + mint, `url: "http://127.0.0.1` + path + `"`, `url: "` + site.URL + `/?to=http://127.0.0.1` + path + `"`,
	}
	var tasks strings.Builder
	for i, request := range requests {
		tasks.WriteString("  t" + strconv.Itoa(i) + ": {http: {" + request + "}}\n")
	}
	run := end(t, k, begin(t, k, tasks.String()))
	for i, task := range run.Tasks {
		if task.Cause == nil || *task.Cause != "egress" {
			t.Errorf("%s: %s, message %v", requests[i], task.State, task.Message)
		}
	}
	if len(run.Tasks) != len(requests) {
		t.Errorf("%d tasks", len(run.Tasks))
	}
	if tokens, err := k.Tokens(t.Context()); err != nil || len(tokens.Items) > 0 {
		t.Errorf("there are tokens: %v, %v", tokens, err)
	}
}

// TestOwnDatabase checks that ownDatabase returns every server that the address of a database names.
func TestOwnDatabase(t *testing.T) {
	for address, want := range map[string]string{
		"postgres://skein@db-1:5432,db-2:6432/skein?schema=x": "db-1:5432 db-2:6432",
		"postgres://skein@10.0.0.5/skein":                     "10.0.0.5:5432",
		"postgres:///skein?host=/run/postgresql":              "",
	} {
		all, err := ownDatabase(testConfig(t, map[string]string{"db": address}))
		var got []string
		for _, own := range all {
			got = append(got, own.Address)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v, want %q", address, got, err, want)
		}
	}
}
