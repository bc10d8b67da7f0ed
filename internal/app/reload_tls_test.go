package app

import (
	"errors"
	"io/fs"
	"log/slog"
	"testing"

	"skein.dev/skein/internal/certificate/certtest"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/joining"
)

// TestReloadOfACertificateAtANewPath checks that the certificate and its key are read from the paths in the
// new settings. Settings without a certificate need a restart, so they change nothing.
func TestReloadOfACertificateAtANewPath(t *testing.T) {
	cert, key := certtest.Files(t)
	is, reread, err := serverTLS(&config.Config{TLSCert: cert, TLSKey: key}, joining.NewNode(joining.Config{}), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	first, err := is.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := reread(&config.Config{TLSCert: cert + "-not-there", TLSKey: key}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a pair that is not there: %v", err)
	}
	if err := reread(&config.Config{}); err != nil {
		t.Errorf("settings without a certificate: %v", err)
	}
	if now, err := is.GetCertificate(nil); err != nil || now != first {
		t.Errorf("the certificate changed: %v", err)
	}
	to := &config.Config{}
	to.TLSCert, to.TLSKey = certtest.Files(t)
	if err := reread(to); err != nil {
		t.Errorf("the new path: %v", err)
	}
	if now, err := is.GetCertificate(nil); err != nil || now == first {
		t.Errorf("the certificate at the new path is not shown: %v", err)
	}
	n := &Node{cfg: &config.Config{TLSCert: cert}}
	if !n.apply("tls_cert", to) || !n.apply("tls_key", to) || n.apply("tls_cert", &config.Config{}) {
		t.Error("a new path needs no restart, to have none does")
	}
	if n.cfg = (&config.Config{}); n.apply("tls_cert", to) {
		t.Error("a node of plain text needs a restart")
	}
}
