package auth_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// key is the hash of the key of the known certificate.
var key = bytes.Repeat([]byte{7}, 32)

// enrolled is a store in which the known certificate has its row.
func enrolled(t *testing.T) *memory.Store {
	t.Helper()
	st := memory.New(memory.Options{})
	if _, err := st.EnrollNode(t.Context(), store.Enrolling{Name: store.NodeTokenName("n1"), Hash: key, Life: 3600e6}); err != nil {
		t.Fatal(err)
	}
	return st
}

// verifier accepts the certificate that it knows.
type verifier struct {
	known *x509.Certificate
	n     int
}

func (v *verifier) Known(c *x509.Certificate) bool { return c == v.known }

func (v *verifier) Verify(_ context.Context, chain []*x509.Certificate) (auth.Proven, string, error) {
	v.n++
	if chain[0] == v.known {
		return auth.Proven{Node: "n1", Key: key}, "", nil
	}
	return auth.Proven{}, "it is unknown", nil
}

// TestCertificateRefusals: if an address has used up its refusals, no further certificate is verified for it.
// A certificate that was accepted before is still accepted.
func TestCertificateRefusals(t *testing.T) {
	v := &verifier{known: new(x509.Certificate)}
	g := auth.New(auth.Config{Store: enrolled(t), Required: true, Route: routeOf, Certificates: v, Refusals: 2})
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
	// A new second may begin between the calls, so one more refusal is possible.
	if v.n > 4 || !slices.Contains(got, http.StatusTooManyRequests) || got[5] != http.StatusOK {
		t.Errorf("%d verifications, answers %v", v.n, got)
	}
}

// TestNodesNeedRows: the certificate of a node is accepted only while its row is valid. If certificates are
// required, the token of a node does not suffice.
func TestNodesNeedRows(t *testing.T) {
	for _, required := range []bool{false, true} {
		st := enrolled(t)
		v := &verifier{known: new(x509.Certificate)}
		g := auth.New(auth.Config{Store: st, Required: true, Route: routeOf, Certificates: v, NodesCertified: required})
		secret := auth.NewSecret(store.TokenNode)
		hash, err := auth.HashSecret(secret)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.AddToken(t.Context(), store.WholeToken(store.TokenNode, "n", hash)); err != nil {
			t.Fatal(err)
		}
		h := g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		call := func(certificate, token bool) int {
			r := httptest.NewRequest(http.MethodPost, "/internal/v1/wake", nil)
			if certificate {
				r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{v.known}}
			}
			if token {
				r.Header.Set("Authorization", "Bearer "+secret)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		byToken := http.StatusOK
		if required {
			byToken = http.StatusForbidden
		}
		if one, two := call(true, false), call(false, true); one != http.StatusOK || two != byToken {
			t.Errorf("required %v: %d by certificate, %d by token", required, one, two)
		}
		all, err := st.TokenList(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := st.RevokeToken(t.Context(), all[0].ID); err != nil {
			t.Fatal(err)
		}
		g = auth.New(auth.Config{Store: st, Required: true, Route: routeOf, Certificates: v, NodesCertified: required})
		h = g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		if one, two := call(true, false), call(true, true); one != http.StatusUnauthorized || two != byToken {
			t.Errorf("required %v, after the revocation: %d by certificate, %d with a token, too", required, one, two)
		}
	}
}
