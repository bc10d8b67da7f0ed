package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	// callMax bounds the time of one call to a provider, and answerMax the bytes of the answer.
	callMax   = 10 * time.Second
	answerMax = 1 << 20
)

// NewClient returns the HTTP client for calls to providers. roots are the authorities that it trusts. nil
// means those of the system. It follows no redirects, because the settings and the discovery document contain
// every address. It does not use the proxy of the environment.
func NewClient(roots *x509.CertPool) *http.Client {
	dial := &net.Dialer{Timeout: callMax / 2}
	return &http.Client{
		Timeout:       callMax,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: bounded{&http.Transport{
			DialContext:            dial.DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    4,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		}},
	}
}

// bounded limits the size of answers. It also refuses an address over which a third party could answer
// instead of the provider.
type bounded struct{ next *http.Transport }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !loopback(r.URL.Hostname()) {
		return nil, fmt.Errorf("%s is not an https:// address", r.URL.Redacted())
	}
	resp, err := b.next.RoundTrip(r)
	if err == nil {
		resp.Body = &boundedBody{resp.Body, answerMax}
	}
	return resp, err
}

// CloseIdleConnections implements the method that http.Client calls.
func (b bounded) CloseIdleConnections() { b.next.CloseIdleConnections() }

var errLong = errors.New("the answer of the identity provider is longer than 1 MiB")

type boundedBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLong
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
