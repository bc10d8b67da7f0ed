package access

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTable checks that every row obeys the rules for rows, and compares the table with the one that people
// review.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Table() {
		name := r.Method + " " + r.Path
		if seen[name] {
			t.Errorf("%s has two rows", name)
		}
		seen[name] = true
		special := map[Verb]Of{Public: OfPublic, Self: OfSelf, WorkerCall: OfWorker, NodeCall: OfNode, WorkerJoin: OfWorker}
		of, isSpecial := special[r.Verb]
		switch {
		case r.Verb == 0 || r.Of == 0 || r.Verb >= verbsEnd || r.Of >= ofEnd:
			t.Errorf("%s has no verb or no object", name)
		case (r.Verb == Public) != (r.Because != ""):
			t.Errorf("%s: a public route says why, others do not", name)
		case isSpecial && of != r.Of && !(r.Verb == Public && r.Of == OfSchedule):
			t.Errorf("%s: the verb %v is not about %v", name, r.Verb, r.Of)
		case !isSpecial && (r.Of == OfPublic || r.Of == OfSelf || r.Of == OfWorker || r.Of == OfNode):
			t.Errorf("%s: no role decides about %v", name, r.Of)
		case r.Method != "GET" && viewerVerbs.Has(r.Verb) && r.Path != "/api/v1/schedules:simulate":
			t.Errorf("%s changes something, and viewers may call it", name)
		}
	}
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintln(&b, strings.TrimSpace(fmt.Sprintf("%-5s %-66s %-18v %-9v %s", r.Method, r.Path, r.Verb, r.Of, r.Because)))
	}
	golden(t, "table.txt", b.String())
}

// TestMatch checks that a request that names a route gets the route's row, also with another method, verb,
// encoding or end of the path.
func TestMatch(t *testing.T) {
	name := regexp.MustCompile(`\{[a-z]+(\.\.\.)?\}`)
	for _, r := range Table() {
		for _, value := range []string{"x", "a%3Ab", "a%2Fb", "%2e%2e", "x:y"} {
			path := name.ReplaceAllString(r.Path, value)
			got, ok := Match(request(r.Method, path))
			if want := r.Path; !ok || got.Path != want {
				if value == "x:y" && strings.Contains(r.Path, "}:") || ok && got.Of == r.Of && value == "x:y" {
					continue // another row of the same object is right, too
				}
				t.Errorf("%s %s: %s %s, want %s", r.Method, path, got.Method, got.Path, want)
			}
			if r.Method == http.MethodGet {
				if head, ok := Match(request(http.MethodHead, path)); !ok || head != got {
					t.Errorf("HEAD %s: %v", path, head)
				}
			}
		}
	}
	for _, c := range []string{"POST /api/v1/runs/x", "POST /api/v1/runs/x:nothing", "POST /api/v1/runs/x:stop/", "PATCH /api/v1/runs",
		"POST /api/v1/runs/x:stop:", "POST /livez", "PUT /api/v1/hooks/a/b/c", "POST /skein.worker.v1.Workers/Nothing",
		"GET /skein.worker.v1.Workers/Register", "POST /skein.worker.v1.Workers%2FRegister", "POST /internal/v1%2Freport", "POST /internal/v1/nothing", "PUT /internal/v1/report", "POST /api/v1/runs:STOP"} {
		method, path, _ := strings.Cut(c, " ")
		if row, ok := Match(request(method, path)); ok && row.Path != "/{path...}" || row.Verb != Self {
			t.Errorf("%s: %+v", c, row)
		}
	}
}

func request(method, path string) *http.Request {
	r := httptest.NewRequest(method, "/", nil)
	r.URL.Path, r.URL.RawPath = "", ""
	if u, err := r.URL.Parse(path); err == nil {
		r.URL = u
	}
	return r
}

// public lists the paths that answer a caller without a credential, except for those of the page.
var public = []string{"/livez", "/readyz", "/api/v1/session", "/api/v1/identity-providers", "/auth/{name}/login", "/auth/{name}/callback", "/auth/{name}/logout",
	"/api/v1/hooks/{ns}/{workflow}/{trigger}", "/api/v1/hooks/{ns}/{name}"}

// FuzzMatch checks that every path has a row, and that only the listed paths are public.
func FuzzMatch(f *testing.F) {
	for _, r := range Table() {
		f.Add(r.Method, r.Path)
	}
	f.Add("POST", "/api/v1/hooks/../runs")
	f.Add("POST", "/api/v1/runs/%2e%2e:stop")
	f.Add("POST", "//livez")
	f.Fuzz(func(t *testing.T, method, path string) {
		if !strings.HasPrefix(path, "/") {
			return
		}
		u, err := httptest.NewRequest("GET", "/", nil).URL.Parse(path)
		if err != nil {
			return
		}
		row, ok := Match(&http.Request{Method: method, URL: u, Host: "localhost", Header: http.Header{}})
		if ok != (row.Path != "") || row.Verb == 0 || row.Of == 0 {
			t.Errorf("%s %s: %+v", method, path, row)
		}
		if row.Verb == Public && !Reserved(u.Path) && method == http.MethodGet { // the page
			return
		}
		if row.Verb == Public && !slices.Contains(public, row.Path) {
			t.Errorf("%s %s is public by %+v", method, path, row)
		}
	})
}

// TestRoutes: a route without a row, a route with two handlers and a row without a handler are reported.
func TestRoutes(t *testing.T) {
	m := NewMux()
	for _, r := range rows {
		if r.Of == OfNode {
			m.HandleFunc(r.Method+" "+r.Path, func(http.ResponseWriter, *http.Request) {})
		}
	}
	node := func(o Of) bool { return o == OfNode }
	if err := m.Err(node); err != nil {
		t.Error(err)
	}
	if err := m.Err(func(o Of) bool { return o == OfNode || o == OfWorker }); err == nil || strings.Count(err.Error(), "\n") != 13 {
		t.Errorf("rows without a handler: %v", err)
	}
	m.HandleFunc("POST /internal/v1/more", func(http.ResponseWriter, *http.Request) {})
	if err := m.Err(node); err == nil || !strings.Contains(err.Error(), "POST /internal/v1/more has no row") {
		t.Errorf("a route without a row: %v", err)
	}
	var two Routes
	two.Take("GET", "/livez")
	if two.Take("GET", "/livez"); two.Err(func(Of) bool { return false }) == nil {
		t.Error("a route has two handlers")
	}
}

func BenchmarkMatch(b *testing.B) {
	r := request("POST", "/api/v1/runs")
	for b.Loop() {
		if row, ok := Match(r); !ok || row.Verb != RunStart {
			b.Fatal(row)
		}
	}
}
