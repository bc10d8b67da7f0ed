package app

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/localtoken"
	"skein.dev/skein/internal/store/postgres/pgtest"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestLocalToken checks that a program of the node's user finds the node's token by the address alone, and
// acts as the user local. Only the user can read both files, and the node removes them at its end.
func TestLocalToken(t *testing.T) {
	c := testConfig(t, nil)
	n, _, stop := startNode(t, c)
	file := localtoken.File(c.Data)
	token, err := localtoken.Of(c.Data, n.URL())
	if err != nil {
		t.Fatal(err)
	}
	if elsewhere, err := localtoken.Of(t.TempDir(), n.URL()); err != nil || elsewhere != token {
		t.Errorf("by the address: %v", err)
	}
	records := filepath.Join(os.Getenv("XDG_STATE_HOME"), "skein", "local")
	found, err := filepath.Glob(filepath.Join(records, "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("records: %v, %v", found, err)
	}
	for _, path := range append(found, file) {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	k, err := skein.New(n.URL(), skein.WithUser("ann"))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if _, err := k.ServerVersion(t.Context()); err != nil {
		t.Error(err)
	}
	other := token[:len(token)-1] + "x"
	if other == token {
		other = token[:len(token)-1] + "y"
	}
	for shown, want := range map[string]int{token: 200, auth.NewSecret("local"): 401, other: 401} {
		if got := askAs(t, n.URL()+"/api/v1/runs", shown); got != want {
			t.Errorf("with %.20s…: %d, want %d", shown, got, want)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	for _, path := range append(found, file) {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	if _, err := localtoken.Of(c.Data, n.URL()); err == nil {
		t.Error("a node that has ended has a token")
	}
}

func askAs(t *testing.T, url, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	return resp.StatusCode
}

// TestLocalCaller: a holder of the local token is the user local, with the name that the program claims.
func TestLocalCaller(t *testing.T) {
	n, k, stop := startNode(t, testConfig(t, nil))
	defer func() { _ = stop() }()
	begin(t, k, "  t: {run: 'true'}\n")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.URL()+"/api/v1/runs", strings.NewReader(`{"workflow":"flow"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	n.asUser(req)
	req.Header.Set(api.HeaderClaimedBy, "ann")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	var run api.Run
	if err := json.NewDecoder(resp.Body).Decode(&run); err != nil || run.User != "local (ann)" || run.ClaimedBy == nil || *run.ClaimedBy != "ann" {
		t.Errorf("%s: %+v, %v", resp.Status, run, err)
	}
}

// TestNodesOnLoopback checks a cluster of nodes that answer only callers with a token. The nodes authenticate
// each other, and commands that join the cluster as nodes reach them.
func TestNodesOnLoopback(t *testing.T) {
	pg, err := pgtest.Start(pgtest.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pg.Close() }()
	first, k, stopFirst := startNode(t, testConfig(t, map[string]string{"db": pg.URL("postgres"), "name": "n1"}))
	defer func() { _ = stopFirst() }()
	second, k2, stopSecond := startNode(t, testConfig(t, map[string]string{"db": pg.URL("postgres"), "name": "n2"}))
	defer func() { _ = stopSecond() }()
	other := second.engine.Handler().ID
	eventually(t, "n1 knows n2", func() bool { _, known := first.members.(*membership).node.Member(other); return known })
	held := []engine.Held{{Run: dag.RunID{1}, Task: 1, Token: 1, Handler: other}}
	if missing, err := first.members.(*membership).peers.Missing(t.Context(), other, held); err != nil || len(missing) != 1 {
		t.Errorf("n2 says to n1 that it misses %v, %v", missing, err)
	}
	if run := end(t, k2, begin(t, k, "  t: {run: 'true'}\n")); run.State != "succeeded" {
		t.Errorf("%+v", run)
	}
	if n := first.gate.Refused() + second.gate.Refused(); n != 0 {
		t.Errorf("the nodes refused %d calls of each other", n)
	}
}
