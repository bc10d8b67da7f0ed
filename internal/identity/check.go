package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// Check tests the settings of a provider: it reads the discovery document and the keys of the provider and
// the secret of this server, and begins a sign-in that it does not finish. It returns an error that names the
// first fault.
func (p *Provider) Check(ctx context.Context, redirect string) error {
	d, err := p.discover(ctx)
	if err != nil {
		return fmt.Errorf("its description: %w", err)
	}
	if err := p.checkKeys(ctx, d.keys); err != nil {
		return fmt.Errorf("its keys: %w", err)
	}
	to, _, err := p.Begin(ctx, redirect, "/")
	if cause := errors.Unwrap(err); cause != nil {
		return cause
	} else if err != nil {
		return err
	}
	resp, err := p.get(ctx, to)
	if err != nil {
		return fmt.Errorf("its sign-in: %w", err)
	}
	defer resp.Body.Close()
	switch at, err := resp.Location(); {
	case resp.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("its sign-in page answers %s", resp.Status)
	case resp.StatusCode >= http.StatusBadRequest:
		return fmt.Errorf("its sign-in page answers %s: the provider may not know the client %s or the redirect address %s; register both there", resp.Status, p.of.ClientID, redirect)
	case err == nil && at.Query().Has("error"):
		return fmt.Errorf("its sign-in answers %s with the error %s", resp.Status, errorCode(single(at.Query(), "error")))
	}
	return nil
}

// checkKeys searches for a key whose signatures this server accepts.
func (p *Provider) checkKeys(ctx context.Context, address string) error {
	resp, err := p.get(ctx, address)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var set struct {
		Keys []struct {
			Kty string `json:"kty"`
			Alg string `json:"alg"`
			Use string `json:"use"`
		} `json:"keys"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&set); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s and no key set", address, resp.Status)
	}
	for _, k := range set.Keys {
		if (k.Use == "" || k.Use == "sig") && (k.Alg == "" || slices.Contains(algorithms, k.Alg)) && slices.Contains([]string{"RSA", "EC", "OKP"}, k.Kty) {
			return nil
		}
	}
	return fmt.Errorf("%s has no key for signatures by one of %v", address, algorithms)
}

func (p *Provider) get(ctx context.Context, address string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	return p.client.Do(r)
}
