package provider

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"skein.dev/skein/internal/secret"
)

const (
	// answerMax bounds an answer of Vault, in bytes.
	answerMax = 1 << 20
	// saidMax bounds the bytes of an answer that an error contains.
	saidMax = 200
	// jwtMax bounds the file of a JWT, in bytes.
	jwtMax = 16 << 10
)

// vault reads values from the KV secrets engine, version 2, of Vault or OpenBao.
type vault struct {
	set    *Vault
	client *http.Client

	signing chan struct{} // capacity 1: held during a sign-in
	mu      sync.Mutex    // protects following fields
	token   string
	until   time.Time // the time of the next sign-in; zero if there is none
	renewed time.Time // the last sign-in that was necessary because Vault had refused a token
}

// renewMin is the least time between two sign-ins because of refused tokens, because each sign-in may use up
// a secret ID.
const renewMin = time.Minute

func newVault(set *Vault, roots *x509.CertPool) (*vault, error) {
	if set.CAFile != "" {
		text, err := os.ReadFile(set.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("ca_file: %s holds no certificate in PEM", set.CAFile)
		}
	}
	return &vault{set: set, signing: make(chan struct{}, 1), client: &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			MaxConnsPerHost: callsMax, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10},
		// The token must be sent only to the address in the settings.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func (v *vault) get(ctx context.Context, namespace, name string) ([]byte, error) {
	path, field := fill(v.set.Path, namespace, name), fill(v.set.Field, namespace, name)
	for again := false; ; again = true {
		token, err := v.signedIn(ctx)
		if err != nil {
			return nil, err
		}
		a, err := v.call(ctx, http.MethodGet, v.set.Mount+"/data/"+path, token, nil)
		switch {
		case err != nil:
			return nil, err
		case a.code == http.StatusForbidden && !again && v.revoked(ctx, token):
			continue
		case a.code == http.StatusNotFound:
			return nil, unknown("Vault has no secret %s in %s", path, v.set.Mount)
		case a.code != http.StatusOK:
			return nil, a.refused("read " + v.set.Mount + "/data/" + path)
		}
		return valueIn(a.body, v.set.Mount+"/data/"+path, field)
	}
}

// valueIn finds a field in the answer to a read.
func valueIn(body []byte, path, field string) ([]byte, error) {
	var is struct {
		Data struct {
			Data map[string]json.RawMessage `json:"data"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &is); err != nil { // the error could quote the answer
		return nil, fmt.Errorf("%w: the answer for %s is not that of a KV secrets engine of version 2", ErrRefused, path)
	}
	if is.Data.Data == nil {
		return nil, fmt.Errorf("%w: the answer for %s has no data: is the secrets engine KV of version 2?", ErrRefused, path)
	}
	raw, ok := is.Data.Data[field]
	if !ok {
		return nil, unknown("the secret %s has no field %s", path, field)
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return nil, fmt.Errorf("%w: the field %s of %s is not text", ErrRefused, field, path)
	}
	return []byte(text), nil
}

// answer is the status and the body of an HTTP response of Vault.
type answer struct {
	code int
	body []byte
}

// refused returns the error for an answer that is no success. In the field errors, Vault gives the reason.
func (a *answer) refused(what string) error {
	why := fmt.Sprintf("%s: Vault answered %d %s", what, a.code, http.StatusText(a.code))
	var is struct {
		Errors []string `json:"errors"`
	}
	if json.Unmarshal(a.body, &is) == nil && len(is.Errors) > 0 {
		text := strings.ToValidUTF8(strings.ReplaceAll(strings.Join(is.Errors, "; "), "\x00", ""), "")
		why += ": " + strings.Join(strings.Fields(text[:min(len(text), saidMax)]), " ")
	}
	switch {
	case a.code >= 500, a.code == http.StatusTooManyRequests, a.code == http.StatusPreconditionFailed, a.code == http.StatusRequestTimeout:
		return fmt.Errorf("%w: %s", ErrAway, why)
	case a.code >= 300 && a.code < 400:
		return fmt.Errorf("%w: %s: redirects are not followed: give the address of the active server", ErrRefused, why)
	}
	return fmt.Errorf("%w: %s", ErrRefused, why)
}

// call sends a request. A token that is empty is not sent.
func (v *vault) call(ctx context.Context, method, path, token string, in any) (*answer, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	u := v.set.Address + "/v1/" + (&url.URL{Path: path}).EscapedPath()
	req, err := http.NewRequestWithContext(ctx, method, u, body)
	if err != nil {
		return nil, fmt.Errorf("%w: the address cannot be used", ErrRefused)
	}
	req.Header.Set("X-Vault-Request", "true")
	req.Header.Set("User-Agent", "Skein")
	if token != "" {
		req.Header.Set("X-Vault-Token", token)
	}
	if v.set.Namespace != "" {
		req.Header.Set("X-Vault-Namespace", v.set.Namespace)
	}
	resp, err := v.client.Do(req)
	if err != nil {
		var named *url.Error
		if errors.As(err, &named) {
			err = named.Err
		}
		return nil, fmt.Errorf("%w: %s: %w", ErrAway, v.set.Address, err)
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, answerMax+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %s: %w", ErrAway, v.set.Address, err)
	case len(said) > answerMax:
		return nil, fmt.Errorf("%w: the answer of %s is larger than %d bytes", ErrRefused, v.set.Address, answerMax)
	}
	return &answer{resp.StatusCode, said}, nil
}

// check signs in, and reads the data of its token from Vault.
func (v *vault) check(ctx context.Context) (string, error) {
	token, err := v.signedIn(ctx)
	if err != nil {
		return "", err
	}
	a, err := v.call(ctx, http.MethodGet, "auth/token/lookup-self", token, nil)
	if err == nil && a.code != http.StatusOK {
		err = a.refused("look at the token")
	}
	if err != nil {
		return "", err
	}
	return v.set.Address + ", " + v.set.Mount + "/" + v.set.Path, nil
}

// signedIn returns a token. Callers that come during a sign-in wait for its token.
func (v *vault) signedIn(ctx context.Context) (string, error) {
	if v.set.TokenFile != "" { // the file is read at each use, so that an agent may renew the token
		token, err := secret.File(v.set.TokenFile)
		if err != nil {
			return "", fmt.Errorf("%w: token_file: %w", ErrRefused, err)
		}
		return strings.TrimSpace(string(token)), nil
	}
	select {
	case v.signing <- struct{}{}:
		defer func() { <-v.signing }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	v.mu.Lock()
	token, until := v.token, v.until
	v.mu.Unlock()
	if token != "" && (until.IsZero() || time.Now().Before(until)) {
		return token, nil
	}
	return v.signIn(ctx)
}

// signIn gets a token, and keeps it for two thirds of its lifetime.
func (v *vault) signIn(ctx context.Context) (string, error) {
	mount, in, err := v.credentials()
	if err != nil {
		return "", fmt.Errorf("%w: sign in: %w", ErrRefused, err)
	}
	began := time.Now()
	a, err := v.call(ctx, http.MethodPost, "auth/"+mount+"/login", "", in)
	if err == nil && a.code != http.StatusOK {
		err = a.refused("sign in by auth/" + mount)
	}
	if err != nil {
		return "", err
	}
	var is struct {
		Auth struct {
			Token string `json:"client_token"`
			Lease int64  `json:"lease_duration"`
		} `json:"auth"`
	}
	if json.Unmarshal(a.body, &is) != nil || is.Auth.Token == "" || strings.ContainsAny(is.Auth.Token, "\r\n") || is.Auth.Lease < 0 {
		return "", fmt.Errorf("%w: the answer of auth/%s holds no token", ErrRefused, mount)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.token, v.until = is.Auth.Token, time.Time{}
	if is.Auth.Lease > 0 {
		v.until = began.Add(min(time.Duration(is.Auth.Lease), leaseMax) * time.Second * 2 / 3)
	}
	return v.token, nil
}

// leaseMax bounds the lifetime of a token that this node assumes, in seconds.
const leaseMax = 30 * 24 * 3600

// credentials returns the credentials with which a node signs in.
func (v *vault) credentials() (mount string, in any, err error) {
	if r := v.set.AppRole; r != nil {
		id, err := secret.File(r.SecretIDFile)
		if err != nil {
			return "", nil, fmt.Errorf("secret_id_file: %w", err)
		}
		return firstOf(r.Mount, "approle"), map[string]string{"role_id": r.RoleID, "secret_id": strings.TrimSpace(string(id))}, nil
	}
	j, mount := v.set.Kubernetes, "kubernetes"
	if j == nil {
		j, mount = v.set.JWT, "jwt"
	}
	file, err := os.Open(j.JWTFile) // Kubernetes makes the file readable for all users of the pod
	if err != nil {
		return "", nil, fmt.Errorf("jwt_file: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, jwtMax))
	if err != nil {
		return "", nil, fmt.Errorf("jwt_file: %w", err)
	}
	return firstOf(j.Mount, mount), map[string]string{"role": j.Role, "jwt": strings.TrimSpace(string(text))}, nil
}

// revoked reports whether a token that Vault refused for a read is invalid in general. If so, it drops the
// token. Vault also refuses a read that the policy of a valid token forbids, and workflows choose the names
// of secrets, so such a name must not use up sign-ins. revoked returns false if the node cannot get another
// token now.
func (v *vault) revoked(ctx context.Context, token string) bool {
	if v.set.TokenFile != "" {
		return false
	}
	if a, err := v.call(ctx, http.MethodGet, "auth/token/lookup-self", token, nil); err != nil || a.code != http.StatusForbidden {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.token != token: // another read has already dropped the token
		return true
	case !v.renewed.IsZero() && time.Since(v.renewed) < renewMin:
		return false
	}
	v.token, v.renewed = "", time.Now()
	return true
}

func firstOf(text, def string) string {
	if text == "" {
		return def
	}
	return strings.Trim(text, "/")
}
