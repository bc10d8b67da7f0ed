package server_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/identity"
	"skein.dev/skein/internal/identity/ldaptest"
	"skein.dev/skein/internal/people"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// signIns is a server that asks a directory for people without a local account.
type signIns struct {
	*bed
	gate http.Handler
}

func newSignIns(t *testing.T, directory *identity.Directory) *signIns {
	b := &signIns{bed: newBed(t, true)}
	sessions := auth.NewSessions(b.tokens)
	srv := must(server.New(server.Config{Engine: b.engine, Logs: b.logs, Tokens: b.tokens, Access: b.tokens, Passwords: people.New(b.tokens), Classes: b.tokens,
		Sessions: sessions, Directory: directory, Version: "1", LogLevel: &b.level, Listen: "skein.example:8080", Node: server.Node{Name: "node-1"}}))
	b.gate = auth.New(auth.Config{Store: b.tokens, Required: true, Sessions: sessions, Refusals: 1 << 20, Route: func(r *http.Request) auth.Route {
		row, _ := access.Match(r)
		return auth.Route{Verb: row.Verb, BodyMax: 1 << 20}
	}}).Wrap(srv.Handler())
	return b
}

func (b *signIns) change(c store.RightsChange) int64 {
	return must(b.tokens.ChangeRights(b.t.Context(), must(b.tokens.RightsRevision(b.t.Context())), c))
}

// signIn signs a person in, and returns the user of the new session.
func (b *signIns) signIn(user, password string, status int, says string) (me api.Me) {
	b.t.Helper()
	r := httptest.NewRequest("POST", api.Prefix+"/session", strings.NewReader(fmt.Sprintf(`{"user":%q,"password":%q}`, user, password)))
	r.Host = "skein.example:8080"
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	b.gate.ServeHTTP(w, r)
	if text := w.Body.String(); w.Code != status || !strings.Contains(text, says) {
		b.t.Errorf("%s signs in: %d %s; want %d %q", user, w.Code, text, status, says)
	}
	if w.Code != 200 {
		return me
	}
	r = httptest.NewRequest("GET", api.Prefix+"/me", nil)
	r.Host = "skein.example:8080"
	for _, c := range w.Result().Cookies() {
		r.AddCookie(c)
	}
	w = httptest.NewRecorder()
	b.gate.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &me); err != nil || w.Code != 200 {
		b.t.Errorf("%s: %d %s", user, w.Code, w.Body)
	}
	return me
}

// TestSignInByDirectory: people of a directory become users with the roles of their groups. They never become
// a user that exists already. While the directory is away, local accounts still work.
func TestSignInByDirectory(t *testing.T) {
	s := ldaptest.Start(t)
	set := must(identity.Parse(fmt.Sprintf(`{"ldap":{"name":"corp","url":%q,"ca_file":%q,"bind_dn":"cn=skein,%s","bind_password_file":%q,"user_base":%q,
		"group_base":%q,"roles":{"ops":["operator@shop"]}}}`, s.LDAPS, filepath.Join(s.Dir, "ca.pem"), ldaptest.Suffix, filepath.Join(s.Dir, "bind"), ldaptest.Suffix,
		ldaptest.Suffix), access.CheckNamespace))
	read := func(path string) ([]byte, error) {
		text, err := os.ReadFile(path)
		return []byte(strings.TrimSpace(string(text))), err
	}
	b := newSignIns(t, identity.NewDirectory(*set.LDAP, read, slog.New(slog.DiscardHandler)))
	const local = "seven green bottles"
	hash := must(people.New(b.tokens).Hash(t.Context(), "bob", local))
	b.change(store.RightsChange{Add: &store.Principal{Kind: store.PrincipalUser, Name: "bob", State: store.PrincipalActive}, Password: &store.Password{Hash: hash}})

	if me := b.signIn("ann", "Ann-Secret-1", 200, ""); me.Name != "ann" || len(me.Verbs["shop"]) == 0 || len(me.Verbs) != 1 {
		t.Errorf("ann: %+v", me)
	}
	if me := b.signIn("bob", local, 200, ""); me.Name != "bob" {
		t.Errorf("bob: %+v", me)
	}
	b.signIn("bob", "Bob-Secret-1", 401, "unauthenticated")
	if me := b.signIn("bob@corp", "Bob-Secret-1", 200, ""); me.Name != "bob@corp" || len(me.Verbs) != 0 {
		t.Errorf("bob of the directory: %+v", me)
	}
	b.signIn("*", "Ann-Secret-1", 401, "unauthenticated")

	// If a person has left a group, the next sign-in removes the role of the group.
	s.Change(t, "ops", "bob")
	if me := b.signIn("ann", "Ann-Secret-1", 200, ""); len(me.Verbs) != 0 {
		t.Errorf("ann without a group: %+v", me)
	}
	all := must(b.tokens.Rights(t.Context()))
	ann := must(people.Find(&all, "ann"))
	ann.State = store.PrincipalDisabled
	b.change(store.RightsChange{Set: &ann})
	b.signIn("ann", "Ann-Secret-1", 403, "sign_in_disabled")

	// Failed attempts are counted like those with local accounts.
	for range 5 {
		b.signIn("zoe", "x", 401, "unauthenticated")
	}
	b.signIn("zoe", "x", 429, "too many attempts")

	s.Stop()
	for range 7 { // these sign-ins do not count as failed attempts
		b.signIn("carl", "x", 503, "sign_in_provider_away")
	}
	b.signIn("bob", local, 200, "")
}
