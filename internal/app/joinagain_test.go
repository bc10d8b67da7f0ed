package app

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/authority"
	"skein.dev/skein/internal/store"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// revokes ends the certificate of a worker.
func (b *joinBed) revokes(worker string) {
	b.Helper()
	all, err := b.n.store.TokenList(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for i := range all {
		if t := &all[i]; t.Kind == store.TokenCertificate && t.Name == auth.WorkerName(worker) && t.Revoked == 0 {
			if _, err := b.k.RevokeToken(b.Context(), t.ID); err != nil {
				b.Fatal(err)
			}
			return
		}
	}
	b.Fatalf("no certificate of %s", worker)
}

// TestJoinAgain: a worker that joins again in its folder keeps the certificate that it has until it has got
// another one.
func TestJoinAgain(t *testing.T) {
	b := newJoinBed(t, nil)
	cfg := b.config("w1")
	join := func(inv api.NewToken, says string) *Membership {
		t.Helper()
		m, err := JoinWorker(t.Context(), cfg, Invitation{inv.Secret, inv.Authority})
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Fatalf("%v; want %q", err, says)
		}
		return m
	}
	kept := func(want *Membership, same bool) {
		t.Helper()
		m, err := ReadMembership(cfg.Data)
		if err != nil {
			t.Fatal(err)
		}
		if (string(m.Key) == string(want.Key)) != same || len(m.Chain) == 0 {
			t.Errorf("the key of before: %v, want %v; %d certificates", !same, same, len(m.Chain))
		}
	}
	first := b.invite(api.TokenRequest{Name: "w1"})
	one := join(first, "")
	kept(join(first, ""), true) // as after an answer that was lost
	kept(one, true)
	join(b.invite(api.TokenRequest{Name: "w1"}), "has a certificate that is valid")
	kept(one, true)
	unknown := first
	unknown.Secret = auth.NewSecret(store.TokenInvite)
	join(unknown, "unknown")
	kept(one, true)
	if _, err := b.client(one).Register(t.Context(), registration("w1", 1)); err != nil {
		t.Errorf("the certificate of before: %v", err)
	}
	b.revokes("w1")
	two := join(b.invite(api.TokenRequest{Name: "w1"}), "")
	kept(two, true)
	kept(one, false)
	if _, err := os.Stat(membershipFile(cfg.Data) + nextSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the key that waited: %v", err)
	}
}

// TestRevokedInvitation: the invitation of a revoked certificate ends with it, also for other names.
func TestRevokedInvitation(t *testing.T) {
	b := newJoinBed(t, nil)
	inv := b.invite(api.TokenRequest{Name: "rack-*", Uses: 5})
	var other *Membership
	for _, name := range []string{"rack-1", "rack-2"} {
		m, err := JoinWorker(t.Context(), b.config(name), Invitation{inv.Secret, inv.Authority})
		if err != nil {
			t.Fatal(err)
		}
		other = m
	}
	b.revokes("rack-1")
	for _, name := range []string{"rack-1", "rack-3"} {
		if _, err := JoinWorker(t.Context(), b.config(name), Invitation{inv.Secret, inv.Authority}); err == nil {
			t.Errorf("%s has joined", name)
		}
	}
	if _, err := b.client(other).Register(t.Context(), registration("rack-2", 1)); err != nil {
		t.Errorf("the other worker: %v", err)
	}
}

// TestInvitedBeforeRotate: an invitation that is open at a change of roots goes on.
func TestInvitedBeforeRotate(t *testing.T) {
	b := newJoinBed(t, nil)
	inv := b.invite(api.TokenRequest{Name: "w1"})
	if _, err := skein.RotateAuthority(t.Context(), b.k); err != nil {
		t.Fatal(err)
	}
	m, err := JoinWorker(t.Context(), b.config("w1"), Invitation{inv.Secret, inv.Authority})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.client(m).Register(t.Context(), registration("w1", 1)); err != nil {
		t.Error(err)
	}
}

// TestRenewals: a renewal goes on to the next node after any error. After the end of its certificate a worker
// makes no calls, and tries to renew it once a minute.
func TestRenewals(t *testing.T) {
	b := newJoinBed(t, nil)
	m := b.joins(api.TokenRequest{Name: "w1"})
	before := m.Chain[0]
	tr := must(m.transport(&http.Transport{}))
	t.Cleanup(tr.CloseIdleConnections)
	servers := serversOf([]string{"http://127.0.0.1:1", "https://127.0.0.1:1"}, m.Servers, m.Servers)
	if len(servers) != 3 {
		t.Errorf("%v", servers)
	}
	if err := m.ask(t.Context(), call{tr, servers, renewPath, ""}); err != nil || string(m.Chain[0]) == string(before) {
		t.Errorf("renewal at the third: %v", err)
	}
	m.Expires = time.Now().Add(-2 * authority.Skew)
	r, err := newRenewing(m, &http.Transport{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if due := authority.Due(r.now.Load().from, m.Expires, time.Now()); due != authority.RenewPauseMax {
		t.Errorf("after the end the next try is in %v", due)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.Servers[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "skein worker invite w1") {
		t.Errorf("a call after the end: %v", err)
	}
}

// TestBoundOf: a row without namespaces allows none.
func TestBoundOf(t *testing.T) {
	for text, want := range map[string]string{store.All: "", "a b": "a b", "": "~none"} {
		if got := strings.Join((&store.Token{Namespaces: text}).Bound(), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
