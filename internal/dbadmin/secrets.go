package dbadmin

import (
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/sealed"
	"skein.dev/skein/internal/store"
)

// Secrets returns the secrets of a database.
func Secrets(cfg *config.Config, st store.Secrets) *sealed.Book {
	file, made := cfg.SecretKey()
	return &sealed.Book{Store: st, File: file, Own: made}
}
