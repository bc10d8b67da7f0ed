package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/depot"
	"skein.dev/skein/internal/dispatch"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// Observer reads a data folder that no process uses. It writes nothing and takes no lock.
type Observer struct {
	store   store.Store
	handler http.Handler
}

// Observe opens a data folder for reading.
func Observe(ctx context.Context, cfg *config.Config) (*Observer, error) {
	db, err := dbadmin.OpenReadOnly(ctx, cfg)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w in the data folder %s", dbadmin.ErrNoData, filepath.Dir(cfg.DBPath()))
	}
	if err != nil {
		return nil, err
	}
	e, err := engine.New(ctx, engine.Config{Store: unregistered{db}, Executor: dispatch.Idle{}, Compile: compiler(), Node: cfg.Name, Slots: 1})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	shared, err := openLogs(cfg, db)
	kept, errKept := depot.Look(cfg, db)
	if err = errors.Join(err, errKept); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	srv, err := newServer(cfg, e, slog.New(slog.DiscardHandler), face{address: config.ListenDefault, retention: cfg.Retention}, neighboursOf(db, kept.Logs(shared), kept))
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Observer{store: db, handler: auth.AsLocal(srv.Handler())}, nil
}

// Handler returns the handler for requests, which must only read.
func (o *Observer) Handler() http.Handler { return o.handler }

// Close closes the database.
func (o *Observer) Close() error { return o.store.Close() }

// unregistered is a store for a process on whose behalf no change is made, so that it registers no handler.
type unregistered struct{ store.Store }

func (unregistered) Register(_ context.Context, uuid, node string) (store.Handler, error) {
	return store.Handler{UUID: uuid, Node: node}, nil
}
