package auth_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/store/memory"
)

// verifier accepts the certificate that it knows.
type verifier struct {
	known *x509.Certificate
	n     int
}

func (v *verifier) Known(c *x509.Certificate) bool { return c == v.known }

func (v *verifier) Verify(_ context.Context, chain []*x509.Certificate) (auth.Proven, string, error) {
	v.n++
	if chain[0] == v.known {
		return auth.Proven{Node: "n1"}, "", nil
	}
	return auth.Proven{}, "it is unknown", nil
}

// TestCertificateRefusals: an address that has used up its refusals costs no further verification, and a
// certificate that was accepted before goes on to count.
func TestCertificateRefusals(t *testing.T) {
	v := &verifier{known: new(x509.Certificate)}
	g := auth.New(auth.Config{Store: memory.New(memory.Options{}), Required: true, Route: routeOf, Certificates: v, Refusals: 2})
	h := g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	call := func(c *x509.Certificate) int {
		r := httptest.NewRequest(http.MethodPost, "/internal/v1/wake", nil)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	var got []int
	for range 5 {
		got = append(got, call(new(x509.Certificate)))
	}
	got = append(got, call(v.known))
	// The second may change once in between, so one more refusal is possible.
	if v.n > 4 || !slices.Contains(got, http.StatusTooManyRequests) || got[5] != http.StatusOK {
		t.Errorf("%d verifications, answers %v", v.n, got)
	}
}
