package identity

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestAway checks that a provider that does not answer causes one log line, however often it is called and
// however much it sends. If a caller leaves early, that is not logged as a fault of the provider.
func TestAway(t *testing.T) {
	var away atomic.Bool
	var issuer string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			http.Error(w, strings.Repeat("x", 100_000), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"issuer":"` + issuer + `","authorization_endpoint":"` + issuer + `/a","token_endpoint":"` + issuer + `/t","jwks_uri":"` + issuer + `/k"}`))
	}))
	defer server.Close()
	issuer = server.URL
	var log bytes.Buffer
	provider := func() *Provider {
		secret := func(string) ([]byte, error) { return []byte("s"), nil }
		return NewProvider(OIDC{Name: "corp", Issuer: issuer, ClientID: "skein"}, NewClient(nil), secret, slog.New(slog.NewTextHandler(&log, nil)))
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if _, _, err := provider().Begin(left, "http://127.0.0.1/c", "/"); err != nil || log.Len() > 0 {
		t.Errorf("%v; log: %s", err, log.String())
	}
	away.Store(true)
	p := provider()
	for range 5 {
		_, _, err := p.Begin(t.Context(), "http://127.0.0.1/c", "/")
		var refused *Refusal
		if !errors.As(err, &refused) || refused.Kind != Away || !refused.Told || len(refused.Cause.Error()) > causeMax+10 {
			t.Errorf("%+.300v", err)
		}
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || len(text) > 2*causeMax {
		t.Errorf("log: %d bytes, %.1000s", len(text), text)
	}
}
