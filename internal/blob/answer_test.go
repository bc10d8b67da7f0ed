package blob

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// openAt opens a bucket at a server of a test.
func openAt(t *testing.T, server *httptest.Server) *S3 {
	t.Helper()
	at, err := ParseLocation("s3://bucket/p?path_style=true&secret=n/s&endpoint=" + server.URL)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(&at, Options{Secret: func(context.Context, string, string) ([]byte, error) { return []byte("id:key"), nil }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLongAnswer: a server that answers an error with a long text does not make the error long.
func TestLongAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "<Error><Code>AccessDenied</Code><Message>%s</Message></Error>", strings.Repeat("é", 1<<20))
	}))
	defer server.Close()
	err := openAt(t, server).Delete(t.Context(), "x")
	if !errors.Is(err, ErrRefused) || len(err.Error()) > 1000 {
		t.Errorf("%.200v (%d bytes)", err, len(err.Error()))
	}
}

// TestUnlistableKeys: a key that a server cannot list in XML is refused, because it would stop each sweep.
func TestUnlistableKeys(t *testing.T) {
	s := &S3{}
	for _, key := range []string{"a\ufffe", "a\uffff", "a\x01", "a\xff"} {
		if _, err := s.key(key); !errors.Is(err, ErrKey) {
			t.Errorf("%q: %v", key, err)
		}
	}
	if _, err := s.key("é/a b\ufffd"); err != nil {
		t.Error(err)
	}
}

// TestEndpointSecret: an endpoint with a password is refused, and the error does not repeat it.
func TestEndpointSecret(t *testing.T) {
	if _, err := ParseLocation("s3://bucket/p?endpoint=https://me:hidden@host"); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("%v", err)
	}
}
