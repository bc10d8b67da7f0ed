package local_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"skein.dev/skein/sdk/shared/local"
)

// TestSession checks that a session is used only at the address of its server, and only while others cannot
// read or replace it.
func TestSession(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	at := func(address string) string {
		s, _ := local.SessionAt(address)
		return s.Secret
	}
	s := local.Session{Address: "https://Skein.example/", Cookie: "__Host-skein", Secret: "one", User: "ann", Ends: time.Now()}
	if err := local.SaveSession(s); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{"https://skein.example": "one", "https://skein.example:443/": "one", "https://skein.example/x": "", "http://skein.example:443": "",
		"https://skein.example:8443": "", "https://skein.example.evil": "", "https://evil.example": "", "": ""} {
		if got := at(address); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
	file := filepath.Join(state, "skein", "sessions", "https_skein.example_443")
	for path, modes := range map[string][2]os.FileMode{file: {0o600, 0o644}, filepath.Dir(file): {0o700, 0o777}} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != modes[0] {
			t.Fatalf("%s: %v, %v", path, info, err)
		}
		if err := os.Chmod(path, modes[1]); err != nil {
			t.Fatal(err)
		}
		if got := at(s.Address); got != "" {
			t.Errorf("a session of %s with the mode %o counts", path, modes[1])
		}
		if err := os.Chmod(path, modes[0]); err != nil {
			t.Fatal(err)
		}
	}
	// A file with another server's session under this name is ignored.
	s.Address = "https://other.example"
	if err := local.SaveSession(s); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(filepath.Dir(file), "https_other.example_443"), file); err != nil {
		t.Fatal(err)
	}
	if got := at("https://skein.example"); got != "" {
		t.Error("the session of another server is shown")
	}
	// Servers at two paths of one host have separate sessions.
	for _, base := range []string{"/a", "/b", "/a/../b"} {
		s.Address, s.Secret = "https://skein.example"+base, base
		if err := local.SaveSession(s); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := at("https://skein.example/a/"), at("https://skein.example/b"); a != "/a" || b != "/b" {
		t.Errorf("under two paths: %q, %q", a, b)
	}
	for range 2 {
		if err := local.ForgetSession("https://skein.example"); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
}
