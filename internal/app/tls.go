package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"skein.dev/skein/internal/certificate"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/joining"
)

// serverTLS makes the TLS settings with which a node listens, and a function that reads its certificate
// again. Both are nil if the node listens without TLS.
func serverTLS(cfg *config.Config, j *joining.Node, log *slog.Logger) (*tls.Config, func(*config.Config) error, error) {
	if cfg.TLSCert == "" {
		return nil, nil, nil
	}
	c, err := certificate.Open(cfg.TLSCert, cfg.TLSKey, log)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrListen, err)
	}
	reread := func(to *config.Config) error {
		if to.TLSCert == "" { // removing the certificate needs a restart, so the earlier pair stays in use until then
			return nil
		}
		return c.Reread(to.TLSCert, to.TLSKey)
	}
	base := &tls.Config{GetCertificate: c.Get, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	return j.Listen(base), reread, nil
}

// Transport returns the transport of this process for calls to servers and nodes: the default transport,
// which also trusts --ca-cert.
func Transport(cfg *config.Config) (*http.Transport, error) {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the process has a transport of its own")
	}
	t = t.Clone()
	pool, err := cfg.Roots()
	if err != nil || pool == nil {
		return t, err
	}
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return t, nil
}
