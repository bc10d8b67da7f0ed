package authority

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/sealed"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// bed is a database with several nodes, whose clocks the test sets.
type bed struct {
	*testing.T
	vault *sealed.Book
	now   time.Time
}

func newBed(t *testing.T) *bed {
	return &bed{t, &sealed.Book{Store: memory.New(memory.Options{}), File: filepath.Join(t.TempDir(), "key"), Own: true}, time.Date(2026, 11, 27, 4, 0, 0, 0, time.UTC)}
}

func (b *bed) node() *Authority {
	b.Helper()
	a := New(Config{Vault: b.vault, Now: func() time.Time { return b.now }})
	if err := a.Load(b.Context()); err != nil {
		b.Fatal(err)
	}
	return a
}

func (b *bed) key() *ecdsa.PrivateKey {
	b.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	return k
}

// worker is the chain of a new certificate.
func (b *bed) worker(a *Authority, name string) []*x509.Certificate {
	b.Helper()
	is, err := a.Worker(&b.key().PublicKey, name)
	if err != nil {
		b.Fatal(err)
	}
	return b.parse(is.Chain)
}

func (b *bed) parse(chain [][]byte) (all []*x509.Certificate) {
	b.Helper()
	for _, der := range chain {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

func (b *bed) accepted(a *Authority, chain []*x509.Certificate, worker string) {
	b.Helper()
	if is, err := a.Verify(b.Context(), chain); err != nil || is.Worker != worker || is.Node != "" || len(is.Key) != 32 {
		b.Errorf("%+v, %v; want the worker %s", is, err, worker)
	}
}

func (b *bed) refused(a *Authority, chain []*x509.Certificate, says string) {
	b.Helper()
	is, err := a.Verify(b.Context(), chain)
	var refusal *Refusal
	if !errors.As(err, &refusal) || !strings.Contains(err.Error(), says) {
		b.Errorf("%+v, %v; want a refusal that says %q", is, err, says)
	}
}

// TestLife: a certificate is valid for a day at every node. Nodes of another database refuse it.
func TestLife(t *testing.T) {
	b := newBed(t)
	one, two := b.node(), b.node()
	if err := one.Make(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(lookAgain)
	w := b.worker(one, "w1")
	b.accepted(one, w, "w1")
	b.accepted(two, w, "w1")
	foreign := newBed(t)
	other := foreign.node()
	foreign.refused(other, w, "did not issue the certificate")
	if err := other.Make(t.Context(), "bob"); err != nil {
		t.Fatal(err)
	}
	foreign.refused(other, w, "did not issue the certificate")
	b.refused(one, foreign.worker(other, "w1"), "did not issue the certificate")
	b.now = b.now.Add(LifeDefault - time.Second)
	b.accepted(one, w, "w1")
	b.now = b.now.Add(2 * time.Second)
	b.refused(one, w, "is not valid at this time")
	b.refused(two, w, "is not valid at this time")
}

// TestMade: however many nodes make the authority at the same time, only one authority exists.
func TestMade(t *testing.T) {
	b := newBed(t)
	one, two := b.node(), b.node()
	for _, a := range []*Authority{one, two, one} {
		if err := a.Make(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
	}
	if len(one.Roots()) != 1 || one.Roots()[0] != two.Roots()[0] {
		t.Errorf("%v, %v", one.Roots(), two.Roots())
	}
	none := newBed(t).node()
	if _, err := none.Worker(&b.key().PublicKey, "w1"); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
	if err := none.Rotate(t.Context(), "ann", time.Time{}); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}

// TestRotate: during a change of the root, certificates of both roots are accepted, also by nodes and workers
// that know only the old root. After the change, the old root is no longer valid.
func TestRotate(t *testing.T) {
	b := newBed(t)
	one := b.node()
	if err := one.Make(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	late := b.node() // it has not read the new root yet
	old := b.worker(one, "w1")
	long := New(Config{Vault: b.vault, Now: one.cfg.Now, Life: 5 * LifeDefault}) // a node with a longer certificate_life
	if err := long.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	lasting, latest := b.worker(long, "w2"), b.now.Add(2*LifeDefault)
	before := x509.NewCertPool()
	before.AddCert(old[len(old)-1])
	if err := one.Rotate(t.Context(), "ann", latest); err != nil {
		t.Fatal(err)
	}
	next := b.worker(one, "w1")
	if equal(next[len(next)-1].Raw, old[len(old)-1].Raw) {
		t.Error("the new certificate is of the old root")
	}
	for _, a := range []*Authority{one, late} {
		b.accepted(a, old, "w1")
		b.accepted(a, next, "w1")
	}
	node, err := one.Node("n1")
	if err != nil {
		t.Fatal(err)
	}
	shown, between := b.parse(node.Certificate), x509.NewCertPool()
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	if _, err := shown[0].Verify(x509.VerifyOptions{Roots: before, Intermediates: between, DNSName: ServerName, CurrentTime: b.now}); err != nil {
		t.Errorf("a worker that knows the old root, at a node of the new one: %v", err)
	}
	if err := one.Rotate(t.Context(), "ann", time.Time{}); !errors.Is(err, ErrChanging) {
		t.Errorf("a change during a change: %v", err)
	}
	pinned := false // by the fingerprint in an invitation that was made before the change
	for _, c := range shown[1:] {
		pinned = pinned || equal(c.Raw, old[len(old)-1].Raw)
	}
	if !pinned || len(shown) > chainMax {
		t.Errorf("the node shows %d certificates, the old root among them: %v", len(shown), pinned)
	}
	b.now = latest.Add(Skew - time.Second)
	b.accepted(one, lasting, "w2")
	b.now = b.now.Add(2 * time.Second)
	// The certificate has not expired, but its root has ended.
	b.refused(one, lasting, "did not issue the certificate")
	if roots := one.Roots(); roots[0].Trusted || !roots[1].Trusted || !roots[1].Issues {
		t.Errorf("%+v", roots)
	}
	if len(one.Trusted()) != 1 {
		t.Errorf("%d roots count", len(one.Trusted()))
	}
	if err := one.Rotate(t.Context(), "ann", time.Time{}); err != nil {
		t.Error(err)
	}
}

// TestOldRoot: if a certificate of the old root lasts longer than the change of the root, nodes refuse it
// after the change.
func TestOldRoot(t *testing.T) {
	b := newBed(t)
	long := New(Config{Vault: b.vault, Now: func() time.Time { return b.now }, Life: 30 * LifeDefault})
	if err := long.Make(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	old, a := b.worker(long, "w1"), b.node()
	b.accepted(a, old, "w1")
	if err := a.Rotate(t.Context(), "ann", time.Time{}); err != nil {
		t.Fatal(err)
	}
	b.accepted(a, old, "w1")
	b.now = b.now.Add(LifeDefault + Skew)
	b.refused(a, old, "did not issue the certificate")
}

// TestNames: a certificate proves the name of its kind, and only as a client.
func TestNames(t *testing.T) {
	b := newBed(t)
	a := b.node()
	if err := a.Make(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	node, err := a.Node("n1")
	if err != nil {
		t.Fatal(err)
	}
	if is, err := a.Verify(t.Context(), b.parse(node.Certificate)); err != nil || is.Node != "n1" || is.Worker != "" {
		t.Errorf("%+v, %v", is, err)
	}
	if again, _ := a.Node("n1"); again != node {
		t.Error("the node has another certificate already")
	}
	b.now = b.now.Add(LifeDefault * 2 / 3)
	if again, _ := a.Node("n1"); again == node {
		t.Error("the certificate of the node is not renewed")
	}
	w := b.worker(a, "w/1 ü")
	b.accepted(a, w, "w/1 ü")
	if err := w[0].VerifyHostname(ServerName); err == nil {
		t.Error("a worker can speak as a node")
	}
	root := w[len(w)-1]
	b.refused(a, []*x509.Certificate{root}, "")
}

// TestRequest: a request for a certificate must be signed with its own key, and the key must be of a known
// kind.
func TestRequest(t *testing.T) {
	b := newBed(t)
	key := b.key()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "w1"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	if is, name, err := Request(der); err != nil || name != "w1" || !key.PublicKey.Equal(is) {
		t.Errorf("%v, %q, %v", is, name, err)
	}
	der[len(der)-1] ^= 1
	if _, _, err := Request(der); err == nil {
		t.Error("a request that is not signed")
	}
	if _, _, err := Request([]byte("x")); err == nil {
		t.Error("no request")
	}
}

// TestUnreadable: without the key of the secrets, no certificate is issued or accepted, and the error names
// the reason.
func TestUnreadable(t *testing.T) {
	b := newBed(t)
	a := b.node()
	if err := a.Make(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	w := b.worker(a, "w1")
	blind := New(Config{Vault: &sealed.Book{Store: b.vault.Store}, Now: func() time.Time { return b.now }})
	if err := blind.Load(context.Background()); !errors.Is(err, sealed.ErrKey) {
		t.Error(err)
	}
	var refusal *Refusal
	if _, err := blind.Verify(t.Context(), w); !errors.Is(err, sealed.ErrKey) || errors.As(err, &refusal) {
		t.Error(err)
	}
	if _, err := blind.Worker(&b.key().PublicKey, "w1"); !errors.Is(err, sealed.ErrKey) {
		t.Error(err)
	}
}

// TestReplace: if a root is ended at once, no node accepts it, not even during a change of the root, or if
// the node has not read the new one.
func TestReplace(t *testing.T) {
	b := newBed(t)
	one, none := b.node(), newBed(t).node()
	if err := none.Replace(t.Context(), "ann"); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
	if err := one.Make(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	late := b.node()
	first := b.worker(one, "w1")
	if err := one.Rotate(t.Context(), "ann", time.Time{}); err != nil {
		t.Fatal(err)
	}
	second := b.worker(one, "w2")
	b.now = b.now.Add(lookAgain)
	if err := one.Replace(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	third := b.worker(one, "w3")
	if err := late.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, a := range []*Authority{one, late} {
		b.refused(a, first, "did not issue the certificate")
		b.refused(a, second, "did not issue the certificate")
		b.accepted(a, third, "w3")
		if len(a.Trusted()) != 1 || len(a.Roots()) != 1 {
			t.Errorf("%+v", a.Roots())
		}
	}
	if err := one.Rotate(t.Context(), "ann", time.Time{}); err != nil {
		t.Errorf("a change after the end of a change: %v", err)
	}
}

// TestNodeRows: the certificate of a node has a row before it is used. A node whose row was revoked makes
// another key, and a node that cannot write its row continues to use its present certificate.
func TestNodeRows(t *testing.T) {
	b := newBed(t)
	st := b.vault.Store.(*memory.Store)
	a := New(Config{Vault: b.vault, Rows: st, Now: func() time.Time { return b.now }})
	if err := a.Make(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	row := func(is *tls.Certificate) store.Token {
		t.Helper()
		found, err := a.Verify(t.Context(), b.parse(is.Certificate))
		if err != nil {
			t.Fatal(err)
		}
		r, err := st.TokenByHash(t.Context(), found.Key)
		if err != nil || r.Name != store.NodeTokenName("n1") || r.Kind != store.TokenCertificate {
			t.Fatal(r, err)
		}
		return r
	}
	made := func() *tls.Certificate {
		t.Helper()
		is, err := a.Node("n1")
		if err != nil || is == nil {
			t.Fatal(is, err)
		}
		return is
	}
	first := made()
	was := row(first)
	b.now = b.now.Add(LifeDefault * 2 / 3)
	if next := made(); next == first || row(next).ID != was.ID || !next.PrivateKey.(*ecdsa.PrivateKey).Equal(first.PrivateKey) {
		t.Error("a renewed certificate has another key or another row")
	}
	a.checkOwn(t.Context())
	kept := made()
	if err := st.RevokeToken(t.Context(), was.ID); err != nil {
		t.Fatal(err)
	}
	a.checkOwn(t.Context())
	if next := made(); next.PrivateKey.(*ecdsa.PrivateKey).Equal(kept.PrivateKey) || row(next).ID == was.ID {
		t.Error("a revoked node goes on with its key")
	}
	last := made()
	a.cfg.Rows = away{}
	b.now = b.now.Add(LifeDefault * 2 / 3)
	if made() != last {
		t.Error("a node that cannot write its row has another certificate")
	}
}

// TestReplaceWhileEnrolling: if the root is ended while a node writes the row of its certificate, the node
// does not use a certificate of that root afterwards.
func TestReplaceWhileEnrolling(t *testing.T) {
	b := newBed(t)
	rows := &replacing{Rows: b.vault.Store.(*memory.Store)}
	a := New(Config{Vault: b.vault, Rows: rows, Now: func() time.Time { return b.now }})
	if err := a.Make(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	rows.meanwhile = func() error { return a.Replace(t.Context(), "ann") }
	first, err := a.Node("n1")
	if err != nil {
		t.Fatal(err)
	}
	b.refused(a, b.parse(first.Certificate), "did not issue the certificate")
	next, err := a.Node("n1")
	if err != nil {
		t.Fatal(err)
	}
	if is, err := a.Verify(t.Context(), b.parse(next.Certificate)); err != nil || is.Node != "n1" {
		t.Errorf("the certificate after it: %+v, %v", is, err)
	}
	if again, err := a.Node("n1"); err != nil || again != next {
		t.Errorf("another certificate is made: %v", err)
	}
}

// replacing is a Rows that calls the function meanwhile once, when the first row is written.
type replacing struct {
	Rows
	meanwhile func() error
}

func (r *replacing) EnrollNode(ctx context.Context, n store.Enrolling) (store.Token, error) {
	if run := r.meanwhile; run != nil {
		r.meanwhile = nil
		if err := run(); err != nil {
			return store.Token{}, err
		}
	}
	return r.Rows.EnrollNode(ctx, n)
}

// away is a Rows that cannot be written.
type away struct{ Rows }

func (away) EnrollNode(context.Context, store.Enrolling) (store.Token, error) {
	return store.Token{}, store.ErrUnavailable
}
