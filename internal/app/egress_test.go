package app

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
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

// TestNamespaceEgress: the policy of a namespace applies to the test of a connection, to channels, to git
// sources and to sources of events. Each refusal names the namespace. A source that runs obeys a new policy.
func TestNamespaceEgress(t *testing.T) {
	var mu sync.Mutex
	calls := map[string]int{} // by the first part of the path, which is a namespace
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		calls[strings.Split(r.URL.Path, "/")[1]]++
		mu.Unlock()
		_, _ = io.WriteString(w, "[]")
	}))
	defer site.Close()
	_, k, _ := startNode(t, testConfig(t, nil))
	allow := func(namespace, policy string) {
		t.Helper()
		if _, err := skein.NewNamespaces(k).Put(t.Context(), namespace, api.NamespaceRequest{Egress: &policy}); err != nil {
			t.Fatal(err)
		}
	}
	allow("shop", "public")
	connections, alerts, git := skein.NewConnections(k), skein.NewAlerts(k), skein.NewGitSources(k)
	use := func(namespace string) map[string]string {
		t.Helper()
		at := site.URL + "/" + namespace
		_, err := connections.Set(t.Context(), namespace, "crm", map[string]any{"http": map[string]any{"url": at}})
		_, err2 := alerts.SetChannel(t.Context(), namespace, "ops", map[string]any{"webhook": map[string]any{"url": at}})
		_, err3 := git.Set(t.Context(), namespace, "flows", api.GitSourceRequest{URL: at + "/repo.git"})
		_, err4 := k.Apply(t.Context(), namespace+"/polled", api.ApplyRequest{Source: "name: polled\nnamespace: " + namespace + "\ntriggers: [{name: new, poll: {url: \"" + at + "\", every: 1s}}]\ntasks: {t: {run: 'true'}}\n"})
		tested, err5 := connections.Test(t.Context(), namespace, "crm")
		told, err6 := alerts.TestChannel(t.Context(), namespace, "ops")
		synced, err7 := git.Sync(t.Context(), namespace, "flows")
		if err := errors.Join(err, err2, err3, err4, err5, err6, err7); err != nil {
			t.Fatal(err)
		}
		why := map[string]string{}
		for what, text := range map[string]*string{"connection": tested.Error, "channel": told.Error, "git": &synced.Source.State.Failing.Why} {
			if text != nil {
				why[what] = *text
			}
		}
		return why
	}
	away := func(namespace string, want bool) {
		t.Helper()
		eventually(t, fmt.Sprintf("the source of %s is away: %t", namespace, want), func() bool {
			is, err := k.Schedule(t.Context(), namespace+"/polled", "new")
			if err != nil || is.Source == nil {
				return false
			}
			if why := is.Source.Why; why != nil {
				return want && strings.Contains(*why, "the egress of namespace "+namespace+" is public")
			}
			return !want && is.Source.Lag != nil
		})
	}
	refused := use("shop")
	for _, what := range []string{"connection", "channel", "git"} {
		if text := refused[what]; !strings.Contains(text, "the egress of namespace shop is public; to allow it: skein namespace set shop --egress public,127.0.0.1/32") {
			t.Errorf("%s: %s", what, text)
		}
	}
	away("shop", true)
	mu.Lock()
	if n := calls["shop"]; n != 0 {
		t.Errorf("%d calls of the namespace were made", n)
	}
	mu.Unlock()
	for what, text := range use("web") {
		if strings.Contains(text, "egress") {
			t.Errorf("%s of a namespace without a policy: %s", what, text)
		}
	}
	away("web", false)
	allow("shop", "public,127.0.0.0/8")
	away("shop", false)
	allow("shop", "public")
	away("shop", true)
}
