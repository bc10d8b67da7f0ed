package identity

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestLogoutAgain checks that a logout token is accepted again if the sessions could not be ended, and is
// refused if they were ended.
func TestLogoutAgain(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	coded := base64.RawURLEncoding.EncodeToString
	text := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/k" {
			_, _ = w.Write(text(map[string]any{"keys": []any{map[string]string{"kty": "RSA", "alg": "RS256", "use": "sig", "n": coded(key.N.Bytes()), "e": "AQAB"}}}))
			return
		}
		_, _ = w.Write(text(map[string]string{"issuer": server.URL, "authorization_endpoint": server.URL + "/a", "token_endpoint": server.URL + "/t", "jwks_uri": server.URL + "/k"}))
	}))
	defer server.Close()
	now := time.Now().Unix()
	token := coded([]byte(`{"alg":"RS256"}`)) + "." + coded(text(map[string]any{"iss": server.URL, "aud": "skein", "sub": "ann", "jti": "1",
		"iat": now, "exp": now + 100, "events": map[string]any{logoutEvent: struct{}{}}}))
	sum := sha256.Sum256([]byte(token))
	sign, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	token += "." + coded(sign)
	p := NewProvider(OIDC{Name: "corp", Issuer: server.URL, ClientID: "skein"}, NewClient(nil), func(string) ([]byte, error) { return []byte("s"), nil },
		slog.New(slog.NewTextHandler(io.Discard, nil)))
	down := errors.New("the database is away")
	var refused *Refusal
	if err := p.Logout(t.Context(), token, func(Ended) error { return down }); !errors.Is(err, down) {
		t.Fatal(err)
	}
	who := ""
	if err := p.Logout(t.Context(), token, func(is Ended) error { who = is.Subject + is.Session; return nil }); err != nil || who != "ann" {
		t.Fatalf("%q, %v", who, err)
	}
	if err := p.Logout(t.Context(), token, func(Ended) error { t.Error("it counts twice"); return nil }); !errors.As(err, &refused) || refused.Kind != BadLogout {
		t.Error(err)
	}
}
