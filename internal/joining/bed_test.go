package joining

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/authority"
	"skein.dev/skein/internal/certificate/certtest"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/sealed"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// bed is a node that authenticates its callers. Its home answers every call with an empty body.
type bed struct {
	*testing.T
	st    store.Store
	vault authority.Vault
	a     *authority.Authority
	gate  *auth.Gate
	url   string
}

func newBed(t *testing.T) *bed {
	st := memory.New(memory.Options{})
	b := &bed{T: t, st: st, vault: &sealed.Book{Store: st, File: filepath.Join(t.TempDir(), "key"), Own: true}}
	b.a = authority.New(authority.Config{Vault: b.vault})
	if err := b.a.Make(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	n := NewNode(Config{Name: "n1", Authority: b.a, Tokens: st, Log: log})
	b.gate = auth.New(auth.Config{Store: st, Required: true, Certificates: n, Log: log, Route: func(r *http.Request) auth.Route {
		row, _ := access.Match(r)
		return auth.Route{Verb: row.Verb, BodyMax: home.CallBytesMax}
	}})
	home := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	srv := httptest.NewUnstartedServer(b.gate.Wrap(n.Answer(home, func() {})))
	srv.TLS = n.Listen(operators(t))
	srv.StartTLS()
	t.Cleanup(srv.Close)
	b.url = srv.URL
	return b
}

// operators returns the settings of a listener whose certificate is the operator's.
func operators(t *testing.T) *tls.Config {
	t.Helper()
	cert, key := certtest.SelfSigned(t)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
}

// invite makes an invitation for a worker. bounds holds the bounds to store with it.
func (b *bed) invite(name string, bounds store.Token) Invitation {
	b.Helper()
	secret := auth.NewSecret(store.TokenInvite)
	hash, err := auth.HashSecret(secret)
	if err != nil {
		b.Fatal(err)
	}
	t := store.WholeToken(store.TokenInvite, "invitation "+name+" "+secret[len(secret)-8:], hash)
	t.Uses, t.Groups, t.Slots, t.Expires = 1, bounds.Groups, bounds.Slots, dag.Micros(time.Now().Add(time.Hour).UnixMicro())
	if bounds.Namespaces != "" {
		t.Namespaces = bounds.Namespaces
	}
	if _, err := b.st.AddToken(b.Context(), t); err != nil {
		b.Fatal(err)
	}
	roots := b.a.Roots()
	return Invitation{secret, roots[len(roots)-1].Fingerprint}
}

// worker returns a worker with a data folder of its own.
func (b *bed) worker(name string) Candidate {
	return Candidate{Name: name, Data: filepath.Join(b.TempDir(), "worker"), Servers: []string{b.url}, Transport: &http.Transport{}}
}

// joins lets a worker join with a new invitation.
func (b *bed) joins(name string) *Membership {
	b.Helper()
	m, err := Join(b.Context(), b.worker(name), b.invite(name, store.Token{}))
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// revokes revokes the certificate of a worker.
func (b *bed) revokes(worker string) {
	b.Helper()
	all, err := b.st.TokenList(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for i := range all {
		if t := &all[i]; t.Kind == store.TokenCertificate && t.Name == auth.WorkerName(worker) && t.Revoked == 0 {
			if err := b.st.RevokeToken(b.Context(), t.ID); err != nil {
				b.Fatal(err)
			}
			return
		}
	}
	b.Fatalf("no certificate of %s", worker)
}

// transport returns a transport that shows another certificate chain, with the key of m.
func (b *bed) transport(m *Membership, chain [][]byte) *http.Transport {
	b.Helper()
	other := *m
	other.Chain = chain
	t, err := other.transport(&http.Transport{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(t.CloseIdleConnections)
	return t
}

// posts makes a call without a body, and returns the answer.
func (b *bed) posts(by *http.Transport, path string) (status int, text string) {
	b.Helper()
	b.Cleanup(by.CloseIdleConnections)
	resp, err := (&http.Client{Transport: by}).Post(b.url+path, "application/json", strings.NewReader("{}"))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// refuses checks that the node refuses a registration with the given status and reason.
func (b *bed) refuses(what string, by *http.Transport, status int, says string) {
	b.Helper()
	if is, text := b.posts(by, registerPath); is != status || !strings.Contains(text, says) {
		b.Errorf("%s: %d %s; want %d with %q", what, is, text, status, says)
	}
}

// registers checks that the node accepts a registration.
func (b *bed) registers(what string, by *http.Transport) {
	b.Helper()
	if is, text := b.posts(by, registerPath); is != http.StatusOK {
		b.Errorf("%s: %d %s", what, is, text)
	}
}

const registerPath = home.Prefix + "Register"
