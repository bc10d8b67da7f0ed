package app

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/authority"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/secret"
	"skein.dev/skein/sdk/shared/local"
)

// Membership is what a worker keeps of its joining: its key, its certificate and its bounds. It is one file,
// DATA/access/worker.json, that only its user can read.
type Membership struct {
	joined
	Servers []string `json:"servers"`
	Key     []byte   `json:"key"` // PKCS 8

	file string
}

// ErrNotJoined says that a worker has no certificate.
var ErrNotJoined = errors.New("this worker has not joined by an invitation")

// errNotHTTPS says that a worker cannot show a certificate to a server.
var errNotHTTPS = errors.New("certificates need TLS: name the nodes by https://")

func membershipFile(data string) string { return filepath.Join(data, "access", "worker.json") }

// joinTimeout bounds one call for a certificate.
const joinTimeout = 20 * time.Second

// Invitation is what a worker joins with.
type Invitation struct {
	Secret      string
	Fingerprint string // of the root; "": the certificate of the server is that which other clients know, too
}

// JoinWorker uses an invitation and keeps the certificate in the data folder. The key is written before it is
// used, so a call that was cut off can be repeated.
func JoinWorker(ctx context.Context, cfg *config.Config, by Invitation) (*Membership, error) {
	servers, err := cfg.NodesOfWorker()
	if err != nil {
		return nil, err
	}
	if err := datadir.Prepare(cfg.Data); err != nil {
		return nil, err
	}
	held, err := datadir.Take(cfg.Data) // a worker that runs here would renew the file at the same time
	if err != nil {
		return nil, err
	}
	defer held.Release()
	m, err := ReadMembership(cfg.Data)
	switch {
	case err != nil && !errors.Is(err, ErrNotJoined):
		return nil, err
	case err == nil && m.Name == cfg.Name && len(m.Chain) == 0: // an earlier call was cut off
	default:
		if m, err = newMember(cfg); err != nil {
			return nil, err
		}
	}
	m.Servers = servers
	if err := m.save(); err != nil {
		return nil, err
	}
	transport, err := Transport(cfg)
	if err != nil {
		return nil, err
	}
	if by.Fingerprint != "" {
		transport.TLSClientConfig = pinned(by.Fingerprint)
	}
	if err := m.ask(ctx, transport, joinPath, by.Secret); err != nil {
		return nil, err
	}
	if by.Fingerprint != "" && !hasRoot(m.Roots, by.Fingerprint) {
		return nil, fmt.Errorf("the node has another certificate authority than %s: the certificate is not used", by.Fingerprint)
	}
	return m, m.save()
}

func newMember(cfg *config.Config) (*Membership, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &Membership{joined: joined{Name: cfg.Name}, Key: der, file: membershipFile(cfg.Data)}, nil
}

// pinned accepts the nodes of the authority whose root has a fingerprint.
func pinned(fingerprint string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, ServerName: authority.ServerName,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies the chain by the fingerprint
		VerifyConnection: func(is tls.ConnectionState) error {
			roots, between := x509.NewCertPool(), x509.NewCertPool()
			found := false
			for _, c := range is.PeerCertificates[1:] {
				if authority.Fingerprint(c.Raw) == fingerprint {
					roots.AddCert(c)
					found = true
				}
				between.AddCert(c)
			}
			if !found {
				return fmt.Errorf("the node does not show a certificate of the authority %s; if a proxy is in front of it, join with --ca-cert FILE and without --authority, or use a token", fingerprint)
			}
			_, err := is.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: authority.ServerName})
			return err
		}}
}

func hasRoot(roots [][]byte, fingerprint string) bool {
	for _, r := range roots {
		if authority.Fingerprint(r) == fingerprint {
			return true
		}
	}
	return false
}

// ReadMembership reads the certificate of a worker. It returns ErrNotJoined if there is none.
func ReadMembership(data string) (*Membership, error) {
	file := membershipFile(data)
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
	temp, path, err := local.Beside(m.file)
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(text)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write the certificate of the worker: %w", err)
	}
	return nil
}

// request returns the request for a certificate.
func (m *Membership) request() ([]byte, error) {
	key, err := x509.ParsePKCS8PrivateKey(m.Key)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; remove it, and let the worker join again: skein worker invite", m.file, err)
	}
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: m.Name}}, key)
}

// ask gets a certificate from the first node that answers, and keeps it in memory.
func (m *Membership) ask(ctx context.Context, via http.RoundTripper, path, bearer string) error {
	der, err := m.request()
	if err != nil {
		return err
	}
	body, err := json.Marshal(joining{Name: m.Name, Request: der})
	if err != nil {
		return err
	}
	var failed []error
	for _, server := range m.Servers {
		out, final, err := askOne(ctx, via, server+path, bearer, body)
		switch {
		case err == nil && out.Name == m.Name && len(out.Chain) > 0 && len(out.Roots) > 0:
			m.joined = out
			return nil
		case err == nil:
			err = errors.New("the answer holds no certificate for this worker")
		case final:
			return fmt.Errorf("%s: %w", server, err)
		}
		failed = append(failed, fmt.Errorf("%s: %w", server, err))
	}
	return errors.Join(failed...)
}

// askOne makes one call. final says that no other node would decide otherwise.
func askOne(ctx context.Context, via http.RoundTripper, url, bearer string, body []byte) (out joined, final bool, err error) {
	if !strings.HasPrefix(url, "https://") {
		return out, true, errNotHTTPS
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return out, true, err
	}
	r.Header.Set("Content-Type", "application/json")
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := (&http.Client{Transport: via}).Do(r)
	if err != nil {
		return out, false, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, joinBytesMax))
	if err != nil {
		return out, false, err
	}
	if resp.StatusCode != http.StatusOK {
		return out, resp.StatusCode/100 == 4 && resp.StatusCode != http.StatusTooManyRequests, errors.New(problemOf(resp.StatusCode, text))
	}
	return out, false, json.Unmarshal(text, &out)
}

// transport shows the worker's certificate to nodes, and knows them by the roots.
func (m *Membership) transport(base *http.Transport) (*http.Transport, error) {
	key, err := x509.ParsePKCS8PrivateKey(m.Key)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", m.file, err)
	}
	roots, err := parseAll(m.Roots)
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

// renewing is a transport whose certificate is renewed. Each renewal begins new connections, because a
// connection keeps the certificate with which it began.
type renewing struct {
	m    *Membership
	base *http.Transport
	now  atomic.Pointer[http.Transport]
	log  *slog.Logger
}

func newRenewing(m *Membership, base *http.Transport, log *slog.Logger) (*renewing, error) {
	r := &renewing{m: m, base: base, log: log}
	return r, r.use()
}

func (r *renewing) use() error {
	next, err := r.m.transport(r.base)
	if err != nil {
		return err
	}
	if old := r.now.Swap(next); old != nil {
		old.CloseIdleConnections()
	}
	return nil
}

// RoundTrip implements http.RoundTripper.
func (r *renewing) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" {
		return nil, errNotHTTPS
	}
	return r.now.Load().RoundTrip(req)
}

// renewPauseMax bounds the pause after a renewal that failed.
const renewPauseMax = time.Minute

// run renews the certificate until ctx ends: at two thirds of its life, and again after a pause if no node
// answers.
func (r *renewing) run(ctx context.Context) {
	for {
		wait := r.due(time.Now())
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		next := *r.m
		err := next.ask(ctx, r.now.Load(), renewPath, "")
		if err == nil {
			err = next.save()
		}
		if err != nil {
			if ctx.Err() == nil {
				r.log.Warn("the certificate of this worker was not renewed; the worker tries again", "code", "certificate_not_renewed", "until", r.m.Expires, "err", err)
			}
			continue
		}
		*r.m = next
		if err := r.use(); err != nil {
			r.log.Error("the renewed certificate cannot be used", "code", "certificate_unusable", "err", err)
			continue
		}
		r.log.Info("the certificate of this worker was renewed", "code", "certificate_renewed", "until", next.Expires)
	}
}

// due returns the time until the next renewal. If it is overdue, a twentieth of what is left passes between
// two tries.
func (r *renewing) due(now time.Time) time.Duration {
	certs, err := parseAll(r.m.Chain[:1])
	if err != nil {
		return renewPauseMax
	}
	life := r.m.Expires.Sub(certs[0].NotBefore.Add(authority.Skew))
	left := r.m.Expires.Sub(now)
	if early := left - life/3; early > 0 {
		return early
	}
	return min(max(left/20, time.Second), renewPauseMax)
}
