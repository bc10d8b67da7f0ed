package server_test

import (
	"fmt"
	"strings"
	"testing"

	"skein.dev/skein/internal/store"
)

// TestPeople makes users, roles and bindings as callers with different rights. No caller grants or changes
// a right that it lacks. The last user that can administer everything stays.
func TestPeople(t *testing.T) {
	b := newRightsBed(t)
	in := func(role, ns string) store.Binding { return store.Binding{Role: role, Namespace: ns} }
	whole := func(name string, id int64) {
		b.token(store.Token{Name: name, Principal: id, Verbs: "*", Namespaces: "*"})
	}
	whole("root", store.FirstService)
	whole("webadmin", b.principal("webadmin", store.PrincipalActive, in("admin", "web")))
	is := must(b.tokens.RightsRevision(t.Context()))
	must(b.tokens.ChangeRights(t.Context(), is, store.RightsChange{PutRoles: []store.Role{{Name: "desk", Verbs: "user.write user.read member.write viewer"}}}))
	whole("desk", b.principal("desk", store.PrincipalActive, in("desk", "*")))
	whole("auditor", b.principal("auditor", store.PrincipalActive, in("auditor", "*")))
	const password, other = "correct horse battery", "staple under the moon"
	type step struct {
		who, method, path, body string
		status                  int
		says                    string
	}
	check := func(steps ...step) {
		t.Helper()
		for _, c := range steps {
			status, body := b.call(c.who, c.method, c.path, c.body)
			if status != c.status || !strings.Contains(body, c.says) {
				t.Errorf("%s %s %s %s: %d %s; want %d %q", c.who, c.method, c.path, c.body, status, body, c.status, c.says)
			}
			if strings.Contains(body, password) || strings.Contains(body, other) || strings.Contains(body, "argon2") {
				t.Errorf("%s %s tells a password or its hash: %s", c.method, c.path, body)
			}
		}
	}
	ann := fmt.Sprintf(`{"name":"Ann","password":%q,"roles":[{"role":"operator","namespace":"web"},{"role":"viewer"}]}`, password)
	check(
		step{"webadmin", "GET", "/users", "", 403, "user.read"},
		step{"webadmin", "POST", "/users", ann, 403, "user.write"},
		step{"desk", "POST", "/users", ann, 403, "run.start"},
		step{"desk", "POST", "/users", `{"name":"ann","password":"short"}`, 422, "12 characters"},
		step{"desk", "POST", "/users", `{"name":"a b"}`, 422, "not a name"},
		step{"desk", "POST", "/users", `{"name":"local"}`, 422, "reserved"},
		step{"root", "POST", "/users", `{"name":"x","roles":[{"role":"operater"}]}`, 404, "did you mean operator"},
		step{"root", "POST", "/users", `{"name":"x","roles":[{"role":"viewer","namespace":"A B"}]}`, 422, "namespace"},
		step{"root", "POST", "/users", `{"name":"x","roles":[{"role":"viewer","expires_at":"2001-01-01T00:00:00Z"}]}`, 422, "past"},
		step{"root", "POST", "/users", `{"name":"x","kind":"service","password":"` + password + `"}`, 422, "token"},
		step{"root", "POST", "/users", ann, 201, `"has_password":true`},
		step{"root", "POST", "/users", `{"name":"ANN"}`, 409, "already"},
		step{"root", "POST", "/users", `{"name":"ci","kind":"service"}`, 201, `"has_password":false`},
		step{"auditor", "GET", "/users", "", 200, `"name":"ann","kind":"user","state":"active","roles":[{"role":"operator","namespace":"web"},{"role":"viewer","namespace":"*"}]`},
		step{"auditor", "GET", "/users/Ann", "", 200, `"name":"ann"`},
		step{"auditor", "GET", "/users/nobody", "", 404, "nobody"},
		step{"auditor", "GET", "/users?limit=2", "", 200, `"next":"`},
		step{"auditor", "GET", "/users?limit=2&cursor=Y2k", "", 200, `"items":[{"name":"desk"`},

		// Roles.
		step{"desk", "POST", "/roles", `{"name":"starter","verbs":["run.start"]}`, 403, "role.write"},
		step{"root", "POST", "/roles", `{"name":"starter","verbs":["run.fly"]}`, 422, "run.fly"},
		step{"root", "POST", "/roles", `{"name":"viewer","verbs":["run.start"]}`, 422, "comes with the program"},
		step{"root", "POST", "/roles", `{"name":"Starter","verbs":["run.start","run.read"]}`, 201, `"verbs":["run.read","run.start"]`},
		step{"root", "POST", "/roles", `{"name":"starter","verbs":["key.rotate"]}`, 409, "already"},
		step{"auditor", "GET", "/roles", "", 200, `"name":"starter"`},

		// Bindings.
		step{"webadmin", "POST", "/bindings", `{"user":"ann","role":"starter","namespace":"web"}`, 201, `"namespace":"web"`},
		step{"webadmin", "POST", "/bindings", `{"user":"ann","role":"viewer","namespace":"shop"}`, 403, "member.write"},
		step{"webadmin", "POST", "/bindings", `{"user":"ann","role":"viewer"}`, 403, "member.write"},
		step{"webadmin", "POST", "/bindings", `{"user":"ann","role":"cluster","namespace":"web"}`, 403, "node.read"},
		step{"desk", "POST", "/bindings", `{"user":"desk","role":"operator","namespace":"web"}`, 403, "run.start"},
		step{"webadmin", "POST", "/bindings", `{"user":"nobody","role":"viewer","namespace":"web"}`, 404, "nobody"},
		step{"webadmin", "GET", "/bindings", "", 200, `"user":"ann","role":"starter","namespace":"web"`},
		step{"webadmin", "GET", "/bindings?namespace=shop", "", 403, "member.write"},
		step{"root", "GET", "/bindings?user=ann&limit=1", "", 200, `"next":"`},
		step{"root", "GET", "/bindings?cursor=eA", "", 422, "cursor"},
		step{"root", "DELETE", "/roles/starter", "", 409, `"code":"conflict"`},
		step{"root", "DELETE", "/roles/admin", "", 409, `"code":"conflict"`},
		step{"webadmin", "DELETE", "/bindings/ann/viewer/*", "", 403, "member.write"},
		step{"webadmin", "DELETE", "/bindings/ann/starter/web", "", 204, ""},
		step{"webadmin", "DELETE", "/bindings/ann/starter/web", "", 404, `"code":"not_found"`},
		step{"root", "DELETE", "/roles/starter", "", 204, ""},
		step{"root", "DELETE", "/roles/starter", "", 404, "starter"},

		// Only a caller with each right of the user changes the user's password and state.
		step{"desk", "POST", "/users/ann:password", `{"password":"` + other + `"}`, 403, "run.start"},
		step{"desk", "POST", "/users/ann:disable", "", 403, "run.start"},
		step{"desk", "DELETE", "/users/ann", "", 403, "run.start"},
		step{"webadmin", "POST", "/users/ann:password", `{"password":"` + other + `"}`, 403, "user.write"},
		step{"webadmin", "POST", "/users/nobody:password", `{"password":"` + other + `"}`, 403, "user.write"},
		step{"root", "POST", "/users/ci:password", `{"password":"` + other + `"}`, 409, "service"},
		step{"root", "POST", "/users/ann:password", `{"password":"password1234"}`, 422, "frequent"},
		step{"root", "POST", "/users/ann:password", `{"password":"` + other + `"}`, 204, ""},
		step{"root", "POST", "/users/ann:disable", "", 200, `"state":"disabled"`},
		step{"root", "POST", "/users/ann:enable", "", 200, `"state":"active"`},
	)

	// A role that was revoked a moment ago cannot be used, even if the node has not yet read the change.
	lost := b.principal("lost", store.PrincipalActive, in("cluster", "*"))
	whole("lost", lost)
	check(step{"lost", "GET", "/users/ci", "", 200, "ci"})
	is = must(b.tokens.RightsRevision(t.Context()))
	must(b.tokens.ChangeRights(t.Context(), is, store.RightsChange{Unbind: []store.Binding{{Subject: lost, Role: "cluster", Namespace: "*"}}}))
	check(
		step{"lost", "POST", "/bindings", `{"user":"lost","role":"cluster"}`, 403, "member.write"},
		step{"lost", "POST", "/users/ci:disable", "", 403, "user.write"},
	)
	is = must(b.tokens.RightsRevision(t.Context()))
	must(b.tokens.ChangeRights(t.Context(), is, store.RightsChange{Drop: lost}))

	// One's own password.
	users := must(b.tokens.Rights(t.Context())).Principals
	whole("annstoken", users[len(users)-2].ID)
	check(
		step{"annstoken", "POST", "/users/ann:password", `{"password":"` + password + `"}`, 403, "old"},
		step{"annstoken", "POST", "/users/ann:password", `{"old":"` + password + `","password":"` + password + `"}`, 403, "old"},
		step{"annstoken", "POST", "/users/ann:password", `{"old":"` + other + `","password":"` + password + `"}`, 204, ""},
		step{"annstoken", "POST", "/users/desk:password", `{"old":"` + password + `","password":"` + other + `"}`, 403, "user.write"},
	)

	// The last user that can administer everything stays.
	check(
		step{"root", "POST", "/users/api:disable", "", 409, "cluster"},
		step{"root", "DELETE", "/bindings/api/cluster/*", "", 409, "cluster"},
		step{"root", "DELETE", "/users/api", "", 409, "disable"},
		step{"root", "POST", "/users", `{"name":"bob","roles":[{"role":"cluster"}]}`, 201, "bob"},
		step{"root", "POST", "/users/api:disable", "", 409, "cluster"}, // the only other candidate, bob, cannot sign in
		step{"root", "POST", "/bindings", `{"user":"ann","role":"cluster","expires_at":"2099-01-01T00:00:00Z"}`, 201, "2099"},
		// The only other candidate, ann, has the role for a limited time only.
		step{"root", "POST", "/users/api:disable", "", 409, "cluster"},
		step{"root", "POST", "/users/bob:password", `{"password":"` + other + `"}`, 204, ""},
		step{"root", "DELETE", "/users/ann", "", 204, ""},
		step{"root", "DELETE", "/bindings/bob/cluster/*", "", 204, ""},
		step{"root", "POST", "/bindings", `{"user":"bob","role":"cluster"}`, 201, ""},
		step{"root", "POST", "/users/api:disable", "", 200, "disabled"},
	)
	if _, err := b.tokens.PasswordOf(t.Context(), users[len(users)-2].ID); err == nil {
		t.Error("the password of a deleted user stays")
	}
}
