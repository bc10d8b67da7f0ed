package app

import (
	"context"
	"errors"
	"fmt"
	"os"

	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store/sqlite"
)

// Verify recounts every invariant of a data folder's database, beside a running node or without one.
func Verify(ctx context.Context, cfg *Config) ([]engine.Violation, error) {
	if _, err := os.Stat(cfg.dbPath()); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("database %s: %w", cfg.dbPath(), os.ErrNotExist)
	}
	db, err := sqlite.OpenReadOnly(cfg.dbPath())
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", cfg.dbPath(), err)
	}
	defer db.Close()
	return engine.Verify(ctx, db, compiler())
}
