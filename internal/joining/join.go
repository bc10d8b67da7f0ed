package joining

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"skein.dev/skein/internal/authority"
)

// errNotHTTPS says that a worker can show a certificate only to a server with TLS.
var errNotHTTPS = errors.New("certificates need TLS: name the nodes by https://")

// callMax bounds one call for a certificate.
const callMax = 20 * time.Second

// Invitation holds what a worker needs in order to join.
type Invitation struct {
	Secret string
	// Fingerprint is that of the root. If it is "", the server's certificate is verified against the roots of
	// the system.
	Fingerprint string
}

// Candidate is a worker that wants to join.
type Candidate struct {
	Name    string
	Data    string   // the worker's data folder; the caller holds its lock
	Servers []string // URLs of nodes, tried in order
	// Transport reaches the nodes. Join may change its TLS settings.
	Transport *http.Transport
}

// Join uses an invitation and stores the certificate in the data folder. It stores a new key before it uses
// that key, so a call that was cut off can be repeated. The new key is in a separate file until a node has
// accepted it. So a worker that already has a certificate keeps it if the nodes refuse the invitation.
func Join(ctx context.Context, c Candidate, by Invitation) (*Membership, error) {
	if by.Fingerprint != "" {
		c.Transport.TLSClientConfig = authority.Pinned(by.Fingerprint)
	}
	defer c.Transport.CloseIdleConnections()
	file := fileIn(c.Data)
	for _, from := range []string{file, file + nextSuffix, ""} {
		m, err := c.membership(from)
		if err != nil {
			return nil, err
		}
		if m == nil {
			continue
		}
		m.Servers = c.Servers
		err = m.join(ctx, c.Transport, by)
		if why := new(refusal); from != "" && errors.As(err, &why) && why.status == http.StatusConflict {
			continue // the key belongs to another invitation, or was revoked
		}
		if err != nil {
			return nil, err
		}
		return m, nil
	}
	return nil, ErrNotJoined // not reached: the last key is always tried
}

// membership returns a key with which a worker can join. It reads the key from a file, where it belongs to a
// valid certificate or to a call that was cut off. It returns nil if the file has no such key. If from is "",
// it makes a new key.
func (c *Candidate) membership(from string) (*Membership, error) {
	if from == "" {
		m, err := newMembership(c.Name, fileIn(c.Data)+nextSuffix)
		if err != nil {
			return nil, err
		}
		return m, m.save()
	}
	m, err := readFile(from)
	switch {
	case errors.Is(err, ErrNotJoined):
		return nil, nil
	case err != nil:
		return nil, err
	case m.Name != c.Name, len(m.Chain) > 0 && time.Now().After(m.Expires):
		return nil, nil
	}
	return m, nil
}

// join requests the certificate for an invitation and stores it.
func (m *Membership) join(ctx context.Context, via http.RoundTripper, by Invitation) error {
	if err := m.ask(ctx, call{via, m.Servers, JoinPath, by.Secret}); err != nil {
		return err
	}
	if by.Fingerprint != "" && !authority.HasRoot(m.Roots, by.Fingerprint) {
		return fmt.Errorf("the node has another certificate authority than %s: the certificate is not used", by.Fingerprint)
	}
	was := m.file
	m.file = strings.TrimSuffix(was, nextSuffix)
	if err := m.save(); err != nil || m.file == was {
		return err
	}
	if err := os.Remove(was); err != nil {
		return fmt.Errorf("remove the key that waited for the certificate: %w", err)
	}
	return nil
}

// call describes a call for a certificate.
type call struct {
	via          http.RoundTripper
	servers      []string // tried in order
	path, bearer string
}

// ask gets a certificate from the first node that issues one. It does not write the certificate to disk.
func (m *Membership) ask(ctx context.Context, c call) error {
	der, err := m.request()
	if err != nil {
		return err
	}
	body, err := json.Marshal(request{Name: m.Name, Request: der})
	if err != nil {
		return err
	}
	var failed []error
	for _, server := range c.servers {
		out, err := askOne(ctx, c, server, body)
		switch {
		case err == nil && out.Name == m.Name && len(out.Chain) > 0 && len(out.Roots) > 0:
			m.Grant = out
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

// askOne calls one node for a certificate.
func askOne(ctx context.Context, c call, server string, body []byte) (out Grant, err error) {
	if !strings.HasPrefix(server, "https://") {
		return out, errNotHTTPS
	}
	ctx, cancel := context.WithTimeout(ctx, callMax)
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
	text, err := io.ReadAll(io.LimitReader(resp.Body, bytesMax))
	if err != nil {
		return out, err
	}
	if resp.StatusCode != http.StatusOK {
		return out, &refusal{resp.StatusCode, problemOf(resp.StatusCode, text)}
	}
	return out, json.Unmarshal(text, &out)
}
