package identity_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/identity"
	"skein.dev/skein/internal/identity/ldaptest"
)

// directory returns a directory with settings for the server s, changed by change.
func directory(t *testing.T, s *ldaptest.Slapd, change func(l map[string]string)) *identity.Directory {
	t.Helper()
	l := map[string]string{"name": "corp", "url": s.LDAPS, "ca_file": filepath.Join(s.Dir, "ca.pem"), "bind_dn": "cn=skein," + ldaptest.Suffix,
		"bind_password_file": filepath.Join(s.Dir, "bind"), "user_base": ldaptest.Suffix, "group_base": "ou=groups," + ldaptest.Suffix}
	if change != nil {
		change(l)
	}
	text := `{"ldap":{"roles":{"ops":["operator@shop"]}`
	for key, value := range l {
		if value == "true" {
			text += fmt.Sprintf(`,%q:true`, key)
		} else if value != "" {
			text += fmt.Sprintf(`,%q:%q`, key, value)
		}
	}
	set, err := identity.Parse(text+"}}", func(string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) ([]byte, error) {
		text, err := os.ReadFile(path)
		return []byte(strings.TrimSpace(string(text))), err
	}
	return identity.NewDirectory(*set.LDAP, read, slog.New(slog.DiscardHandler))
}

// TestDirectory signs people in with a real directory, with each form of its settings.
func TestDirectory(t *testing.T) {
	s := ldaptest.Start(t)
	byDN := func(l map[string]string) {
		delete(l, "bind_dn")
		delete(l, "bind_password_file")
		delete(l, "user_base")
		l["user_dn"] = "uid={name},ou=people," + ldaptest.Suffix
	}
	ways := map[string]func(l map[string]string){
		"ldaps":    nil,
		"StartTLS": func(l map[string]string) { l["url"] = s.LDAP },
		"plain":    func(l map[string]string) { l["url"], l["plaintext"] = s.LDAP, "true" },
		"user_dn":  byDN,
	}
	var subject string
	for way, change := range ways {
		d := directory(t, s, change)
		if err := d.Check(t.Context()); err != nil {
			t.Errorf("%s: %v", way, err)
		}
		who, err := d.SignIn(t.Context(), "ann", "Ann-Secret-1")
		if subject == "" {
			subject = who.Subject
		}
		want := identity.Person{Issuer: "ldap:corp", Subject: subject, Source: "ldap:corp", Names: []string{"ann"}, Grants: []identity.Grant{{Role: "operator", Namespace: "shop"}}}
		if err != nil || len(subject) != 36 || !reflect.DeepEqual(who, want) {
			t.Errorf("%s: %+v, %v", way, who, err)
		}
		if who, err := d.SignIn(t.Context(), "bob", "Bob-Secret-1"); err != nil || len(who.Grants) != 0 {
			t.Errorf("%s: %+v, %v", way, who, err)
		}
		for _, c := range [][2]string{
			{"ann", "wrong"}, {"ann", ""}, {"", ""}, {"", "Ann-Secret-1"}, {"nobody", "x"}, {"nopass", "x"}, {"a*", "Ann-Secret-1"}, {"*", "Ann-Secret-1"},
			{"ann)(uid=*", "Ann-Secret-1"}, {"*)(uid=ann", "Ann-Secret-1"}, {"ann,ou=people", "Ann-Secret-1"}, {"ann+cn=Ann", "Ann-Secret-1"}, {"ann\x00", "Ann-Secret-1"},
			{"away", "x"}, {`ann\2a`, "Ann-Secret-1"},
		} {
			if who, err := d.SignIn(t.Context(), c[0], c[1]); !errors.Is(err, identity.ErrNobody) {
				t.Errorf("%s: %q with %q: %+v, %v", way, c[0], c[1], who, err)
			}
		}
	}
	refused := func(what string, kind identity.Kind, change func(l map[string]string), name string) {
		t.Helper()
		who, err := directory(t, s, change).SignIn(t.Context(), name, "Ann-Secret-1")
		var r *identity.Refusal
		if !errors.As(err, &r) || r.Kind != kind {
			t.Errorf("%s: %+v, %v", what, who, err)
		}
	}
	refused("outside of the group", identity.OutsideGroup, func(l map[string]string) { l["require_group"] = "staff" }, "ann")
	refused("several accounts", identity.BadToken, func(l map[string]string) { l["user_filter"] = "(mail={name})" }, "same@example.com")
	refused("no ID", identity.BadToken, func(l map[string]string) { l["id_attribute"] = "employeeNumber" }, "ann")
	refused("another authority", identity.Away, func(l map[string]string) { l["ca_file"] = filepath.Join(s.Dir, "other-ca.pem") }, "ann")
	refused("another authority, StartTLS", identity.Away, func(l map[string]string) {
		l["url"], l["ca_file"] = s.LDAP, filepath.Join(s.Dir, "other-ca.pem")
	}, "ann")
	refused("the authorities of the system", identity.Away, func(l map[string]string) { delete(l, "ca_file") }, "ann")
	refused("a wrong password of the server", identity.Away, func(l map[string]string) { l["bind_password_file"] = filepath.Join(s.Dir, "entries.ldif") }, "ann")
	refused("a referral", identity.Away, func(l map[string]string) { l["group_base"] = "ou=away," + ldaptest.Suffix }, "ann")
	if err := directory(t, s, func(l map[string]string) { l["group_base"] = "ou=none," + ldaptest.Suffix }).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "group_base ou=none") {
		t.Errorf("a base that is not there: %v", err)
	}
	s.Stop()
	refused("away", identity.Away, nil, "ann")
}

// TestDirectoryHangs: if a directory accepts the connection and does not answer, the sign-in ends at the
// caller's deadline.
func TestDirectoryHangs(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := &ldaptest.Slapd{Dir: t.TempDir()}
	ldaptest.Certificates(t, s.Dir, "")
	for _, scheme := range []string{"ldap://", "ldaps://"} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		var r *identity.Refusal
		_, err := directory(t, s, func(set map[string]string) { set["url"] = scheme + l.Addr().String() }).SignIn(ctx, "ann", "x")
		// The connection may end a moment before the timer of ctx fires.
		if end, _ := ctx.Deadline(); !errors.As(err, &r) || r.Kind != identity.Away || time.Now().Before(end) {
			t.Errorf("%s: %v", scheme, err)
		}
		cancel()
	}
}

// TestDirectorySettings: settings that would show passwords to others, or sign no person in, are refused.
func TestDirectorySettings(t *testing.T) {
	const rest = `"name":"corp","user_dn":"uid={name},dc=x"`
	for text, says := range map[string]string{
		`{"name":"Corp","url":"ldaps://x","user_dn":"uid={name},dc=x"}`:                     "name",
		`{"url":"http://x",` + rest + `}`:                                                   "neither with",
		`{"url":"ldaps://u:p@x",` + rest + `}`:                                              "not a URL",
		`{"url":"ldap://x","plaintext":true,` + rest + `}`:                                  "loopback",
		`{"url":"ldaps://127.0.0.1","plaintext":true,` + rest + `}`:                         "plaintext",
		`{"url":"ldaps://x","name":"corp"}`:                                                 "either user_dn",
		`{"url":"ldaps://x","name":"corp","bind_dn":"cn=a","user_base":"dc=x"}`:             "bind_password_file",
		`{"url":"ldaps://x","name":"corp","user_dn":"uid=ann,dc=x"}`:                        "{name}",
		`{"url":"ldaps://x","user_filter":"(uid=ann)",` + rest + `}`:                        "{name}",
		`{"url":"ldaps://x","user_filter":"(uid={name}",` + rest + `}`:                      "user_filter",
		`{"url":"ldaps://x","group_base":"not a name",` + rest + `}`:                        "group_base",
		`{"url":"ldaps://x","require_group":"a",` + rest + `}`:                              "group_base",
		`{"url":"ldaps://x","group_base":"dc=x","roles":{"a":["b@bad name"]},` + rest + `}`: "bad name",
		`{"url":"ldaps://x","groups_claim":"g",` + rest + `}`:                               "groups_claim",
	} {
		_, err := identity.Parse(`{"ldap":`+text+`}`, func(ns string) error {
			if strings.Contains(ns, " ") {
				return fmt.Errorf("%s is not a namespace", ns)
			}
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := identity.Parse(`{"ldap":{"url":"ldap://[::1]:389","plaintext":true,`+rest+`}}`, nil); err != nil {
		t.Error(err)
	}
}
