package joining

import (
	"crypto/tls"
	"crypto/x509"
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
)

// TestJoin checks that an invitation can be used once, that its holder can repeat the call, and that a
// certificate can be used to renew itself.
func TestJoin(t *testing.T) {
	b := newBed(t)
	inv, w := b.invite("w1", store.Token{Groups: "etl", Slots: 4, Namespaces: "shop"}), b.worker("w1")
	if _, err := Join(t.Context(), w, Invitation{inv.Secret, authority.Fingerprint([]byte("other"))}); err == nil || !strings.Contains(err.Error(), "does not show a certificate of the authority") {
		t.Fatalf("another authority: %v", err)
	}
	m, err := Join(t.Context(), w, inv)
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "w1" || strings.Join(m.Groups, " ") != "etl" || m.Slots != 4 || strings.Join(m.Namespaces, " ") != "shop" || m.Expires.Before(time.Now().Add(23*time.Hour)) {
		t.Errorf("%+v", m.Grant)
	}
	if info, err := os.Stat(fileIn(w.Data)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	before := m.Chain[0]
	if err := m.ask(t.Context(), call{&http.Transport{TLSClientConfig: authority.Pinned(inv.Fingerprint)}, m.Servers, JoinPath, inv.Secret}); err != nil || string(m.Chain[0]) == string(before) {
		t.Errorf("the same key again: %v", err)
	}
	for what, other := range map[string]Candidate{"the used invitation": b.worker("w1"), "another name": b.worker("w2")} {
		if _, err := Join(t.Context(), other, inv); err == nil || !strings.Contains(err.Error(), "the invitation is") {
			t.Errorf("%s: %v", what, err)
		}
	}
	r, err := NewWorkerTransport(m, &http.Transport{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if due := authority.Due(r.now.Load().from, m.Expires, time.Now()); due < 15*time.Hour || due > 17*time.Hour {
		t.Errorf("renewed in %v", due)
	}
	before = m.Chain[0]
	if err := m.ask(t.Context(), call{r, m.Servers, RenewPath, ""}); err != nil || string(m.Chain[0]) == string(before) {
		t.Errorf("renewal: %v", err)
	}
	b.registers("the worker", b.transport(m, m.Chain))
}

// TestStolenCertificates checks that nodes refuse certificates that are expired, of another kind, of an old
// root or revoked, and requests for other names or keys.
func TestStolenCertificates(t *testing.T) {
	b := newBed(t)
	m := b.joins("w1")
	hour := func(at, life time.Duration) *authority.Authority {
		a := authority.New(authority.Config{Vault: b.vault, Life: life, Now: func() time.Time { return time.Now().Add(at) }})
		if err := a.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		return a
	}
	csr, err := m.request()
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := authority.Request(csr)
	if err != nil {
		t.Fatal(err)
	}
	issued := func(is authority.Issued, err error) [][]byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return is.Chain
	}
	old := issued(hour(-48*time.Hour, 24*time.Hour).Worker(key, "w1"))
	b.refuses("an expired certificate", b.transport(m, old), http.StatusUnauthorized, "not valid at this time")
	node, err := b.a.Node("n1")
	if err != nil {
		t.Fatal(err)
	}
	is, err := b.a.Verify(t.Context(), parsed(t, node.Certificate))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.st.EnrollNode(t.Context(), store.Enrolling{Name: store.NodeTokenName("n1"), Hash: is.Key, Life: 3600e6}); err != nil {
		t.Fatal(err)
	}
	shows := b.transport(m, nil)
	shows.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return node, nil }
	b.refuses("the certificate of a node", shows, http.StatusForbidden, "worker.call")
	mine := b.transport(m, m.Chain)
	for path, want := range map[string]int{"/internal/v1/report": http.StatusForbidden, "/api/v1/runs": http.StatusUnauthorized} {
		if status, _ := b.posts(mine, path); status != want {
			t.Errorf("%s with the certificate of a worker: %d", path, status)
		}
	}
	foreign, err := newMembership("w1", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := foreign.ask(t.Context(), call{mine, m.Servers, RenewPath, ""}); err == nil || !strings.Contains(err.Error(), "another key") {
		t.Errorf("a renewal with another key: %v", err)
	}
	foreign.Name = "w2"
	if err := foreign.ask(t.Context(), call{mine, m.Servers, RenewPath, ""}); err == nil || !strings.Contains(err.Error(), "is of the worker w1") {
		t.Errorf("a renewal for another name: %v", err)
	}
	b.registers("the worker", mine)
	long := issued(hour(0, 30*24*time.Hour).Worker(key, "w1"))
	// The change of roots ended yesterday.
	if err := hour(-48*time.Hour, 24*time.Hour).Rotate(t.Context(), "ann", time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := b.a.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := issued(b.a.Worker(key, "w1"))
	m.Roots = b.a.Trusted()
	b.refuses("a certificate of the old root", b.transport(m, long), http.StatusUnauthorized, "did not issue the certificate")
	if err := m.ask(t.Context(), call{b.transport(m, next), m.Servers, RenewPath, ""}); err != nil {
		t.Errorf("a certificate of the new root: %v", err)
	}
	b.revokes("w1")
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		status, _ := b.posts(b.transport(m, m.Chain), registerPath)
		if status == http.StatusUnauthorized {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the revoked certificate: %d", status)
		}
	}
	if ok, err := b.gate.Certified(t.Context(), "w1"); ok || err != nil {
		t.Errorf("the name is not free: %v, %v", ok, err)
	}
}

// TestJoinAgain checks that a worker that joins again keeps its certificate until it gets another one.
func TestJoinAgain(t *testing.T) {
	b := newBed(t)
	w := b.worker("w1")
	join := func(inv Invitation, says string) *Membership {
		t.Helper()
		m, err := Join(t.Context(), w, inv)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Fatalf("%v; want %q", err, says)
		}
		return m
	}
	kept := func(want *Membership, same bool) {
		t.Helper()
		m, err := Read(w.Data)
		if err != nil {
			t.Fatal(err)
		}
		if (string(m.Key) == string(want.Key)) != same || len(m.Chain) == 0 {
			t.Errorf("the key of before: %v, want %v; %d certificates", !same, same, len(m.Chain))
		}
	}
	if _, err := Read(w.Data); !errors.Is(err, ErrNotJoined) {
		t.Errorf("before: %v", err)
	}
	first := b.invite("w1", store.Token{})
	one := join(first, "")
	kept(join(first, ""), true) // the same key again, as after a lost answer
	kept(one, true)
	join(b.invite("w1", store.Token{}), "has a certificate that is valid")
	kept(one, true)
	unknown := first
	unknown.Secret = auth.NewSecret(store.TokenInvite)
	join(unknown, "unknown")
	kept(one, true)
	b.registers("the certificate of before", b.transport(one, one.Chain))
	b.revokes("w1")
	two := join(b.invite("w1", store.Token{}), "")
	kept(two, true)
	kept(one, false)
	if _, err := os.Stat(fileIn(w.Data) + nextSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the key that waited: %v", err)
	}
}

// TestCutOff checks that a worker whose first call was cut off joins with the key that it made then.
func TestCutOff(t *testing.T) {
	b := newBed(t)
	w, inv := b.worker("w1"), b.invite("w1", store.Token{})
	away := w
	away.Servers = []string{"https://127.0.0.1:1"}
	if _, err := Join(t.Context(), away, inv); err == nil {
		t.Fatal("no node has answered, and the worker has joined")
	}
	begun, err := readFile(fileIn(w.Data) + nextSuffix)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read(w.Data); err == nil || errors.Is(err, ErrNotJoined) {
		t.Errorf("a worker that has begun to join: %v", err)
	}
	m, err := Join(t.Context(), w, inv)
	if err != nil || string(m.Key) != string(begun.Key) {
		t.Errorf("it joins with another key: %v", err)
	}
}

// TestInvitedBeforeRotate checks that an open invitation stays usable when the roots change.
func TestInvitedBeforeRotate(t *testing.T) {
	b := newBed(t)
	inv := b.invite("w1", store.Token{})
	if err := b.a.Rotate(t.Context(), "ann", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	m, err := Join(t.Context(), b.worker("w1"), inv)
	if err != nil {
		t.Fatal(err)
	}
	b.registers("the worker", b.transport(m, m.Chain))
}

// TestRenewals checks that a worker tries the next node after any error. After its certificate has ended, the
// worker makes no other calls, and tries a renewal once a minute.
func TestRenewals(t *testing.T) {
	b := newBed(t)
	m := b.joins("w1")
	before := m.Chain[0]
	servers := serversOf([]string{"http://127.0.0.1:1", "https://127.0.0.1:1"}, m.Servers, m.Servers)
	if len(servers) != 3 {
		t.Errorf("%v", servers)
	}
	if err := m.ask(t.Context(), call{b.transport(m, m.Chain), servers, RenewPath, ""}); err != nil || string(m.Chain[0]) == string(before) {
		t.Errorf("renewal at the third: %v", err)
	}
	m.Expires = time.Now().Add(-2 * authority.Skew)
	r, err := NewWorkerTransport(m, &http.Transport{}, slog.New(slog.DiscardHandler))
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

func parsed(t *testing.T, chain [][]byte) []*x509.Certificate {
	t.Helper()
	all, err := authority.ParseAll(chain)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
