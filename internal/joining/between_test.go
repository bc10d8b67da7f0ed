package joining

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/authority"
	"skein.dev/skein/internal/sealed"
	"skein.dev/skein/internal/store/memory"
)

// TestBetween checks that a node shows its certificate to nodes that request one, even if the other node
// shows the operator's certificate. A renewed certificate is shown without a restart. A node that requests no
// certificate is called without one.
func TestBetween(t *testing.T) {
	now := time.Now()
	a := authority.New(authority.Config{Vault: &sealed.Book{Store: memory.New(memory.Options{}), File: filepath.Join(t.TempDir(), "key"), Own: true}, Now: func() time.Time { return now }})
	called, own := NewNode(Config{Name: "n2", Authority: a}), operators(t)
	operator, nodes := x509.NewCertPool(), x509.NewCertPool()
	certificate, err := x509.ParseCertificate(own.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	operator.AddCert(certificate)
	serial := ""
	other := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 0 {
			return
		}
		serial = r.TLS.PeerCertificates[0].SerialNumber.String()
		is, refused, err := called.Verify(r.Context(), r.TLS.PeerCertificates)
		if refused != "" || err != nil {
			t.Errorf("%s, %v", refused, err)
		}
		_, _ = io.WriteString(w, is.Node)
	}))
	other.TLS = called.Listen(own)
	other.StartTLS()
	t.Cleanup(other.Close)
	b := NewNodeTransport(NewNode(Config{Name: "n1", Authority: a}), &http.Transport{TLSClientConfig: &tls.Config{RootCAs: operator}})
	t.Cleanup(b.CloseIdleConnections)
	call := func() string {
		t.Helper()
		resp, err := (&http.Client{Transport: b}).Get(strings.Replace(other.URL, "127.0.0.1", "localhost", 1))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := call(); got != "" {
		t.Errorf("without an authority the node proves %q", got)
	}
	if err := a.Make(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	if got := call(); got != "n1" {
		t.Errorf("the node proves %q", got)
	}
	// Clients still see the operator's certificate, unless they ask for the name of the authority.
	roots, err := authority.ParseAll(a.Trusted())
	if err != nil {
		t.Fatal(err)
	}
	nodes.AddCert(roots[0])
	for name, pool := range map[string]*x509.CertPool{"localhost": operator, authority.ServerName: nodes} {
		conn, err := tls.Dial("tcp", other.Listener.Addr().String(), &tls.Config{ServerName: name, RootCAs: pool})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_ = conn.Close()
	}

	before := serial
	now = now.Add(authority.LifeDefault * 2 / 3)
	if got := call(); got != "n1" || serial == before {
		t.Errorf("after two thirds of its life the node proves %q with the same certificate: %v", got, serial == before)
	}
}
