package server_test

import (
	"net/url"
	"strings"
	"testing"
)

// TestIntegersOutOfRange calls every route that takes an integer in its path or query with integers that no
// parameter can hold. A number that is cut to fewer bits would name another object: version 4294967297 was
// version 1.
func TestIntegersOutOfRange(t *testing.T) {
	b := newBed(t, true)
	tried := 0
	for _, r := range b.spec.routes {
		params, _ := r.op["parameters"].([]any)
		path := r.path
		for _, p := range params {
			if p := p.(map[string]any); p["in"] == "path" && p["schema"].(map[string]any)["type"] != "integer" {
				path = strings.ReplaceAll(path, "{"+p["name"].(string)+"}", "x")
			}
		}
		for _, p := range params {
			p := p.(map[string]any)
			schema := p["schema"].(map[string]any)
			if schema["type"] != "integer" {
				continue
			}
			values := []string{"9223372036854775808", "-9223372036854775809"}
			if schema["format"] == "int32" {
				values = append(values, "2147483648", "4294967297", "-4294967295")
			}
			if least, ok := schema["minimum"].(float64); ok && least >= 0 {
				values = append(values, "-1")
			}
			for _, value := range values {
				at := strings.ReplaceAll(path, "{"+p["name"].(string)+"}", value)
				if p["in"] == "query" {
					at = strings.NewReplacer("{", "", "}", "").Replace(path) + "?" + url.Values{p["name"].(string): {value}}.Encode()
				}
				body := ""
				if r.method == "POST" {
					body = "{}"
				}
				tried++
				if a := b.do(r.method, at, body, "Content-Type", "application/json"); a.status != 422 {
					t.Errorf("%s %s: %d %.200s, want 422", r.method, at, a.status, a.body)
				}
			}
		}
	}
	if tried < 50 {
		t.Errorf("%d calls were tried: are there no integers any more?", tried)
	}
}
