package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/people"
	"skein.dev/skein/internal/secret"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/workflow"
)

// face is what a server shows of its process.
type face struct {
	address   string
	leaving   func() bool // nil if it never leaves
	retention func() workflow.Retention
	log       server.LogLevel // nil if the process has no log
	definer   server.Definer  // nil if the process runs no tasks
	// input checks the input of a task with a kind. It is nil if the input is not checked.
	input func(kind string, with json.RawMessage) error
}

func newServer(cfg *config.Config, e *engine.Engine, log *slog.Logger, own face, near neighbours) (*server.Server, error) {
	page, err := webPage(cfg)
	providers, failed := cfg.Providers(log)
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	var auditor server.Auditor
	if near.auditor != nil {
		auditor = near.auditor
	}
	srv, err := server.New(server.Config{
		Engine:        e,
		Auditor:       auditor,
		Audits:        near.audits,
		AuditKeep:     near.keeping,
		Verify:        func(ctx context.Context) ([]inspect.Violation, error) { return dbadmin.Verify(ctx, cfg) },
		Tokens:        near.tokens,
		Sessions:      near.sessions,
		Providers:     providers,
		Directory:     cfg.Directory(log),
		PublicURL:     cfg.PublicURL,
		Access:        near.access,
		Passwords:     people.New(near.access),
		Classes:       near.classes,
		Remote:        near.remote,
		Holder:        near.holder,
		Neighbours:    near.others,
		Cluster:       near.cluster,
		Workers:       near.workers,
		Logs:          logSource{own: logs.Folder{Path: cfg.Data}, shared: near.logs, giver: near.giver},
		Artifacts:     artifactSource{near.artifacts},
		Gateway:       near.gateway,
		Sealed:        dbadmin.Secrets(cfg, near.secrets),
		Authority:     near.authority,
		Alerts:        near.alerts,
		Connections:   near.connections,
		GitSources:    near.connections,
		Git:           near.git,
		Events:        near.events,
		Source:        near.source,
		Connector:     near.connector,
		Notifier:      near.notifier,
		Monitor:       near.monitor,
		Secrets:       secret.Folder{Path: filepath.Join(cfg.Data, "secrets")},
		TasksMax:      cfg.TasksMax,
		Input:         own.input,
		Protected:     cfg.Unwatched(),
		Retention:     own.retention,
		LogLevel:      own.log,
		Definer:       own.definer,
		Version:       Version(),
		Listen:        own.address,
		UI:            page,
		AnyHost:       cfg.Exposed(),
		Metrics:       near.metrics,
		SlotsStuckFor: near.stuck,
		Log:           log,
		Node:          server.Node{Name: cfg.Name, Roles: cfg.Roles(), Started: time.Now()},
		Leaving:       own.leaving,
	})
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	return srv, nil
}
