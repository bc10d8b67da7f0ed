package config

import (
	"errors"
	"testing"

	"skein.dev/skein/internal/egress"
)

// TestCheckListen: an address beyond loopback needs a certificate or the setting for plain text.
func TestCheckListen(t *testing.T) {
	for _, wide := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.org:0"} {
		if err := (&Config{Listen: wide, ListenChosen: true}).CheckListen(); !errors.Is(err, ErrNotAllowed) {
			t.Errorf("%s: %v", wide, err)
		}
	}
	for _, bad := range []string{"", "8080", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000"} {
		if err := (&Config{Listen: bad, ListenChosen: true}).CheckListen(); err == nil || errors.Is(err, ErrNotAllowed) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestEgressDefault(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, c := range []struct {
		flags map[string]string
		want  string
	}{
		{map[string]string{}, egress.Any},
		{map[string]string{"listen": "[::1]:0"}, egress.Any},
		{map[string]string{"listen": "0.0.0.0:8080"}, egress.Public},
		{map[string]string{"listen": "node-1:8080"}, egress.Public},
		{map[string]string{"listen": "0.0.0.0:8080", "egress": "public,10.0.0.0/8"}, "public,10.0.0.0/8"},
		{map[string]string{"egress": "public"}, egress.Public},
	} {
		cfg, err := Load(c.flags, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.EgressPolicy(); got != c.want {
			t.Errorf("%v: %s, want %s", c.flags, got, c.want)
		}
	}
}
