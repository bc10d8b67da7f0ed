package server_test

import (
	"strings"
	"testing"

	"skein.dev/skein/internal/store"
)

// TestCommandChannels: a channel that runs a program on the nodes is set by callers with rights over nodes
// only. The other kinds need the verb of channels.
func TestCommandChannels(t *testing.T) {
	b := newRightsBed(t)
	is := must(b.tokens.RightsRevision(t.Context()))
	must(b.tokens.ChangeRights(t.Context(), is, store.RightsChange{PutRoles: []store.Role{
		{Name: "pager", Verbs: "alert.channel"}, {Name: "pagernodes", Verbs: "alert.channel node.control"}}}))
	for _, c := range []struct {
		role, ns, verbs string
		may, others     bool
	}{
		{"cluster", "*", "*", true, true},
		{"pagernodes", "*", "*", true, true},
		{"cluster", "*", "alert.channel", false, true}, // a token with fewer rights than its principal
		{"pagernodes", "web", "*", false, true},
		{"pager", "*", "*", false, true},
		{"admin", "*", "*", false, true},
		{"admin", "web", "*", false, true},
		{"editor", "*", "*", false, false},
		{"operator", "*", "*", false, false},
		{"viewer", "*", "*", false, false},
		{"auditor", "*", "*", false, false},
	} {
		name := c.role + c.verbs + c.ns
		b.token(store.Token{Name: name, Principal: b.principal(strings.NewReplacer("*", "x", ".", "").Replace(name), store.PrincipalActive, store.Binding{Role: c.role, Namespace: c.ns}), Verbs: c.verbs, Namespaces: "*"})
		for body, may := range map[string]bool{`{"config":{"command":{"run":["/bin/true"]}}}`: c.may, `{"config":{"log":{}}}`: c.others} {
			want := map[bool]int{true: 200, false: 403}[may]
			if status, said := b.call(name, "PUT", "/channels/web/page", body, "Content-Type", "application/json"); status != want {
				t.Errorf("%s in %s with verbs %s sets %s: %d %s, want %d", c.role, c.ns, c.verbs, body, status, said, want)
			} else if c.others && !may && !strings.Contains(said, "node.control") {
				t.Errorf("the refusal names no verb: %s", said)
			}
		}
	}
}
