package server_test

import (
	"strings"
	"testing"

	api "skein.dev/skein/sdk/api/v1"
)

// TestSecrets: values go in and never come out.
func TestSecrets(t *testing.T) {
	b := newBed(t, true)
	const value = "canary-of-a-value"
	set := func(path, value string) answer {
		return b.do("PUT", "/api/v1/secrets/"+path, `{"value":"`+value+`"}`, "Content-Type", "application/json")
	}
	first := want[api.Secret](t, set("shop/A", value), 200)
	if first.Namespace != "shop" || first.Name != "A" || first.Version != 1 || first.User == "" || first.CreatedAt.IsZero() {
		t.Errorf("%+v", first)
	}
	if again := want[api.Secret](t, set("shop/A", value+"2"), 200); again.Version != 2 || again.CreatedAt != first.CreatedAt {
		t.Errorf("%+v", again)
	}
	for _, path := range []string{"shop/B", "web/A", "a/Z"} {
		want[api.Secret](t, set(path, value), 200)
	}
	names := func(query string) (text string, next *string) {
		a := b.get("/api/v1/secrets" + query)
		page := want[api.List[api.Secret]](t, a, 200)
		for _, s := range page.Items {
			text += s.Namespace + "/" + s.Name + " "
		}
		if strings.Contains(a.body, value) {
			t.Errorf("a list gives a value: %s", a.body)
		}
		return text, page.Next
	}
	if all, _ := names(""); all != "a/Z shop/A shop/B web/A " {
		t.Error(all)
	}
	if some, next := names("?namespace=shop"); some != "shop/A shop/B " || next != nil {
		t.Error(some, next)
	}
	one, next := names("?namespace=shop&limit=1")
	if one != "shop/A " || next == nil {
		t.Fatal(one, next)
	}
	if two, next := names("?namespace=shop&limit=1&cursor=" + *next); two != "shop/B " || next != nil {
		t.Error(two, next)
	}
	wantProblem(t, b.get("/api/v1/secrets?namespace=web&cursor="+*next), 422, api.ProblemInvalid)
	for path, value := range map[string]string{"shop/1A": value, "Shop/A": value, "shop/A": "abc12", "shop/C": `canary\u0000value`} {
		a := set(path, value)
		if wantProblem(t, a, 422, api.ProblemInvalid); strings.Contains(a.body, value) {
			t.Errorf("a refusal gives the value: %s", a.body)
		}
	}
	a := b.do("PUT", "/api/v1/secrets/shop/A", `{"value":["`+value+`"]}`, "Content-Type", "application/json")
	if a.status/100 != 4 || strings.Contains(a.body, value) {
		t.Errorf("a refusal gives the value: %d %s", a.status, a.body)
	}
	rotated := want[api.KeyRotation](t, b.post("/api/v1/keys:rotate", `{}`), 200)
	if rotated.Sealed != 4 || rotated.Left || rotated.Key == "" {
		t.Errorf("%+v", rotated)
	}
	if a := b.do("DELETE", "/api/v1/secrets/shop/A", ""); a.status != 204 {
		t.Errorf("%+v", a)
	}
	wantProblem(t, b.do("DELETE", "/api/v1/secrets/shop/A", ""), 404, api.ProblemNotFound)
}
