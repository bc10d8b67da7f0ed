package dbadmin

import (
	"context"
	"errors"
	"fmt"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/past"
	"skein.dev/skein/internal/store"
)

// Recovered is the result of `skein db recovered`.
type Recovered struct {
	Location string  `json:"location"`
	Era      dag.Era `json:"era"`
}

// Recover raises the era of a database that was recovered or restored without Skein. Nodes on PostgreSQL may
// run meanwhile. An SQLite file must not be in use.
func Recover(ctx context.Context, cfg *config.Config) (r Recovered, err error) {
	r.Location = cfg.DBName()
	if cfg.Postgres == "" {
		release, err := hold(cfg)
		if err != nil {
			return r, err
		}
		defer release()
	}
	if s, _, err := lookAt(ctx, cfg); err != nil || s.Format == 0 {
		return r, errors.Join(err, noDatabase(s.Format, cfg))
	}
	st, err := Open(ctx, cfg, nil)
	if err != nil {
		return r, err
	}
	info, err := st.Info(ctx)
	if err == nil {
		c := past.Config{Store: st, Cluster: info.Cluster, Node: cfg.Name, Letter: func(r past.Regress) []byte { return engine.LetterOfEra(r.Era, r.By, r.Why) }}
		if cfg.Postgres == "" {
			c.File = cfg.PastFile() // the nodes of a cluster notice the new era and write their own files
		}
		r.Era, err = past.Open(c).Raise(ctx, "skein db recovered said that the database was recovered to an earlier state")
	}
	return r, errors.Join(err, st.Close())
}

func noDatabase(format int, cfg *config.Config) error {
	if format != 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrNoData, cfg.DBName())
}

// raiseRestored begins a new era in a restored copy. The era is later than those of the copy and of the
// database that the copy replaces.
func raiseRestored(ctx context.Context, cfg *config.Config, st store.Store) error {
	known, err := past.EraKnown(cfg.PastFile())
	if err != nil {
		known = 0 // the file is damaged; the next node that starts reports it
	}
	if old, err := OpenReadOnly(ctx, cfg); err == nil {
		if marks, err := old.Marks(ctx); err == nil {
			known = max(known, store.EraOf(marks))
		}
		_ = old.Close()
	}
	marks, err := st.Marks(ctx)
	if err != nil {
		return err
	}
	from := store.EraOf(marks)
	to := max(known, from) + 1
	if to > dag.EraMax {
		return fmt.Errorf("the restored database would be in era %d: %w", to, store.ErrLastEra)
	}
	_, err = st.Raise(ctx, from, to, engine.LetterOfEra(to, cfg.Name, "a backup was restored"))
	return err
}
