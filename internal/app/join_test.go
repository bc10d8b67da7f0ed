package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"skein.dev/skein/internal/authority"
	"skein.dev/skein/internal/certificate/certtest"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/store"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/api/worker/v1/workerv1connect"
)

// joinBed is a node with TLS on SQLite, and its client.
type joinBed struct {
	*testing.T
	n *Node
	k *skein.Client
}

func newJoinBed(t *testing.T, flags map[string]string) *joinBed {
	cert, key := certtest.Files(t)
	all := map[string]string{"tls-cert": cert, "tls-key": key}
	for k, v := range flags {
		all[k] = v
	}
	n, k, _ := startNode(t, testConfig(t, all))
	return &joinBed{t, n, k}
}

func (b *joinBed) invite(req api.TokenRequest) api.NewToken {
	b.Helper()
	req.Kind = store.TokenInvite
	t, err := b.k.CreateToken(b.Context(), req)
	if err != nil {
		b.Fatal(err)
	}
	return t
}

func (b *joinBed) config(name string) *config.Config {
	return &config.Config{Data: filepath.Join(b.TempDir(), "worker"), Name: name, Server: []string{b.n.URL()}}
}

// joins lets a worker join.
func (b *joinBed) joins(req api.TokenRequest) *Membership {
	b.Helper()
	inv := b.invite(req)
	m, err := JoinWorker(b.Context(), b.config(req.Name), Invitation{inv.Secret, inv.Authority})
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// client calls with a certificate.
func (b *joinBed) client(m *Membership) workerv1connect.WorkersClient {
	b.Helper()
	t, err := m.transport(&http.Transport{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(t.CloseIdleConnections)
	return workerv1connect.NewWorkersClient(&http.Client{Transport: t}, b.n.URL())
}

// with returns a membership that shows other certificates.
func (m *Membership) with(chain [][]byte) *Membership {
	other := *m
	other.Chain = chain
	return &other
}

func registration(name string, slots int32, groups ...string) *workerv1.RegisterRequest {
	return &workerv1.RegisterRequest{Name: name, Uuid: uuid.NewString(), Slots: slots, Groups: groups}
}

func (b *joinBed) fails(what string, err error, code connect.Code, says string) {
	b.Helper()
	if connect.CodeOf(err) != code || !strings.Contains(err.Error(), says) {
		b.Errorf("%s: %v; want %v with %q", what, err, code, says)
	}
}

// TestJoin: an invitation is used once, and its holder can repeat the call. The certificate is renewed with
// itself.
func TestJoin(t *testing.T) {
	b := newJoinBed(t, nil)
	inv := b.invite(api.TokenRequest{Name: "w1", Groups: []string{"etl"}, Slots: 4, Namespaces: []string{"shop"}})
	cfg := b.config("w1")
	if _, err := JoinWorker(t.Context(), cfg, Invitation{inv.Secret, authority.Fingerprint([]byte("other"))}); err == nil || !strings.Contains(err.Error(), "does not show a certificate of the authority") {
		t.Fatalf("another authority: %v", err)
	}
	m, err := JoinWorker(t.Context(), cfg, Invitation{inv.Secret, inv.Authority})
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "w1" || strings.Join(m.Groups, " ") != "etl" || m.Slots != 4 || strings.Join(m.Namespaces, " ") != "shop" || m.Expires.Before(time.Now().Add(23*time.Hour)) {
		t.Errorf("%+v", m.joined)
	}
	if info, err := os.Stat(membershipFile(cfg.Data)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	before := m.Chain[0]
	if err := m.ask(t.Context(), call{&http.Transport{TLSClientConfig: authority.Pinned(inv.Authority)}, m.Servers, joinPath, inv.Secret}); err != nil || string(m.Chain[0]) == string(before) {
		t.Errorf("the same key again: %v", err)
	}
	for what, other := range map[string]*config.Config{"the used invitation": b.config("w1"), "another name": b.config("w2")} {
		_, err := JoinWorker(t.Context(), other, Invitation{inv.Secret, inv.Authority})
		if err == nil || !strings.Contains(err.Error(), "the invitation is") {
			t.Errorf("%s: %v", what, err)
		}
	}
	r, err := newRenewing(m, &http.Transport{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if due := authority.Due(r.now.Load().from, m.Expires, time.Now()); due < 15*time.Hour || due > 17*time.Hour {
		t.Errorf("renewed in %v", due)
	}
	before = m.Chain[0]
	if err := m.ask(t.Context(), call{r, m.Servers, renewPath, ""}); err != nil || string(m.Chain[0]) == string(before) {
		t.Errorf("renewal: %v", err)
	}
	if _, err := b.client(m).Register(t.Context(), registration("w1", 4, "etl")); err != nil {
		t.Errorf("the worker registers: %v", err)
	}
}

// TestCertificateBounds: a certificate speaks for its worker, within the bounds of its invitation, and nobody
// else does.
func TestCertificateBounds(t *testing.T) {
	b := newJoinBed(t, nil)
	one, two := b.joins(api.TokenRequest{Name: "w1", Groups: []string{"etl"}, Slots: 4}), b.joins(api.TokenRequest{Name: "w2"})
	c1, c2 := b.client(one), b.client(two)
	_, err := c1.Register(t.Context(), registration("w2", 1))
	b.fails("another name", err, connect.CodePermissionDenied, "FORGED")
	_, err = c1.Register(t.Context(), registration("w1", 5))
	b.fails("more slots", err, connect.CodeInvalidArgument, "its certificate allows 4")
	_, err = c1.Register(t.Context(), registration("w1", 4, "etl", "secure"))
	b.fails("another group", err, connect.CodeInvalidArgument, "the group secure")
	in := registration("w1", 4, "etl")
	is, err := c1.Register(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c2.Register(t.Context(), registration("w2", 100)); err != nil {
		t.Fatal(err)
	}
	_, err = c2.Poll(t.Context(), &workerv1.PollRequest{Handler: is.Handler, Lease: is.Lease, Uuid: in.Uuid})
	b.fails("a poll as another worker", err, connect.CodePermissionDenied, "FORGED")
	_, err = c2.Report(t.Context(), &workerv1.ReportRequest{Handler: is.Handler, Lease: is.Lease, Uuid: in.Uuid})
	b.fails("a report as another worker", err, connect.CodePermissionDenied, "FORGED")

	token, err := b.k.CreateToken(t.Context(), api.TokenRequest{Kind: "worker", Name: "any"})
	if err != nil {
		t.Fatal(err)
	}
	bearer := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			r.Header().Set("Authorization", "Bearer "+token.Secret)
			return next(ctx, r)
		}
	})
	known := x509.NewCertPool()
	text, err := os.ReadFile(b.n.cfg.TLSCert)
	if err != nil {
		t.Fatal(err)
	}
	known.AppendCertsFromPEM(text)
	plain := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: known}} // it knows the operator's certificate
	t.Cleanup(plain.CloseIdleConnections)
	by := workerv1connect.NewWorkersClient(&http.Client{Transport: plain}, b.n.URL(), connect.WithInterceptors(bearer))
	_, err = by.Register(t.Context(), registration("w1", 1))
	b.fails("a token under the name of a certificate", err, connect.CodePermissionDenied, "no token speaks for it")
	_, err = by.Poll(t.Context(), &workerv1.PollRequest{Handler: is.Handler, Lease: is.Lease, Uuid: in.Uuid})
	b.fails("a token in the session of a certificate", err, connect.CodePermissionDenied, "no token speaks for it")
	if _, err := by.Register(t.Context(), registration("w3", 1)); err != nil {
		t.Errorf("a token under a name of its own: %v", err)
	}
}

// TestStolenCertificates: certificates that are expired, of another kind, of an old root or revoked are
// refused, and so are requests for other names and keys.
func TestStolenCertificates(t *testing.T) {
	b := newJoinBed(t, nil)
	m := b.joins(api.TokenRequest{Name: "w1"})
	hour := func(at time.Duration, life time.Duration) *authority.Authority {
		a := authority.New(authority.Config{Vault: dbadmin.Secrets(b.n.cfg, b.n.store), Life: life, Now: func() time.Time { return time.Now().Add(at) }})
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
	register := func(m *Membership) error {
		_, err := b.client(m).Register(t.Context(), registration(m.Name, 1))
		return err
	}
	old, err := hour(-48*time.Hour, 24*time.Hour).Worker(key, "w1")
	if err != nil {
		t.Fatal(err)
	}
	b.refuses("an expired certificate", must(m.with(old.Chain).transport(&http.Transport{})), http.StatusUnauthorized, "not valid at this time")
	node, err := b.n.authority.Node("n1")
	if err != nil {
		t.Fatal(err)
	}
	b.refuses("the certificate of a node", m.client(t, node), http.StatusForbidden, "worker.call")
	mine, err := m.transport(&http.Transport{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mine.CloseIdleConnections)
	for path, want := range map[string]int{"/internal/v1/report": http.StatusForbidden, "/api/v1/runs": http.StatusUnauthorized} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, b.n.URL()+path, strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		resp, err := (&http.Client{Transport: mine}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s with the certificate of a worker: %s", path, resp.Status)
		}
	}
	foreign, err := newMember(b.config("w1"))
	if err != nil {
		t.Fatal(err)
	}
	foreign.Servers = m.Servers
	if err := foreign.ask(t.Context(), call{mine, m.Servers, renewPath, ""}); err == nil || !strings.Contains(err.Error(), "another key") {
		t.Errorf("a renewal with another key: %v", err)
	}
	foreign.Name = "w2"
	if err := foreign.ask(t.Context(), call{mine, m.Servers, renewPath, ""}); err == nil || !strings.Contains(err.Error(), "is of the worker w1") {
		t.Errorf("a renewal for another name: %v", err)
	}
	if err := register(m); err != nil {
		t.Fatal(err)
	}
	long, err := hour(0, 30*24*time.Hour).Worker(key, "w1")
	if err != nil {
		t.Fatal(err)
	}
	if err := hour(-48*time.Hour, 24*time.Hour).Rotate(t.Context(), "ann", time.Time{}); err != nil { // the change ended yesterday
		t.Fatal(err)
	}
	if err := b.n.authority.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	next, err := b.n.authority.Worker(key, "w1")
	if err != nil {
		t.Fatal(err)
	}
	m.Roots = b.n.authority.Trusted()
	b.refuses("a certificate of the old root", must(m.with(long.Chain).transport(&http.Transport{})), http.StatusUnauthorized, "none of the internal certificate authority")
	m.Chain = next.Chain
	if err := m.ask(t.Context(), call{must(m.transport(&http.Transport{})), m.Servers, renewPath, ""}); err != nil {
		t.Errorf("a certificate of the new root: %v", err)
	}
	all, err := b.k.Tokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, is := range all.Items {
		if is.Kind == store.TokenCertificate && is.Worker == "w1" {
			if _, err := b.k.RevokeToken(t.Context(), is.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "the revoked certificate is refused", func() bool { return connect.CodeOf(register(m)) == connect.CodeUnauthenticated })
	if ok, err := b.n.gate.Certified(t.Context(), "w1"); ok || err != nil {
		t.Errorf("the name is not free: %v, %v", ok, err)
	}
}

// client calls with another certificate.
func (m *Membership) client(t *testing.T, shows *tls.Certificate) *http.Transport {
	tr := must(m.transport(&http.Transport{}))
	tr.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shows, nil }
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// refuses makes a registration that the gate refuses with a reason.
func (b *joinBed) refuses(what string, by *http.Transport, status int, says string) {
	b.Helper()
	b.Cleanup(by.CloseIdleConnections)
	resp, err := (&http.Client{Transport: by}).Post(b.n.URL()+workerv1connect.WorkersRegisterProcedure, "application/json", strings.NewReader("{}"))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status || !strings.Contains(string(text), says) {
		b.Errorf("%s: %s %s, %v; want %d with %q", what, resp.Status, text, err, status, says)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestInviteRefused: an invitation has an end, and a name that a worker can have.
func TestInviteRefused(t *testing.T) {
	b := newJoinBed(t, nil)
	for what, req := range map[string]api.TokenRequest{
		"no name":           {Name: "*"},
		"a name with space": {Name: "a b"},
		"several of one":    {Name: "w1", Uses: 2},
		"a bad namespace":   {Name: "w1", Namespaces: []string{"~skein"}},
		"no end":            {Name: "w1", NeverExpires: true},
		"a late end":        {Name: "w1", Expires: &api.Time{Time: time.Now().Add(8 * 24 * time.Hour)}},
		"a no-break space":  {Name: "a\u00a0b"},
		"a line separator":  {Name: "a\u2028b"},
		"a next line":       {Name: "a\u0085b"},
		"a spaced group":    {Name: "w1", Groups: []string{"a\u00a0b"}},
		"a bad group":       {Name: "w1", Groups: []string{"a b"}},
	} {
		req.Kind = store.TokenInvite
		if _, err := b.k.CreateToken(t.Context(), req); err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
	inv := b.invite(api.TokenRequest{Name: "rack-*", Uses: 2})
	for _, c := range []struct {
		name string
		ok   bool
	}{{"rack-", false}, {"w1", false}, {"rack-1", true}, {"rack-2", true}, {"rack-3", false}} {
		if _, err := JoinWorker(t.Context(), b.config(c.name), Invitation{inv.Secret, inv.Authority}); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
