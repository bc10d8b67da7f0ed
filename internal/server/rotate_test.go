package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/people"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// rotate replaces a token as a caller, and keeps the new secret under the name of the token.
func (b *rightsBed) rotate(who string, id int64, body string, status int, says string) (r api.RotatedToken) {
	b.t.Helper()
	got, text := b.call(who, "POST", fmt.Sprintf("/tokens/%d:rotate", id), body)
	if got != status || !strings.Contains(text, says) {
		b.t.Errorf("%s rotates %d: %d %s; want %d %q", who, id, got, text, status, says)
	}
	if got == 200 {
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			b.t.Error(err)
		}
		b.secrets[r.Name] = r.Secret
	}
	return r
}

// row returns the row of a token by its secret.
func (b *rightsBed) row(secret string) store.Token {
	b.t.Helper()
	return must(b.tokens.TokenByHash(b.t.Context(), must(auth.HashSecret(secret))))
}

// until waits until callers get these answers, because the gate first has to read the tokens again.
func (b *rightsBed) until(want map[string]int) {
	b.t.Helper()
	is := map[string]int{}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for who := range want {
			is[who], _ = b.call(who, "GET", "/runs?ns=web", "")
		}
		if maps.Equal(is, want) {
			return
		}
	}
	b.t.Fatalf("%v; want %v", is, want)
}

// TestRotate: the new token has the name and the rights of the old one. The old token stays valid for as long
// as the caller asked.
func TestRotate(t *testing.T) {
	b := newRightsBed(t)
	b.token(store.Token{Name: "root", Principal: store.FirstService, Verbs: "*", Namespaces: "*"})
	b.token(store.Token{Name: "ci", Principal: store.FirstService, Verbs: "run.read", Namespaces: "web"})
	first, old := b.secrets["ci"], b.row(b.secrets["ci"])
	for _, c := range []struct {
		body, says string
		status     int
	}{
		{`{"grace":"8d"}`, "grace", 422}, {`{"grace":"-1h"}`, "grace", 422}, {`{"grace":"soon"}`, "grace", 422}, {`{"more":1}`, "more", 422},
	} {
		b.rotate("root", old.ID, c.body, c.status, c.says)
	}
	r := b.rotate("root", old.ID, "", 200, "")
	if r.Replaces == nil || *r.Replaces != old.ID || r.Old.ID != old.ID || r.Old.ReplacedBy == nil || *r.Old.ReplacedBy != r.ID || r.Old.State != "valid" ||
		r.Old.ExpiresAt == nil || r.Old.ExpiresAt.Sub(r.CreatedAt.Time) != 24*time.Hour || r.ExpiresAt != nil {
		t.Errorf("%+v", r)
	}
	is := b.row(r.Secret)
	if is.Name != "ci" || is.Principal != old.Principal || is.Verbs != old.Verbs || is.Namespaces != old.Namespaces || is.Kind != old.Kind {
		t.Errorf("%+v", is)
	}
	b.secrets["first"] = first
	b.until(map[string]int{"first": 200, "ci": 200})
	b.rotate("root", old.ID, "", 409, fmt.Sprintf("replaced by the token %d", is.ID))
	list, text := b.call("root", "GET", "/tokens", "")
	if list != 200 || !strings.Contains(text, fmt.Sprintf(`"replaced_by":%d`, is.ID)) || !strings.Contains(text, fmt.Sprintf(`"replaces":%d`, old.ID)) {
		t.Error(text)
	}
	b.secrets["second"] = r.Secret
	r = b.rotate("root", is.ID, `{"grace":"0s"}`, 200, "")
	if r.Old.State != "expired" {
		t.Errorf("%+v", r.Old)
	}
	b.until(map[string]int{"first": 200, "second": 401, "ci": 200})
	must(0, b.tokens.RevokeToken(t.Context(), r.ID))
	b.rotate("root", r.ID, "", 409, "is revoked and no longer valid; make a new one")
	b.rotate("root", old.ID, "", 409, "is revoked")
	b.token(store.Token{Name: "over", Principal: store.FirstService, Verbs: "*", Namespaces: "*", Expires: 1})
	b.rotate("root", b.row(b.secrets["over"]).ID, "", 409, "is expired and no longer valid; revoke it")
	b.rotate("root", 999, "", 404, "there is no token")
	b.rotate("root", 1, `{"grace":"1h"}`, 403, "sign in") // the token 1 is the caller's own
}

// TestRotateGivesNothing: no caller gets a right by replacing a token, or keeps one after its own token has
// ended.
func TestRotateGivesNothing(t *testing.T) {
	b := newRightsBed(t)
	ann := b.principal("ann", store.PrincipalActive, store.Binding{Role: "cluster", Namespace: "*"})
	token := func(name string, t store.Token) int64 {
		t.Name, t.Namespaces = name, "*"
		b.token(t)
		return b.row(b.secrets[name]).ID
	}
	root := token("root", store.Token{Principal: store.FirstService, Verbs: "*", Expires: 4e15})
	token("narrow", store.Token{Principal: store.FirstService, Verbs: "run.read token.all user.impersonate"})
	anns := token("ann's", store.Token{Principal: ann, Verbs: "*"})
	reader := token("reader", store.Token{Principal: store.FirstService, Verbs: "run.read"})
	child := token("child", store.Token{Principal: store.FirstService, Verbs: "*", Parent: anns, Maker: ann})
	grandchild := token("grandchild", store.Token{Principal: store.FirstService, Verbs: "run.read", Parent: child, Maker: ann})
	few := b.principal("few", store.PrincipalActive, store.Binding{Role: "viewer", Namespace: "web"})
	bound := token("bound", store.Token{Principal: store.FirstService, Verbs: "run.read run.start", Maker: few})

	nobodys := token("nobody's", store.Token{Principal: b.principal("noone", store.PrincipalActive), Verbs: "*"})

	b.rotate("narrow", root, "", 403, "you can give only")
	b.rotate("narrow", nobodys, "", 403, "has only the verbs")
	b.rotate("narrow", bound, "", 403, "run.start")
	b.rotate("reader", reader, "", 403, "token.all")
	b.rotate("root", bound, "", 403, "would have more rights")
	b.rotate("root", child, "", 403, "rotate it with that token")
	b.rotate("child", anns, "", 403, "sign in")

	// The successor ends with the token that made it, which has an end.
	r := b.rotate("root", reader, "", 200, "")
	is := b.row(r.Secret)
	if is.Parent != root || is.Expires != 4e15 {
		t.Errorf("%+v", is)
	}
	// If the parent of the replaced token is below the caller, the successor has the same parent.
	is = b.row(b.rotate("ann's", grandchild, "", 200, "").Secret)
	if is.Parent != child || is.Maker != ann {
		t.Errorf("%+v", is)
	}
	must(0, b.tokens.RevokeToken(t.Context(), root))
	must(0, b.tokens.RevokeToken(t.Context(), child))
	b.until(map[string]int{"reader": 401, "grandchild": 401, "ann's": 200})
}

// TestRotateEachOther: two tokens of administrators cannot replace each other, neither directly nor through a
// token that they have made. Otherwise both successors would end with the old tokens.
func TestRotateEachOther(t *testing.T) {
	b := newRightsBed(t)
	token := func(name string, parent int64) int64 {
		b.token(store.Token{Name: name, Principal: store.FirstService, Verbs: "*", Namespaces: "*", Parent: parent})
		return b.row(b.secrets[name]).ID
	}
	one, two := token("one", 0), token("two", 0)
	below := token("below", one)
	leaf := token("leaf", below)
	b.secrets["old one"] = b.secrets["one"]
	b.rotate("two", one, "", 200, "")
	for _, who := range []string{"old one", "below"} {
		b.rotate(who, two, "", 409, "call with its successor")
	}
	b.rotate("below", leaf, "", 409, "call with its successor")
	b.rotate("one", two, "", 403, "sign in") // the successor would end with the token that it replaces

	high := token("high", two)
	low := token("low", high)
	b.rotate("two", high, `{"grace":"1h"}`, 200, "")
	b.rotate("two", low, "", 409, "the parent of its successor")
}

// TestTokenEnds: a token ends with the token that made it, also if that one is replaced, and the list shows
// the time. A token cannot have a name that commands would read as an ID.
func TestTokenEnds(t *testing.T) {
	b := newRightsBed(t)
	b.token(store.Token{Name: "root", Principal: store.FirstService, Verbs: "*", Namespaces: "*"})
	b.token(store.Token{Name: "maker", Principal: store.FirstService, Verbs: "*", Namespaces: "*"})
	maker := b.row(b.secrets["maker"]).ID
	b.token(store.Token{Name: "made", Principal: store.FirstService, Verbs: "*", Namespaces: "*", Parent: maker})
	b.secrets["old"] = b.secrets["maker"]
	end := b.rotate("root", maker, "", 200, "").Old.ExpiresAt
	is := map[string]*api.Time{}
	status, text := b.call("root", "GET", "/tokens", "")
	for _, one := range want[api.List[api.Token]](t, answer{status, nil, text}, 200).Items {
		is[fmt.Sprint(one.Name, one.Replaces == nil)] = one.ExpiresAt
	}
	if end == nil || is["madetrue"] == nil || !is["madetrue"].Equal(end.Time) || is["makertrue"] == nil || !is["makertrue"].Equal(end.Time) || is["makerfalse"] != nil {
		t.Errorf("%v; want the end %v", is, end)
	}
	status, text = b.call("made", "POST", "/tokens", `{"kind":"api","name":"below"}`)
	if made := want[api.NewToken](t, answer{status, nil, text}, 200); made.ExpiresAt == nil || !made.ExpiresAt.Equal(end.Time) {
		t.Errorf("made by what ends: %+v; want the end %v", made, end)
	}
	if status, text := b.call("root", "POST", "/tokens", `{"kind":"api","name":"123"}`); status != 422 || !strings.Contains(text, "must not be a number") {
		t.Errorf("a number for a name: %d %s", status, text)
	}
}

// TestRotateLeavesAWayIn: if a token is the last one that can administer everything, the server refuses to
// replace it by a token with fewer rights. A token that was made with a replaced one is not another way in.
func TestRotateLeavesAWayIn(t *testing.T) {
	b := newRightsBed(t)
	some := b.principal("some", store.PrincipalActive, store.Binding{Role: "cluster", Namespace: "*", Expires: 4e15})
	token := func(name string, t store.Token) int64 {
		t.Name, t.Verbs, t.Namespaces = name, "*", "*"
		b.token(t)
		return b.row(b.secrets[name]).ID
	}
	root := token("root", store.Token{Principal: store.FirstService})
	token("below", store.Token{Principal: store.FirstService, Parent: root})
	token("some's", store.Token{Principal: some})
	b.rotate("some's", root, "", 409, `"code":"conflict"`)

	next := must(b.tokens.RotateToken(t.Context(), store.Rotation{Token: root, Grace: 1e12, Hash: must(auth.HashSecret(auth.NewSecret(store.TokenAPI)))}))
	if status, body := b.call("below", "POST", fmt.Sprintf("/tokens/%d:revoke", next.ID), ""); status != 409 || !strings.Contains(body, `"code":"conflict"`) {
		t.Errorf("revoke the last token: %d %s", status, body)
	}
}

// TestTokensOfProvidersUsers: if a user's roles come from groups, and the user loses a role at a sign-in, the
// user's token loses it, too, and so does a token that was made with that token.
func TestTokensOfProvidersUsers(t *testing.T) {
	b := newRightsBed(t)
	registry := people.NewRegistry(b.tokens, people.New(b.tokens))
	signIn := func(grants ...people.Grant) store.Principal {
		t.Helper()
		who, unknown, err := registry.SignIn(t.Context(), people.Arrival{Issuer: "https://id.example", Subject: "7", Source: "oidc:corp", Names: []string{"ann"}, Grants: grants})
		if err != nil || len(unknown) > 0 {
			t.Fatal(err, unknown)
		}
		return who
	}
	ann := signIn(people.Grant{Role: "operator", Namespace: "web"})
	b.token(store.Token{Name: "ann's", Principal: ann.ID, Maker: ann.ID, Verbs: "*", Namespaces: "*"})
	b.token(store.Token{Name: "made", Principal: store.FirstService, Verbs: "*", Namespaces: "*", Parent: b.row(b.secrets["ann's"]).ID})
	starts := func(want int) {
		t.Helper()
		for _, who := range []string{"ann's", "made"} {
			if got, text := b.call(who, "POST", "/runs", `{"workflow":"web/w"}`); got != want {
				t.Errorf("%s starts a run: %d %s; want %d", who, got, text, want)
			}
		}
	}
	b.until(map[string]int{"ann's": 200, "made": 200})
	starts(202)
	signIn() // the user is in no group any more
	b.until(map[string]int{"ann's": 403, "made": 403})
	signIn(people.Grant{Role: "viewer", Namespace: "web"})
	b.until(map[string]int{"ann's": 200, "made": 200})
	starts(403)
}
