package config

import (
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/identity"
	"skein.dev/skein/internal/secret"
)

// identitySettings returns the settings of sign-in by identity providers.
func identitySettings() []setting {
	return []setting{
		{name: "auth", def: text(""), set: setAuth},
		{name: "public_url", def: text(""), set: setPublicURL},
	}
}

// setAuth reads the providers. Their secrets are in separate files, so the value contains none.
func setAuth(c *Config, v string) (err error) {
	c.Auth, err = identity.Parse(v, access.CheckNamespace)
	return err
}

// setPublicURL reads the address by which browsers reach the server. It has no path: base_path is the path.
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

// Providers returns the identity providers of the settings. They are called at each sign-in.
func (c *Config) Providers(log *slog.Logger) ([]*identity.Provider, error) {
	if len(c.Auth.OIDC) == 0 {
		return nil, nil
	}
	roots, err := c.Roots()
	if err != nil {
		return nil, err
	}
	client := identity.NewClient(roots)
	all := make([]*identity.Provider, len(c.Auth.OIDC))
	for i := range c.Auth.OIDC {
		all[i] = identity.NewProvider(c.Auth.OIDC[i], client, secret.File, log)
	}
	return all, nil
}

// Directory returns the directory of the settings, or nil if there is none.
func (c *Config) Directory(log *slog.Logger) *identity.Directory {
	if c.Auth.LDAP == nil {
		return nil
	}
	return identity.NewDirectory(*c.Auth.LDAP, secret.File, log)
}

// Roots returns the authorities of the system together with that of ca_cert. It returns nil if there are only
// those of the system.
func (c *Config) Roots() (*x509.CertPool, error) {
	if c.CACert == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.CACert)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("certificate authority: %s holds no certificate in PEM", c.CACert)
	}
	return pool, nil
}
