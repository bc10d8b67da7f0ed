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
	"slices"
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

// JoinWorker uses an invitation and keeps the certificate in the data folder. A new key is written before it
// is used, so a call that was cut off can be repeated. Until the nodes have accepted it, it is in a file of
// its own, so a certificate that the worker has stays as it is if the nodes refuse the invitation.
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
	transport, err := Transport(cfg)
	if err != nil {
		return nil, err
	}
	if by.Fingerprint != "" {
		transport.TLSClientConfig = authority.Pinned(by.Fingerprint)
	}
	defer transport.CloseIdleConnections()
	file := membershipFile(cfg.Data)
	for _, from := range []string{file, file + nextSuffix, ""} {
		m, err := memberFrom(cfg, from)
		if err != nil {
			return nil, err
		}
		if m == nil {
			continue
		}
		m.Servers = servers
		err = m.join(ctx, transport, by)
		if refusal := new(refusedJoin); from != "" && errors.As(err, &refusal) && refusal.status == http.StatusConflict {
			continue // the key is that of another invitation, or was revoked
		}
		if err != nil {
			return nil, err
		}
		return m, nil
	}
	return nil, ErrNotJoined // the last one is always tried
}

// memberFrom returns a key with which a worker can join: that of its certificate, if it is valid, that of a
// call that was cut off, or a new one if from is "". It returns nil if a file has none.
func memberFrom(cfg *config.Config, from string) (*Membership, error) {
	if from == "" {
		m, err := newMember(cfg)
		if err != nil {
			return nil, err
		}
		m.file += nextSuffix
		return m, m.save()
	}
	m, err := readMembership(from)
	switch {
	case errors.Is(err, ErrNotJoined):
		return nil, nil
	case err != nil:
		return nil, err
	case m.Name != cfg.Name, len(m.Chain) > 0 && time.Now().After(m.Expires):
		return nil, nil
	}
	return m, nil
}

// nextSuffix ends the name of the file of a key that has no certificate yet.
const nextSuffix = ".next"

// join gets the certificate of an invitation, and puts it in place.
func (m *Membership) join(ctx context.Context, via http.RoundTripper, by Invitation) error {
	if err := m.ask(ctx, call{via, m.Servers, joinPath, by.Secret}); err != nil {
		return err
	}
	if by.Fingerprint != "" && !authority.HasRoot(m.Roots, by.Fingerprint) {
		return fmt.Errorf("the node has another certificate authority than %s: the certificate is not used", by.Fingerprint)
	}
	if err := m.save(); err != nil {
		return err
	}
	at, pending := strings.CutSuffix(m.file, nextSuffix)
	if !pending {
		return nil
	}
	if err := os.Rename(m.file, at); err != nil {
		return fmt.Errorf("write the certificate of the worker: %w", err)
	}
	m.file = at
	return nil
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

// ReadMembership reads the certificate of a worker. It returns ErrNotJoined if there is none.
func ReadMembership(data string) (*Membership, error) { return readMembership(membershipFile(data)) }

func readMembership(file string) (*Membership, error) {
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

// call is a call for a certificate.
type call struct {
	via          http.RoundTripper
	servers      []string // tried in turn
	path, bearer string
}

// ask gets a certificate from the first node that issues one, and keeps it in memory.
func (m *Membership) ask(ctx context.Context, c call) error {
	der, err := m.request()
	if err != nil {
		return err
	}
	body, err := json.Marshal(joining{Name: m.Name, Request: der})
	if err != nil {
		return err
	}
	var failed []error
	for _, server := range c.servers {
		out, err := askOne(ctx, c, server, body)
		switch {
		case err == nil && out.Name == m.Name && len(out.Chain) > 0 && len(out.Roots) > 0:
			m.joined = out
			return nil
		case err == nil:
			err = errors.New("the answer holds no certificate for this worker")
		}
		failed = append(failed, fmt.Errorf("%s: %w", server, err))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// askOne makes one call.
func askOne(ctx context.Context, c call, server string, body []byte) (out joined, err error) {
	if !strings.HasPrefix(server, "https://") {
		return out, errNotHTTPS
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server+c.path, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	r.Header.Set("Content-Type", "application/json")
	if c.bearer != "" {
		r.Header.Set("Authorization", "Bearer "+c.bearer)
	}
	resp, err := (&http.Client{Transport: c.via}).Do(r)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, joinBytesMax))
	if err != nil {
		return out, err
	}
	if resp.StatusCode != http.StatusOK {
		return out, &refusedJoin{resp.StatusCode, problemOf(resp.StatusCode, text)}
	}
	return out, json.Unmarshal(text, &out)
}

// transport shows the worker's certificate to nodes, and knows them by the roots.
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

// renewing is a transport whose certificate is renewed. Each renewal begins new connections, because a
// connection keeps the certificate with which it began.
type renewing struct {
	m    *Membership
	base *http.Transport
	now  atomic.Pointer[showing]
	log  *slog.Logger
}

// showing is a transport, and the end of the certificate that it shows.
type showing struct {
	*http.Transport
	name        string
	from, until time.Time
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
	own, err := x509.ParseCertificate(r.m.Chain[0])
	if err != nil {
		return fmt.Errorf("read the certificate of the worker: %w", err)
	}
	if old := r.now.Swap(&showing{next, r.m.Name, own.NotBefore, r.m.Expires}); old != nil {
		old.CloseIdleConnections()
	}
	return nil
}

// RoundTrip implements http.RoundTripper.
func (r *renewing) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" {
		return nil, errNotHTTPS
	}
	now := r.now.Load()
	if time.Now().After(now.until.Add(authority.Skew)) { // no node accepts it, and each refusal counts against the address
		return nil, fmt.Errorf("the certificate of this worker ended at %s; let it join again: skein worker invite %s", now.until.UTC().Format(time.DateTime), now.name)
	}
	return now.RoundTrip(req)
}

// run renews the certificate until ctx ends: at two thirds of its life, and again after a pause if no node
// renews it. known returns the nodes that the worker knows now; those by which it joined are tried, too.
func (r *renewing) run(ctx context.Context, known func() []string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(authority.Due(r.now.Load().from, r.m.Expires, time.Now())):
		}
		next := *r.m
		err := next.ask(ctx, call{r.now.Load().Transport, serversOf(known(), next.Servers), renewPath, ""})
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

// serversOf returns all servers, each once.
func serversOf(lists ...[]string) (all []string) {
	for _, s := range slices.Concat(lists...) {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}
