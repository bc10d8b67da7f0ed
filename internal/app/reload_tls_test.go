package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"skein.dev/skein/internal/config"
)

// TestReloadOfACertificateAtANewPath: the pair is read where the new settings say, also if the former file is
// gone. A pair that cannot be read changes nothing.
func TestReloadOfACertificateAtANewPath(t *testing.T) {
	cert, key := selfSigned(t)
	dir := t.TempDir()
	c, err := newCertificate(cert, key, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	first := c.pair
	to := &config.Config{TLSCert: filepath.Join(dir, "new.pem"), TLSKey: filepath.Join(dir, "new.key")}
	if err := c.reload(to); err == nil || c.pair != first || c.cert != cert || c.key != key {
		t.Errorf("a pair that is not there: %v, now at %s", err, c.cert)
	}
	for from, to := range map[string]string{cert: to.TLSCert, key: to.TLSKey} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.reload(to); err != nil || c.pair == first || c.cert != to.TLSCert {
		t.Errorf("the new path: %v", err)
	}
	if err := c.reload(&config.Config{}); err != nil || c.cert != to.TLSCert {
		t.Errorf("settings without a certificate: %v", err)
	}
	n := &Node{cfg: &config.Config{TLSCert: cert}}
	if !n.apply("tls_cert", to) || !n.apply("tls_key", to) || n.apply("tls_cert", &config.Config{}) {
		t.Error("a new path needs no restart, to have none does")
	}
	if n.cfg = (&config.Config{}); n.apply("tls_cert", to) {
		t.Error("a node of plain text needs a restart")
	}
}
