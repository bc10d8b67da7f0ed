package joining

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"skein.dev/skein/internal/atomicfile"
	"skein.dev/skein/internal/authority"
	"skein.dev/skein/internal/secret"
)

// Membership is what a worker stores when it joins: its key, its certificate and its bounds. It is stored in
// one file, DATA/access/worker.json. Only the worker's user can read that file.
type Membership struct {
	Grant
	Servers []string `json:"servers"`
	Key     []byte   `json:"key"` // PKCS 8

	file string
}

// ErrNotJoined says that a worker has no certificate.
var ErrNotJoined = errors.New("this worker has not joined by an invitation")

// nextSuffix is added to the file name for a key that has no certificate yet.
const nextSuffix = ".next"

func fileIn(data string) string { return filepath.Join(data, "access", "worker.json") }

// newMembership makes a key for a worker.
func newMembership(name, file string) (*Membership, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &Membership{Grant: Grant{Name: name}, Key: der, file: file}, nil
}

// Read reads the certificate of the worker with this data folder. It returns ErrNotJoined if there is none.
// It returns another error if the worker has begun to join but has no certificate yet.
func Read(data string) (*Membership, error) {
	m, err := readFile(fileIn(data))
	if errors.Is(err, ErrNotJoined) {
		if m, err = readFile(fileIn(data) + nextSuffix); err == nil {
			m.Chain = nil // this file's chain is not in use yet
		}
	}
	if err == nil && len(m.Chain) == 0 {
		return nil, fmt.Errorf("worker %s has begun to join and has no certificate yet; run its join command again", m.Name)
	}
	return m, err
}

func readFile(file string) (*Membership, error) {
	text, err := secret.File(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotJoined
	}
	if err != nil {
		return nil, fmt.Errorf("the certificate of the worker: %w", err)
	}
	m := &Membership{file: file}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; remove it, and let the worker join again: skein worker invite", file, err)
	}
	return m, nil
}

func (m *Membership) save() error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(m.file), 0o700); err != nil {
		return err
	}
	// Keep the owner of the file, because the worker may run as another user than this process.
	file, err := atomicfile.Replace(m.file, 0o600)
	if err != nil {
		return err
	}
	defer file.Discard()
	_, err = file.Write(text)
	if err == nil {
		err = file.Put()
	}
	if err != nil {
		return fmt.Errorf("write the certificate of the worker: %w", err)
	}
	return nil
}

// request returns the certificate request.
func (m *Membership) request() ([]byte, error) {
	key, err := x509.ParsePKCS8PrivateKey(m.Key)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; remove it, and let the worker join again: skein worker invite", m.file, err)
	}
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: m.Name}}, key)
}

// transport returns a transport that shows the worker's certificate to nodes and trusts the stored roots.
func (m *Membership) transport(base *http.Transport) (*http.Transport, error) {
	key, err := x509.ParsePKCS8PrivateKey(m.Key)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", m.file, err)
	}
	roots, err := authority.ParseAll(m.Roots)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, r := range roots {
		pool.AddCert(r)
	}
	own := tls.Certificate{Certificate: m.Chain, PrivateKey: key}
	t := base.Clone()
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: authority.ServerName,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }}
	return t, nil
}
