package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"skein.dev/skein/internal/config"
)

// certificate is the one that a node shows. It is read again when its file has changed, so that a
// renewal needs no restart.
type certificate struct {
	cert, key string // paths
	log       *slog.Logger

	mu    sync.Mutex // protects following fields
	pair  *tls.Certificate
	mtime time.Time
	asked time.Time
}

// certLook is how often the file of a certificate is looked at, at most.
const certLook = 10 * time.Second

func newCertificate(cert, key string, log *slog.Logger) (*certificate, error) {
	c := &certificate{cert: cert, key: key, log: log}
	return c, c.read()
}

// read loads the present pair. A pair that is half renewed is an error, and the earlier pair stays in use.
func (c *certificate) read() error {
	info, err := os.Stat(c.cert)
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", c.cert, c.key, err)
	}
	c.pair, c.mtime = &pair, info.ModTime()
	return nil
}

// reload reads the pair that the settings name now at once, without waiting for certLook. Settings without a
// certificate need a restart, so until then the earlier pair stays in use.
func (c *certificate) reload(to *config.Config) error {
	if to.TLSCert == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	cert, key := c.cert, c.key
	c.cert, c.key = to.TLSCert, to.TLSKey
	err := c.read()
	if err != nil {
		c.cert, c.key = cert, key
	}
	return err
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.asked) > certLook {
		c.asked = now
		if info, err := os.Stat(c.cert); err == nil && !info.ModTime().Equal(c.mtime) {
			if err := c.read(); err != nil {
				c.log.Error("the renewed certificate cannot be used; the old one stays in use", "code", "certificate_unusable", "err", err)
			}
		}
	}
	return c.pair, nil
}

// serverTLS makes the TLS settings that a node listens with, and a function that reads its certificate again.
// Both are nil for plain text.
func serverTLS(cfg *config.Config, log *slog.Logger) (*tls.Config, func(*config.Config) error, error) {
	if cfg.TLSCert == "" {
		return nil, nil, nil
	}
	c, err := newCertificate(cfg.TLSCert, cfg.TLSKey, log)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrListen, err)
	}
	return &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}, c.reload, nil
}

// Transport is the transport of this process for calls to servers and nodes: the default one, which also
// trusts --ca-cert.
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
