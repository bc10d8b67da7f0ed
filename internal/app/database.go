package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/store/sqlite"
)

// sqliteScheme begins a setting db that is a file; else it is an address of PostgreSQL.
const sqliteScheme = "sqlite:"

func setDB(c *Config, v string) error {
	path, isFile := strings.CutPrefix(v, sqliteScheme)
	switch {
	case v == "":
		c.DB, c.Postgres = "", ""
		return nil
	case isFile && path != "":
		var err error
		c.Postgres = ""
		c.DB, err = filepath.Abs(path)
		return err
	case strings.HasPrefix(v, "postgres://") || strings.HasPrefix(v, "postgresql://"):
		if _, err := url.Parse(v); err != nil {
			return errors.New("it is no URL such as postgres://user@host:5432/database") // the text may hold a password
		}
		c.DB, c.Postgres = "", v
		return nil
	}
	return fmt.Errorf("%q is neither sqlite:PATH nor postgres://user@host:5432/database", shownDB(v))
}

// shownDB returns the setting db without its password.
func shownDB(v string) string {
	switch {
	case strings.HasPrefix(v, "postgres://") || strings.HasPrefix(v, "postgresql://"):
		return withoutPassword(v)
	case strings.HasPrefix(v, sqliteScheme) || !strings.ContainsAny(v, "@="):
		return v
	}
	return "…" // perhaps an address that was mistyped
}

// dbPath is where the SQLite file is.
func (c *Config) dbPath() string {
	if c.DB != "" {
		return c.DB
	}
	return filepath.Join(c.Data, "skein.db")
}

// folderOf returns the folder of the SQLite file.
func folderOf(c *Config) string { return filepath.Dir(c.dbPath()) }

// dbName names the database for people, without a password.
func (c *Config) dbName() string {
	if c.Postgres == "" {
		return c.dbPath()
	}
	return withoutPassword(c.Postgres)
}

func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "postgres://…"
	}
	q := u.Query()
	for _, name := range []string{"password", "sslpassword"} {
		if q.Has(name) {
			q.Set(name, "xxxxx")
			u.RawQuery = q.Encode()
		}
	}
	return u.Redacted()
}

// startPatience is how long a server waits at its start for a database that does not answer: after a power
// cut, or when both are started again, the database may need longer.
const (
	startPatience = time.Minute
	startPause    = 250 * time.Millisecond // between two tries
)

// openStore opens the database to work on it. With a log, a server's, it is waited for; a command says at
// once that it is away.
func openStore(ctx context.Context, cfg *Config, log *slog.Logger) (st store.Store, err error) {
	if cfg.Postgres == "" {
		st, err = sqlite.Open(cfg.dbPath())
	} else {
		st, err = openPostgres(ctx, cfg, func(o *postgres.Options) {
			if log != nil {
				o.Patience = startPatience
				o.Waiting = func(why error) {
					log.Warn("the database does not answer; the node tries again", "code", "database_unreachable", "for", startPatience, "db", cfg.dbName(), "err", why)
				}
			}
		})
	}
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", cfg.dbName(), err)
	}
	return st, nil
}

// patiently asks the store until it answers, for as long as a start waits. The database may be gone again
// just after it was opened, for example while PostgreSQL recovers. A command does not wait: it fails at
// once, because a person waits for it.
func (n *Node) patiently(ctx context.Context, ask func() error) error {
	for began := time.Now(); ; {
		err := ask()
		if err == nil || n.patient() == nil || n.cfg.Postgres == "" || !postgres.Passes(err) || time.Since(began) >= startPatience {
			return err
		}
		n.log.Warn("the database does not answer; the node tries again", "code", "database_unreachable", "for", startPatience, "db", n.cfg.dbName(), "err", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(startPause):
		}
	}
}

// readStore opens the database for reading. It returns os.ErrNotExist if there is none.
func readStore(ctx context.Context, cfg *Config) (st store.Store, err error) {
	if cfg.Postgres != "" {
		st, err = openPostgres(ctx, cfg, func(*postgres.Options) {})
	} else if _, err = os.Stat(cfg.dbPath()); err == nil || !errors.Is(err, os.ErrNotExist) {
		st, err = sqlite.OpenReadOnly(cfg.dbPath())
	}
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", cfg.dbName(), err)
	}
	return st, nil
}

// ErrUnreachable says that a database does not answer now.
var ErrUnreachable = errors.New("the database does not answer")

// unanswered is an ErrUnreachable with the text of another error.
type unanswered struct{ error }

func (u unanswered) Is(target error) bool { return target == ErrUnreachable }
func (u unanswered) Unwrap() error        { return u.error }

func openPostgres(ctx context.Context, cfg *Config, how func(*postgres.Options)) (store.Store, error) {
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
