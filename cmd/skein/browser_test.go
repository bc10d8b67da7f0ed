//go:build linux

package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// TestBrowserInACluster: a page that a browser loaded from one node can change runs on every shard, whichever
// node owns the shard. The change is recorded for the user of the browser's token. If a stranger sends the
// headers that nodes use among themselves, the node ignores them. The owner of a shard accepts each start
// that comes through another node, so the node stores no start for the owner.
func TestBrowserInACluster(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 2)
	f.listed(2)
	f.own(map[string]int{"n1": 16, "n2": 16})
	call := func(m *member, method, path, body string, header ...string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, m.client.URL()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Content-Type": "application/json", "Authorization": "Bearer " + f.doors.tokens[store.TokenAPI],
			"Origin": m.client.URL(), "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Cookie": "theme=dark"} {
			req.Header.Set(name, value)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := f.doors.http.Do(req)
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
	for i := range 12 {
		name := fmt.Sprint("w", i)
		f.members[0].apply(name, "  a: {approval: {by: [api]}}\n")
		id := f.members[0].detach(name)
		path := api.Prefix + "/runs/" + id
		for j, m := range f.members {
			verb := []string{":pause", ":resume"}[j]
			if status, text := call(m, http.MethodPost, path+verb, "{}"); status != http.StatusAccepted {
				t.Errorf("%s of %s through %s: %d %s", verb, name, m.name, status, text)
			}
			if status, text := call(m, http.MethodPost, path+verb, "{}", "Origin", "https://evil.example"); status != http.StatusForbidden {
				t.Errorf("another site at %s: %d %s", m.name, status, text)
			}
			if status, text := call(m, http.MethodPost, path+verb, "{}", "Authorization", "", auth.HeaderPrincipal, "e30.e30"); status != http.StatusUnauthorized {
				t.Errorf("a proof made up at %s: %d %s", m.name, status, text)
			}
		}
		m := f.members[i%2]
		f.until("the approval waits", func() bool {
			_, text := call(m, http.MethodGet, path+"/tasks/a", "")
			return strings.Contains(text, `"deferred"`)
		})
		if status, text := call(m, http.MethodPost, path+"/tasks/a:approve", "{}"); status/100 != 2 {
			t.Errorf("an approval through %s: %d %s", m.name, status, text)
		}
		_, text := call(m, http.MethodGet, path+"/events", "")
		if !strings.Contains(text, `"actor":"the-api"`) || strings.Contains(text, `"actor":"local`) {
			t.Errorf("the events of %s name another actor: %s", name, text)
		}
	}
	for _, m := range f.members {
		if log := m.home.said.String(); strings.Contains(log, "code=run_deposited") {
			t.Errorf("a start through %s was stored for its owner:\n%s", m.name, log)
		}
	}
}
