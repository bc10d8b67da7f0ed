package dbadmin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/store/sqlite"
)

// startPatience bounds how long a starting server waits for a database that does not answer. After a power
// cut, or if both are restarted together, the database may need longer than the server.
const (
	startPatience = time.Minute
	startPause    = 250 * time.Millisecond // between two tries
)

// WaitFor calls ask until the open database answers, for at most startPatience. A database can fail just
// after it was opened, for example while PostgreSQL recovers. If log is nil, WaitFor calls ask only once: a
// person waits for a command, so the command must fail at once.
func WaitFor(ctx context.Context, cfg *config.Config, log *slog.Logger, ask func() error) error {
	for began := time.Now(); ; {
		err := ask()
		if err == nil || log == nil || cfg.Postgres == "" || !postgres.Passes(err) || time.Since(began) >= startPatience {
			return err
		}
		log.Warn("the database does not answer; the node tries again", "code", "database_unreachable", "for", startPatience, "db", cfg.DBName(), "err", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(startPause):
		}
	}
}

// Open opens the database of the settings for work on it. If log is set, Open waits for a database that does
// not answer, as a server does. If log is nil, it returns ErrUnreachable at once.
func Open(ctx context.Context, cfg *config.Config, log *slog.Logger) (st store.Store, err error) {
	if cfg.Postgres == "" {
		st, err = sqlite.Open(cfg.DBPath())
	} else {
		st, err = openPostgres(ctx, cfg, func(o *postgres.Options) {
			if log != nil {
				o.Patience = startPatience
				o.Waiting = func(why error) {
					log.Warn("the database does not answer; the node tries again", "code", "database_unreachable", "for", startPatience, "db", cfg.DBName(), "err", why)
				}
			}
		})
	}
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", cfg.DBName(), err)
	}
	return st, nil
}

// OpenReadOnly opens the database for reading. It returns os.ErrNotExist if there is none.
func OpenReadOnly(ctx context.Context, cfg *config.Config) (st store.Store, err error) {
	if cfg.Postgres != "" {
		st, err = openPostgres(ctx, cfg, func(*postgres.Options) {})
	} else if _, err = os.Stat(cfg.DBPath()); err == nil {
		st, err = sqlite.OpenReadOnly(cfg.DBPath())
	} else if !errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w; name another data folder with --data DIR, or another database with --db", datadir.Reason(err))
	}
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", cfg.DBName(), err)
	}
	return st, nil
}

// ErrUnreachable says that a database does not answer now.
var ErrUnreachable = errors.New("the database does not answer")

// unanswered is an ErrUnreachable with the text of the wrapped error.
type unanswered struct{ error }

func (u unanswered) Is(target error) bool { return target == ErrUnreachable }

func (u unanswered) Unwrap() error { return u.error }

func openPostgres(ctx context.Context, cfg *config.Config, how func(*postgres.Options)) (store.Store, error) {
	o, err := postgres.ParseAddress(cfg.Postgres)
	if err != nil {
		return nil, err
	}
	o.Application = "skein " + cfg.Name
	how(&o)
	db, err := postgres.Open(ctx, o)
	if err != nil && postgres.Passes(err) {
		return nil, unanswered{err}
	}
	if err != nil {
		return nil, err
	}
	return db, nil
}

// ErrNoData says that a data folder holds no database yet.
var ErrNoData = errors.New("the database does not exist yet")
