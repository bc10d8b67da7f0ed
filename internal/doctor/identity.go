package doctor

import (
	"context"
	"log/slog"
	"time"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/identity"
)

// identityCheckMax bounds the check of one provider.
const identityCheckMax = 20 * time.Second

// checkIdentity checks for each identity provider of the settings whether people can sign in with it.
func checkIdentity(ctx context.Context, cfg *config.Config) (all []Check) {
	if d := cfg.Directory(slog.New(slog.DiscardHandler)); d != nil {
		all = append(all, checkDirectory(ctx, d))
	}
	providers, err := cfg.Providers(slog.New(slog.DiscardHandler))
	if err != nil {
		return append(all, Check{Name: "sign-in", State: Bad, Found: err.Error(), Remedy: "correct ca_cert"})
	}
	for _, p := range providers {
		c := Check{Name: "sign-in by " + p.Name(), State: Good, Found: p.Issuer()}
		redirect := redirectOf(cfg, p.Name())
		if redirect == "" {
			c.State, c.Found, c.Remedy = Bad, "the server does not know the address by which browsers reach it", "set public_url"
			all = append(all, c)
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, identityCheckMax)
		err := p.Check(ctx, redirect)
		cancel()
		if c.Found += ", which sends people back to " + redirect; err != nil {
			c.State, c.Found = Warning, p.Issuer()+": "+err.Error()
			c.Remedy = "people with local accounts can sign in; correct the setting auth, or the client at the provider, with the redirect address " + redirect
		}
		all = append(all, c)
	}
	return all
}

// checkDirectory checks whether people can sign in with the directory of the settings.
func checkDirectory(ctx context.Context, d *identity.Directory) Check {
	ctx, cancel := context.WithTimeout(ctx, identityCheckMax)
	defer cancel()
	c := Check{Name: "sign-in by " + d.Name(), State: Good, Found: d.URL()}
	if err := d.Check(ctx); err != nil {
		c.State, c.Found = Warning, d.URL()+": "+err.Error()
		c.Remedy = "people with local accounts can sign in; correct the setting auth, or the directory"
	}
	return c
}

// redirectOf returns the URL to which a provider sends people back. It returns "" if the setting for that is
// missing.
func redirectOf(cfg *config.Config, provider string) string {
	base := cfg.PublicURL
	if base == "" {
		if cfg.Exposed() {
			return ""
		}
		base = "http://" + cfg.Listen
		if cfg.TLSCert != "" {
			base = "https://" + cfg.Listen
		}
	}
	return base + cfg.BasePath + "/auth/" + provider + "/callback"
}
