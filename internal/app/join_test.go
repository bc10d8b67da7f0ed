package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/certificate/certtest"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/joining"
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
func (b *joinBed) joins(req api.TokenRequest) *joining.Membership {
	b.Helper()
	inv := b.invite(req)
	m, err := JoinWorker(b.Context(), b.config(req.Name), joining.Invitation{Secret: inv.Secret, Fingerprint: inv.Authority})
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// client calls with a certificate.
func (b *joinBed) client(m *joining.Membership) workerv1connect.WorkersClient {
	b.Helper()
	t, err := joining.NewWorkerTransport(m, &http.Transport{}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	return workerv1connect.NewWorkersClient(&http.Client{Transport: t}, b.n.URL())
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

// TestCertificateBounds checks that a certificate authenticates only its own worker, and within the bounds of
// its invitation.
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
	plain := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: known}} // the client trusts the operator's certificate
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

// TestInviteRefused checks that an invitation needs an end, and a name that a worker can have.
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
		if _, err := JoinWorker(t.Context(), b.config(c.name), joining.Invitation{Secret: inv.Secret, Fingerprint: inv.Authority}); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

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

// TestRevokedInvitation checks that the invitation of a revoked certificate ends with the certificate, also
// for other names.
func TestRevokedInvitation(t *testing.T) {
	b := newJoinBed(t, nil)
	inv := b.invite(api.TokenRequest{Name: "rack-*", Uses: 5})
	var other *joining.Membership
	for _, name := range []string{"rack-1", "rack-2"} {
		m, err := JoinWorker(t.Context(), b.config(name), joining.Invitation{Secret: inv.Secret, Fingerprint: inv.Authority})
		if err != nil {
			t.Fatal(err)
		}
		other = m
	}
	b.revokes("rack-1")
	for _, name := range []string{"rack-1", "rack-3"} {
		if _, err := JoinWorker(t.Context(), b.config(name), joining.Invitation{Secret: inv.Secret, Fingerprint: inv.Authority}); err == nil {
			t.Errorf("%s has joined", name)
		}
	}
	if _, err := b.client(other).Register(t.Context(), registration("rack-2", 1)); err != nil {
		t.Errorf("the other worker: %v", err)
	}
}
