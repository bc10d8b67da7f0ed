package app

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/identity"
	"skein.dev/skein/internal/secret"
)

// identitySettings are the settings of sign-in by identity providers.
func identitySettings() []setting {
	return []setting{
		{name: "auth", def: text(""), set: setAuth},
		{name: "public_url", def: text(""), set: setPublicURL},
	}
}

// setAuth reads the providers. Their secrets are in files of their own, so the value holds none.
func setAuth(c *Config, v string) (err error) {
	c.Auth, err = identity.Parse(v, access.CheckNamespace)
	return err
}

// setPublicURL takes the address by which browsers reach the server. Its path is that of base_path.
func setPublicURL(c *Config, v string) error {
	if c.PublicURL = ""; v == "" {
		return nil
	}
	u, err := url.Parse(strings.TrimSuffix(v, "/"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q is not a URL such as https://skein.example.com", v)
	}
	if u.Path != "" {
		return fmt.Errorf("%q has a path, which belongs into base_path", v)
	}
	c.PublicURL = u.String()
	return nil
}

// structured gives a value of the config file that is no text and no list as JSON.
func structured(value any) (string, bool) {
	if _, is := value.(map[string]any); !is {
		return "", false
	}
	text, err := json.Marshal(value)
	return string(text), err == nil
}

// identityProviders are those of the settings. They are asked at each sign-in.
func identityProviders(cfg *Config, log *slog.Logger) ([]*identity.Provider, error) {
	if len(cfg.Auth.OIDC) == 0 {
		return nil, nil
	}
	roots, err := trustedRoots(cfg)
	if err != nil {
		return nil, err
	}
	client := identity.NewClient(roots)
	all := make([]*identity.Provider, len(cfg.Auth.OIDC))
	for i := range cfg.Auth.OIDC {
		all[i] = identity.NewProvider(cfg.Auth.OIDC[i], client, secret.File, log)
	}
	return all, nil
}

// directoryOf is the directory of the settings; nil: there is none. It is asked at each sign-in.
func directoryOf(cfg *Config, log *slog.Logger) *identity.Directory {
	if cfg.Auth.LDAP == nil {
		return nil
	}
	return identity.NewDirectory(*cfg.Auth.LDAP, secret.File, log)
}

// trustedRoots are the authorities of the system, and that of ca_cert; nil: those of the system alone.
func trustedRoots(cfg *Config) (*x509.CertPool, error) {
	if cfg.CACert == "" {
		return nil, nil
	}
	text, err := os.ReadFile(cfg.CACert)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("certificate authority: %s holds no certificate in PEM", cfg.CACert)
	}
	return pool, nil
}
