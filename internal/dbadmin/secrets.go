package dbadmin

import (
	"log/slog"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/provider"
	"skein.dev/skein/internal/sealed"
	"skein.dev/skein/internal/store"
)

// Secrets returns the secrets of a database.
func Secrets(cfg *config.Config, st store.Secrets) *sealed.Book {
	file, made := cfg.SecretKey()
	return &sealed.Book{Store: st, File: file, Own: made}
}

// Providers returns the secrets of a database, together with those of the providers in the settings.
func Providers(cfg *config.Config, st store.Secrets, log *slog.Logger) (*provider.Chain, error) {
	roots, err := cfg.Roots()
	if err != nil {
		return nil, err
	}
	c, err := provider.New(provider.Options{Book: Secrets(cfg, st), Settings: cfg.SecretProviders, Roots: roots, Log: log})
	if err != nil {
		return nil, cfg.Wrong("secret_providers", err)
	}
	return c, nil
}
