//go:build linux

package main

import (
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/certificate/certtest"
	"skein.dev/skein/internal/cluster/nettest"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
)

// secured has the certificates and tokens of a cluster under test. Its processes reach each other over TLS,
// each with a token of its kind.
type secured struct {
	dir    string            // has the files cert.pem and key.pem, and one file for each token, named by its kind
	tokens map[string]string // by kind
	http   *http.Client
}

// newSecured makes the certificate and the tokens of a cluster. The function create makes a token in its
// database. The parameter addresses has the addresses of its machines.
func newSecured(t *testing.T, create func(kind string) string, addresses ...net.IP) *secured {
	t.Helper()
	s := &secured{dir: t.TempDir(), tokens: map[string]string{}}
	files := map[string]string{}
	files["cert.pem"], files["key.pem"] = certtest.SelfSigned(t, addresses...)
	for _, kind := range []string{store.TokenAPI, store.TokenNode, store.TokenWorker} {
		s.tokens[kind] = create(kind)
		files[kind] = s.tokens[kind] + "\n"
	}
	for name, text := range files {
		if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.http = trusting(t, s.path("cert.pem"))
	s.http.Timeout = 0 // logs and events are streams
	return s
}

func (s *secured) path(name string) string { return filepath.Join(s.dir, name) }

// env returns the environment for every process. Commands use the API token in it. The tokens of servers and
// workers are in files.
func (s *secured) env() []string {
	if s == nil {
		return nil
	}
	return []string{"SKEIN_LISTEN=0.0.0.0:0", "SKEIN_ADVERTISE=https://localhost:0", "SKEIN_TLS_CERT=" + s.path("cert.pem"), "SKEIN_TLS_KEY=" + s.path("key.pem"),
		"SKEIN_CA_CERT=" + s.path("cert.pem"), "SKEIN_API_TOKEN=" + s.tokens[store.TokenAPI]}
}

// args returns the arguments of a process that presents a token of another kind.
func (s *secured) args(kind string) []string {
	if s == nil {
		return nil
	}
	return []string{"--token-file", s.path(kind)}
}

// get reads a path of a node for which the client has no method.
func (m *member) get(path string) (*http.Response, error) {
	c := http.DefaultClient
	req, err := http.NewRequestWithContext(m.home.t.Context(), http.MethodGet, m.client.URL()+path, nil)
	if err != nil {
		return nil, err
	}
	if m.home.doors != nil {
		c = m.home.doors.http
	}
	req.Header.Set("Authorization", "Bearer "+m.home.token())
	return c.Do(req)
}

// secure makes the cluster require tokens and TLS. It makes the database now, unless create does this with
// another program.
func (f *flight) secure(create func(kind string) string) {
	f.t.Helper()
	if create == nil {
		db, err := postgres.Open(f.t.Context(), postgres.Options{URL: f.near()})
		if err != nil {
			f.t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		create = func(kind string) string {
			secret := auth.NewSecret(kind)
			hash, err := auth.HashSecret(secret)
			if err == nil {
				_, err = db.AddToken(f.t.Context(), store.WholeToken(kind, "the-"+kind, hash))
			}
			if err != nil {
				f.t.Fatal(err)
			}
			return secret
		}
	}
	if f.lan == nil {
		f.doors = newSecured(f.t, create)
		return
	}
	f.doors = newSecured(f.t, create, nettest.Addresses()...)
	f.doors.http.Transport.(*http.Transport).DialContext = f.lan.Add(f.t).Dial // this process gets its own machine
}

// byProgram makes tokens with the program of a home.
func byProgram(h *home) func(kind string) string {
	return func(kind string) string {
		return strings.TrimSpace(string(h.run("token", "create", "--kind", kind, "--name", "the-"+kind)))
	}
}

// worker returns the transport of workers in this process, and their token.
func (s *secured) worker() (http.RoundTripper, string) {
	if s == nil {
		return nil, ""
	}
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.http.Transport.(*http.Transport).TLSClientConfig.RootCAs}}, s.tokens[store.TokenWorker]
}
