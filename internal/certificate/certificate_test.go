package certificate

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"skein.dev/skein/internal/certificate/certtest"
)

// TestReread: the pair is read from the paths in the new settings, also if the former file is gone. A pair
// that cannot be read changes nothing.
func TestReread(t *testing.T) {
	cert, key := certtest.Files(t)
	f, err := Open(cert, key, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	first, dir := f.pair, t.TempDir()
	newCert, newKey := filepath.Join(dir, "new.pem"), filepath.Join(dir, "new.key")
	if err := f.Reread(newCert, newKey); err == nil || f.pair != first || f.cert != cert || f.key != key {
		t.Errorf("a pair that is not there: %v, now at %s", err, f.cert)
	}
	for from, to := range map[string]string{cert: newCert, key: newKey} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Reread(newCert, newKey); err != nil || f.pair == first || f.cert != newCert {
		t.Errorf("the new path: %v", err)
	}
}

// TestRenewal: a renewed pair is shown without a restart. While only one of its files is renewed, the earlier
// pair is shown.
func TestRenewal(t *testing.T) {
	cert, key := certtest.Files(t)
	f, err := Open(cert, key, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	first := f.pair
	newCert, newKey := certtest.SelfSigned(t)
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Hour) // so much later that the time differs on a file system that rounds times
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		f.asked = time.Time{}
	}
	write(cert, newCert)
	if is, err := f.Get(nil); err != nil || is != first {
		t.Errorf("a certificate of another key is shown: %v", err)
	}
	write(key, newKey)
	is, err := f.Get(nil)
	if err != nil || is == first {
		t.Errorf("the renewed pair is not shown: %v", err)
	}
	if again, err := f.Get(nil); err != nil || again != is {
		t.Errorf("the pair changed by itself: %v", err)
	}
}
