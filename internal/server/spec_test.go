package server_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	api "skein.dev/skein/sdk/api/v1"
)

// spec is the server's OpenAPI document. Every answer of every test is checked against it.
type spec struct {
	doc      map[string]any
	routes   []specRoute
	compiler *jsonschema.Compiler
}

type specRoute struct {
	method, path string
	match        *regexp.Regexp
	op           map[string]any
}

func readSpec(t *testing.T, text string) *spec {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	s := &spec{doc: doc.(map[string]any), compiler: jsonschema.NewCompiler()}
	if err := s.compiler.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	for path, item := range s.doc["paths"].(map[string]any) {
		pattern := regexp.MustCompile(`\\\{[a-z]+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), `[^/]+`)
		for method, op := range item.(map[string]any) {
			s.routes = append(s.routes, specRoute{strings.ToUpper(method), path, regexp.MustCompile("^" + pattern + "$"), op.(map[string]any)})
		}
	}
	// A verb is more specific than an id that contains a colon.
	slices.SortFunc(s.routes, func(a, b specRoute) int { return len(b.path) - len(a.path) })
	return s
}

func (s *spec) check(t *testing.T, method, path string, a answer) {
	t.Helper()
	path, _, _ = strings.Cut(path, "?")
	for _, r := range s.routes {
		if r.method != method || !r.match.MatchString(path) {
			continue
		}
		responses := r.op["responses"].(map[string]any)
		status := strconv.Itoa(a.status)
		if responses[status] == nil {
			if a.status < 400 && a.status != 304 {
				t.Errorf("%s %s: status %s is not in the document", method, path, status)
				return
			}
			status = "default"
		}
		content, _ := responses[status].(map[string]any)["content"].(map[string]any)
		got := a.header.Get("Content-Type")
		for kind := range content {
			another := got != kind && content[got] != nil // a route with several forms
			if strings.Contains(kind, "json") && !strings.Contains(kind, "ndjson") && a.body != "" && !another {
				s.validate(t, []string{"paths", r.path, strings.ToLower(method), "responses", status, "content", kind, "schema"}, a.body)
			}
		}
		return
	}
	if strings.HasPrefix(path, api.Prefix) && a.status < 400 && path != openAPI {
		t.Errorf("%s %s is not in the document", method, path)
	}
}

func (s *spec) validate(t *testing.T, at []string, body string) {
	t.Helper()
	ref := "openapi.json#"
	for _, p := range at {
		p = strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(p)
		ref += "/" + p
	}
	schema, err := s.compiler.Compile(ref)
	if err != nil {
		t.Fatalf("%s: %v", ref, err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if err := schema.Validate(v); err != nil {
		t.Errorf("answer of %s: %v\n%s", at[1], err, body)
	}
}

// contract lists the routes that the contract names. Routes may be added, but not removed.
var contract = []string{
	"POST /events", "POST /schedules/{ns}/{workflow}/{trigger}:seek", "POST /schedules/{ns}/{workflow}/{trigger}:secret",
	"GET /cluster-alerts", "PUT /cluster-alerts",
	"GET /tokens", "POST /session", "GET /session", "DELETE /session", "POST /session:code", "GET /sessions", "DELETE /sessions/{id}", "GET /users", "POST /users", "GET /users/{name}", "DELETE /users/{name}", "POST /users/{name}:password",
	"POST /users/{name}:disable", "POST /users/{name}:enable", "GET /roles", "POST /roles", "DELETE /roles/{name}",
	"GET /bindings", "POST /bindings", "DELETE /bindings/{user}/{role}/{ns}",
	"POST /tokens", "POST /tokens/{id}:rotate", "POST /tokens/{id}:revoke",
	"GET /workflows", "GET /workflows/{ns}/{name}", "PUT /workflows/{ns}/{name}", "DELETE /workflows/{ns}/{name}",
	"GET /workflows/{ns}/{name}/versions", "GET /workflows/{ns}/{name}/versions/{version}", "GET /workflows/{ns}/{name}/graph",
	"GET /workflows/{ns}/{name}/layout", "GET /runs/{id}/layout", "GET /runs/{id}/states",
	"GET /workflows/{ns}/{name}/grid", "GET /workflows/{ns}/{name}/stats", "GET /workflows/{ns}/{name}/explain", "GET /runs/{id}/timeline", "GET /runs/{id}/recovery", "GET /runs/{id}/deadlines",
	"POST /workflows/{ns}/{name}:pause", "POST /workflows/{ns}/{name}:resume", "POST /workflows/{ns}/{name}:rollback", "POST /validate", "GET /schema/workflow.json",
	"POST /runs", "POST /runs:batch", "GET /runs", "GET /runs/{id}", "POST /runs/{id}:stop", "POST /runs/{id}:kill", "POST /runs/{id}:pause", "POST /runs/{id}:resume",
	"POST /runs/{id}:recover", "POST /runs/{id}:rerun", "POST /runs:stop", "POST /runs:kill", "POST /runs:pause", "POST /runs:resume", "POST /runs:recover", "POST /runs:rerun",
	"POST /runs/{id}/tasks/{task}:stop", "POST /runs/{id}/tasks/{task}:retry",
	"POST /runs/{id}/tasks/{task}:skip", "POST /runs/{id}/tasks/{task}:mark",
	"GET /orphans", "POST /runs/{id}/tasks/{task}:release", "POST /runs/{id}/tasks/{task}:dismiss",
	"GET /runs/{id}/tasks", "GET /runs/{id}/tasks/{task}", "GET /runs/{id}/tasks/{task}/definition", "POST /runs/{id}/tasks/{task}:approve", "GET /runs/{id}/graph", "GET /runs/{id}/events", "GET /runs/{id}/explain",
	"GET /runs/{id}/tasks/{task}/explain", "GET /runs/{id}/tasks/{task}/logs", "GET /runs/{id}/tasks/{task}/logs/search",
	"GET /runs/counts", "GET /nodes/{name}/metrics", "GET /runs/{id}/tasks/{task}/logs/index", "GET /runs/{id}/logs/search",
	"GET /runs/{id}/tasks/{task}/artifacts", "GET /runs/{id}/tasks/{task}/artifacts/{name}", "GET /users/{id}/runs", "GET /nodes", "GET /worker-groups", "GET /kinds", "GET /refused-extensions", "GET /nodes/{name}", "GET /nodes/{name}/log-level", "POST /nodes/{name}:log-level", "POST /nodes/{name}:cordon", "POST /nodes/{name}:uncordon",
	"POST /nodes/{name}:drain", "POST /shards/{id}:move", "POST /workflows/{ns}/{name}:move", "GET /admin/scheduler", "GET /audit", "GET /audit:export", "POST /admin/scheduler:stop",
	"POST /admin/scheduler:start", "GET /status", "GET /verify", "GET /events",
	"GET /schedules", "GET /schedules/next", "POST /schedules:simulate", "GET /schedules/{ns}/{workflow}/{trigger}", "GET /schedules/{ns}/{workflow}/{trigger}/next",
	"GET /schedules/{ns}/{workflow}/{trigger}/fires", "GET /schedules/{ns}/{workflow}/{trigger}/days", "POST /schedules/{ns}/{workflow}/{trigger}:pause",
	"POST /schedules/{ns}/{workflow}/{trigger}:resume", "POST /schedules/{ns}/{workflow}/{trigger}:trigger", "GET /fires",
	"POST /hooks/{ns}/{workflow}/{trigger}", "POST /hooks/{ns}/{name}", "POST /backfills", "GET /backfills", "GET /backfills/{id}", "GET /backfills/{id}/runs",
	"POST /backfills/{id}:pause", "POST /backfills/{id}:resume", "POST /backfills/{id}:cancel",
	"GET /queues", "GET /queues/{name}", "PUT /queues/{name}", "DELETE /queues/{name}", "POST /queues/{name}:pause",
	"POST /queues/{name}:drain", "POST /queues/{name}:resume",
	"GET /queues/{ns}/{name}", "PUT /queues/{ns}/{name}", "DELETE /queues/{ns}/{name}", "POST /queues/{ns}/{name}:pause", "POST /queues/{ns}/{name}:drain",
	"POST /queues/{ns}/{name}:resume", "PUT /classes/{ns}/{name}", "DELETE /classes/{ns}/{name}", "GET /locks", "GET /me", "GET /identity-providers", "GET /classes", "PUT /classes/{name}", "DELETE /classes/{name}",
	"GET /alerts", "GET /alerts/{id}", "POST /alerts/{id}:ack", "POST /alerts/{id}:resolve",
	"GET /git-sources", "PUT /git-sources/{ns}/{name}", "DELETE /git-sources/{ns}/{name}", "POST /git-sources/{ns}/{name}:sync", "POST /git-sources/{ns}/{name}:plan",
	"GET /connections", "PUT /connections/{ns}/{name}", "DELETE /connections/{ns}/{name}", "POST /connections/{ns}/{name}:test",
	"GET /silences", "POST /silences/{ns}", "POST /silences/{ns}/{id}:end",
	"GET /channels", "PUT /channels/{ns}/{name}", "DELETE /channels/{ns}/{name}", "POST /channels/{ns}/{name}:test",
	"GET /secrets", "PUT /secrets/{ns}/{name}", "DELETE /secrets/{ns}/{name}", "POST /keys:rotate", "GET /authority", "POST /authority:rotate",
	"GET /namespaces", "PUT /namespaces/{ns}",
}

var update = flag.Bool("update", false, "write sdk/go/api/v1/openapi.json")

// The document is committed, so that a review shows every change of the interface.
func TestOpenAPIIsTheCommittedOne(t *testing.T) {
	const file = "../../sdk/go/api/v1/openapi.json"
	b := newBed(t, true)
	served := b.get(openAPI).body
	if *update {
		if err := os.WriteFile(file, []byte(served), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if committed := must(os.ReadFile(file)); string(committed) != served {
		t.Errorf("%s is not what the server says: go test ./internal/server -run TestOpenAPI -update", file)
	}
}

func TestOpenAPI(t *testing.T) {
	b := newBed(t, true)
	a := b.get(openAPI)
	if v := b.spec.doc["openapi"]; v != "3.1.0" {
		t.Errorf("openapi %v", v)
	}
	var routes []string
	ids := map[string]bool{}
	for _, r := range b.spec.routes {
		routes = append(routes, r.method+" "+strings.TrimPrefix(r.path, api.Prefix))
		id, _ := r.op["operationId"].(string)
		if id == "" || ids[id] || r.op["summary"] == "" {
			t.Errorf("%s: operation id %q", r.path, id)
		}
		ids[id] = true
		if r.op["responses"].(map[string]any)["default"] == nil {
			t.Errorf("%s has no problem", r.path)
		}
		declared := map[string]bool{}
		params, _ := r.op["parameters"].([]any)
		for _, p := range params {
			if p := p.(map[string]any); p["in"] == "path" {
				declared["{"+p["name"].(string)+"}"] = true
			}
		}
		for _, name := range regexp.MustCompile(`\{[a-z]+\}`).FindAllString(r.path, -1) {
			if !declared[name] {
				t.Errorf("%s does not declare %s", r.path, name)
			}
		}
	}
	slices.Sort(routes)
	wanted := slices.Sorted(slices.Values(contract))
	if !slices.Equal(routes, wanted) {
		t.Errorf("routes\n%s\nwant\n%s", strings.Join(routes, "\n"), strings.Join(wanted, "\n"))
	}
	for _, ref := range regexp.MustCompile(`"#/components/schemas/([^"]+)"`).FindAllStringSubmatch(a.body, -1) {
		if b.spec.doc["components"].(map[string]any)["schemas"].(map[string]any)[ref[1]] == nil {
			t.Errorf("reference to %s, which is not there", ref[1])
		}
	}
	schemas := slices.Sorted(maps.Keys(b.spec.doc["components"].(map[string]any)["schemas"].(map[string]any)))
	for _, name := range schemas { // every schema is a JSON Schema 2020-12
		if _, err := b.spec.compiler.Compile("openapi.json#/components/schemas/" + name); err != nil {
			t.Errorf("schema %s: %v", name, err)
		}
	}
	if slices.Contains(schemas, "ErrorModel") || !slices.Contains(schemas, "Problem") || !slices.Contains(schemas, "Change") {
		t.Errorf("schemas %v", schemas)
	}
}

func TestDocsPageNeedsNothingElse(t *testing.T) {
	b := newBed(t, true)
	a := b.get("/api/docs")
	if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
		t.Fatalf("%d %v", a.status, a.header)
	}
	if strings.Contains(a.body, "<script") || regexp.MustCompile(`(src|href)="(https?:)?//`).MatchString(a.body) {
		t.Error("the page loads something")
	}
	if !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Error("no policy")
	}
	for _, r := range contract {
		if _, path, _ := strings.Cut(r, " "); !strings.Contains(a.body, "<code>"+api.Prefix+path+"</code>") {
			t.Errorf("%s is not on the page", r)
		}
	}
	if root := b.get("/"); root.status != 200 { // reached by a redirect
		t.Errorf("/: %d", root.status)
	}
}

// keys returns the fields of a JSON object.
func keys(t *testing.T, object json.RawMessage) []string {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(object)).Decode(&m); err != nil {
		t.Fatalf("%v: %s", err, object)
	}
	return slices.Sorted(maps.Keys(m))
}
