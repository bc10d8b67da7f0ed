package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"skein.dev/skein/internal/connection"
	api "skein.dev/skein/sdk/api/v1"
)

// connector returns the namespace and the address of the connection that it would use.
type connector struct{}

func (connector) Test(_ context.Context, namespace string, c *connection.Config) (string, error) {
	if c.HTTP == nil {
		return "", errors.New("it is away")
	}
	return namespace + " " + c.HTTP.URL, nil
}

// TestConnections: connections are set, listed in pages, tested and deleted.
func TestConnections(t *testing.T) {
	b := newBed(t, true)
	set := func(path, config string) answer {
		return b.do("PUT", "/api/v1/connections/"+path, `{"config":`+config+`}`, "Content-Type", "application/json")
	}
	const crm = `{"http":{"url":"https://crm.example.com/","token":{"secret":"T"}}}`
	first := want[api.Connection](t, set("shop/crm", crm), 200)
	if first.Namespace != "shop" || first.Name != "crm" || first.Type != "http" || first.Version != 1 || first.User == "" || first.CreatedAt.IsZero() ||
		string(first.Config) != `{"http":{"url":"https://crm.example.com","token":{"secret":"T"}}}` {
		t.Errorf("%+v %s", first, first.Config)
	}
	if again := want[api.Connection](t, set("shop/crm", crm), 200); again.Version != 2 || again.CreatedAt != first.CreatedAt {
		t.Errorf("%+v", again)
	}
	want[api.Connection](t, set("shop/db", `{"postgres":{"host":"db","user":"etl"}}`), 200)
	want[api.Connection](t, set("web/a", crm), 200)
	names := func(query string) (text string, next *string) {
		page := want[api.List[api.Connection]](t, b.get("/api/v1/connections"+query), 200)
		for _, c := range page.Items {
			text += c.Namespace + "/" + c.Name + " "
		}
		return text, page.Next
	}
	if all, _ := names(""); all != "shop/crm shop/db web/a " {
		t.Error(all)
	}
	one, next := names("?namespace=shop&limit=1")
	if one != "shop/crm " || next == nil {
		t.Fatal(one, next)
	}
	if two, next := names("?namespace=shop&limit=1&cursor=" + *next); two != "shop/db " || next != nil {
		t.Error(two, next)
	}
	wantProblem(t, b.get("/api/v1/connections?namespace=web&cursor="+*next), 422, api.ProblemInvalid)
	for path, config := range map[string]string{"shop/.x": crm, "Shop/x": crm, "shop/x": `{}`, "shop/y": `{"http":{"url":"https://a:canary@x"}}`} {
		a := set(path, config)
		if wantProblem(t, a, 422, api.ProblemInvalid); strings.Contains(a.body, "canary") {
			t.Errorf("a refusal gives the value: %s", a.body)
		}
	}
	test := func(path string) api.ConnectionTest {
		return want[api.ConnectionTest](t, b.do("POST", "/api/v1/connections/"+path+":test", ""), 200)
	}
	if is := test("shop/crm"); !is.OK || *is.Found != "shop https://crm.example.com" || is.Error != nil {
		t.Errorf("%+v", is)
	}
	if is := test("shop/db"); is.OK || is.Found != nil || *is.Error != "it is away" {
		t.Errorf("%+v", is)
	}
	wantProblem(t, b.do("POST", "/api/v1/connections/shop/none:test", ""), 404, api.ProblemNotFound)
	if a := b.do("DELETE", "/api/v1/connections/shop/crm", ""); a.status != 204 {
		t.Errorf("%+v", a)
	}
	wantProblem(t, b.do("DELETE", "/api/v1/connections/shop/crm", ""), 404, api.ProblemNotFound)
}

// TestConditions: a change of a connection, a channel or a git source can demand a version, or that there is
// no such object yet.
func TestConditions(t *testing.T) {
	b := newBed(t, true)
	for path, body := range map[string]string{
		"connections/shop/c": `{"config":{"http":{"url":"https://crm.example.com"}}}`,
		"channels/shop/c":    `{"config":{"log":{}}}`,
		"git-sources/shop/c": `{"url":"https://git.example.com/flows.git"}`,
	} {
		put := func(header, value string) answer {
			return b.do("PUT", "/api/v1/"+path, body, "Content-Type", "application/json", header, value)
		}
		for _, step := range []struct {
			header, value string
			status        int
		}{
			{"If-Match", `"1"`, 412}, {"If-None-Match", "*", 200}, {"If-None-Match", "*", 412}, {"If-Match", `"2"`, 412}, {"If-Match", "canary", 412},
			{"If-Match", `"1"`, 200}, {"If-Match", `"1"`, 412}, {"If-Match", "*", 200}, {"If-None-Match", `"2"`, 200},
		} {
			if a := put(step.header, step.value); a.status != step.status {
				t.Errorf("%s, %s: %s: %d, want %d: %s", path, step.header, step.value, a.status, step.status, a.body)
			} else if a.status == 412 {
				wantProblem(t, a, 412, api.ProblemPrecondition)
			}
		}
	}
}

// TestFieldFaults: a refusal of a connection or a channel names the field of which its message speaks.
func TestFieldFaults(t *testing.T) {
	b := newBed(t, true)
	for _, c := range []struct{ path, config, key string }{
		{"connections/shop/.x", `{"http":{"url":"https://a.example"}}`, "name"},
		{"connections/Shop/x", `{"http":{"url":"https://a.example"}}`, "namespace"},
		{"connections/shop/x", `{"http":{"url":"crm"}}`, "url"},
		{"connections/shop/x", `{"http":{"url":"https://a.example","user":"u"}}`, "user"},
		{"connections/shop/x", `{"postgres":{"host":"h"}}`, "user"},
		{"connections/shop/x", `{"mysql":{"host":"h","user":"u","port":70000}}`, "port"},
		{"connections/shop/x", `{"sqlite":{"path":"x"}}`, "path"},
		{"connections/shop/x", `{"ssh":{"host":"h","user":"u","known_hosts":"h k"}}`, "key"},
		{"connections/shop/x", `{"nats":{"servers":["a:b:c"]}}`, "servers"},
		{"connections/shop/x", `{"http":{"url":"https://a.example","token":{"secret":"T"},"user":"u"}}`, ""},
		{"connections/shop/x", `{}`, ""},
		{"channels/shop/a b", `{"log":{}}`, "name"},
		{"channels/shop/x", `{"webhook":{"url":"hook"}}`, "url"},
		{"channels/shop/x", `{"slack":{"url":"https://a.example"}}`, "url"},
		{"channels/shop/x", `{"email":{"to":["me"]}}`, "to"},
		{"channels/shop/x", `{"ntfy":{"topic":"a b"}}`, "topic"},
		{"channels/shop/x", `{"telegram":{"chat":"-1","token":"T"}}`, "token"},
		{"channels/shop/x", `{}`, ""},
	} {
		a := b.do("PUT", "/api/v1/"+strings.ReplaceAll(c.path, " ", "%20"), `{"config":`+c.config+`}`, "Content-Type", "application/json")
		p := wantProblem(t, a, 422, api.ProblemInvalid)
		if c.key == "" && len(p.Errors) == 0 {
			continue
		}
		if len(p.Errors) != 1 || p.Errors[0].Key != c.key || p.Errors[0].Message == "" {
			t.Errorf("%s %s: %s", c.path, c.config, a.body)
		}
	}
}
