package remote

import (
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/worker"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/shared/session"
)

// TestRequestsToNodes: a worker sends no request to a node that it knows, nor to an address that came with
// the job, whatever the home allows. It also sends no request that the home or its own setting does not
// allow.
func TestRequestsToNodes(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer site.Close()
	h, other := newHome(t, false), newHome(t, false)
	h.nodes = []string{other.url}
	works(t, t.TempDir(), []string{h.url})
	narrow := newHome(t, false)
	works(t, t.TempDir(), []string{narrow.url}, func(c *Config) { c.Egress.Policies = []string{egress.Public} })
	for name, c := range map[string]struct {
		home   *scripted
		url    string
		policy []string
		own    []*workerv1.Own
		cause  string
		says   string
	}{
		"home":           {h, h.url + "/api/v1/tokens", []string{egress.Any}, nil, worker.CauseEgress, "a node of Skein"},
		"other node":     {h, other.url, []string{egress.Any}, nil, worker.CauseEgress, "a node of Skein"},
		"database":       {h, site.URL, []string{egress.Any}, []*workerv1.Own{{What: "database", Address: site.Listener.Addr().String()}}, worker.CauseEgress, "a database of Skein"},
		"by policy":      {h, site.URL, []string{egress.Any, egress.Public}, nil, worker.CauseEgress, "setting egress"},
		"no policy":      {h, site.URL, nil, nil, "", ""},
		"allowed":        {h, site.URL, []string{"127.0.0.0/8"}, nil, "", ""},
		"by own setting": {narrow, site.URL, []string{egress.Any}, nil, worker.CauseEgress, "setting egress"},
		"unknown policy": {h, site.URL, []string{"later"}, nil, worker.CauseStart, "setting egress"},
	} {
		j := shell(strings.ReplaceAll(name, " ", "-"), "")
		j.Argv, j.Request = nil, &workerv1.Request{Method: http.MethodPost, Url: c.url, Body: []byte("{}"), Egress: c.policy, Own: c.own}
		c.home.give(j)
		if r := c.home.ends(j); r.Cause != c.cause || !strings.Contains(r.Message, c.says) {
			t.Errorf("%s: its end is %v", name, r)
		}
	}
}

// TestRulesTravel: the egress rules of a job arrive unchanged.
func TestRulesTravel(t *testing.T) {
	sent := worker.Job{HTTP: &worker.Request{Egress: egress.Rules{Policies: []string{"public", "10.0.0.0/8"}, Own: []egress.Own{{What: "database", Address: "db:5432"}}}}}
	wire := Wire(&sent, "", "", egress.Rules{}).Request
	r := &Worker{cfg: Config{Servers: []string{"http://node-1:8080"}}}
	r.s = session.New(session.Config{Servers: []string{"http://node-1:8080", "https://node-2", "::"}}, r, nil)
	got := r.rules(wire.Egress, wire.Own)
	if !slices.Equal(got.Policies, sent.HTTP.Egress.Policies) {
		t.Errorf("policies %q", got.Policies)
	}
	want := []egress.Own{{What: "database", Address: "db:5432"}, {What: "node", Address: "node-1:8080"}, {What: "node", Address: net.JoinHostPort("node-2", "443")}}
	if !slices.Equal(got.Own, want) {
		t.Errorf("own addresses %v, want %v", got.Own, want)
	}
	if got := r.rules(nil, nil); got.Policies != nil {
		t.Errorf("a worker of a node elsewhere, whose home says nothing, allows %q", got.Policies)
	}
}
