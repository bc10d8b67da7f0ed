// Package certificate has the certificate that a listener shows. It is read again when its file has changed,
// so that a renewal needs no restart.
package certificate

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Files are a certificate and its key in two files.
type Files struct {
	log *slog.Logger

	mu        sync.Mutex // protects following fields
	cert, key string     // paths
	pair      *tls.Certificate
	mtime     time.Time
	asked     time.Time
}

// lookEvery is the least time between two checks whether the file of a certificate has changed.
const lookEvery = 10 * time.Second

// Open reads the files.
func Open(cert, key string, log *slog.Logger) (*Files, error) {
	f := &Files{log: log, cert: cert, key: key}
	return f, f.read()
}

// read loads the present pair. A pair that is half renewed is an error, and the earlier pair stays in use.
func (f *Files) read() error {
	info, err := os.Stat(f.cert)
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", f.cert, f.key, err)
	}
	f.pair, f.mtime = &pair, info.ModTime()
	return nil
}

// Reread reads the pair at once, from the given files. If that fails, the earlier pair stays in use.
func (f *Files) Reread(cert, key string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	wasCert, wasKey := f.cert, f.key
	f.cert, f.key = cert, key
	err := f.read()
	if err != nil {
		f.cert, f.key = wasCert, wasKey
	}
	return err
}

// Get returns the present pair, for tls.Config.GetCertificate.
func (f *Files) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.asked) > lookEvery {
		f.asked = now
		if info, err := os.Stat(f.cert); err == nil && !info.ModTime().Equal(f.mtime) {
			if err := f.read(); err != nil {
				f.log.Error("the renewed certificate cannot be used; the old one stays in use until you write a certificate and a key that fit together", "code", "certificate_unusable", "err", err)
			}
		}
	}
	return f.pair, nil
}
