package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/past"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
)

// remember compares the database with the progress that it had confirmed when this node ran last, and
// raises the era if the database has gone back.
func (n *Node) remember(ctx context.Context, info store.Info) error {
	n.past = past.Open(past.Config{Store: n.store, Cluster: info.Cluster, Node: n.cfg.Name, File: n.cfg.PastFile(), Letter: letterOf,
		Back: n.back, Sure: n.sureOf, Log: n.log})
	return n.patiently(ctx, func() error {
		if _, err := n.past.Check(ctx); err != nil {
			return fmt.Errorf("database %s: %w", n.cfg.DBName(), err)
		}
		return nil
	})
}

func letterOf(r past.Regress) []byte { return engine.LetterOfEra(r.Era, r.By, r.Why) }

// back is called when the era has risen. At the start there is no engine yet, and all later reads are of
// the new era.
func (n *Node) back(era dag.Era) {
	if n.begun.Load() {
		n.forgetVersions()
		n.engine.Back(era)
		n.member.endOld(era)
		return
	}
	n.wentBack.Add(1)
}

// forgetVersions drops what was read of versions of workflows. The database may have lost them, and then
// other versions get their numbers.
func (n *Node) forgetVersions() {
	n.resolver.Forget()
	n.planner.Forget()
	server.Forget(n.server)
	n.gate.Forget()
}

// sureOf returns a time at which this node sent a commit that the database has confirmed since.
func (n *Node) sureOf() time.Time {
	if !n.begun.Load() || n.member == nil {
		return time.Time{}
	}
	return n.member.node.Beaten()
}

// endOld lets the workers of this node end their attempts of older eras.
func (m *membership) endOld(era dag.Era) {
	if m != nil {
		m.home.EndOld(era)
	}
}

// Recovered is the result of `skein db recovered`.
type Recovered struct {
	Location string  `json:"location"`
	Era      dag.Era `json:"era"`
}

// RecoveredDB raises the era of a database that was recovered or restored by other means than
// Skein's. Nodes over PostgreSQL may run; an SQLite file must not be in use.
func RecoveredDB(ctx context.Context, cfg *config.Config) (r Recovered, err error) {
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
	st, err := openStore(ctx, cfg, nil)
	if err != nil {
		return r, err
	}
	info, err := st.Info(ctx)
	if err == nil {
		c := past.Config{Store: st, Cluster: info.Cluster, Node: cfg.Name, Letter: letterOf}
		if cfg.Postgres == "" {
			c.File = cfg.PastFile() // nodes of a cluster notice the era and write their own files
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

// raiseRestored begins an era in a restored copy that is later than the eras of the copy and of the
// database that it replaces.
func raiseRestored(ctx context.Context, cfg *config.Config, st store.Store) error {
	known, err := past.EraKnown(cfg.PastFile())
	if err != nil {
		known = 0 // the file is damaged: the node that starts says so
	}
	if old, err := readStore(ctx, cfg); err == nil {
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
		return fmt.Errorf("era %d is the last that a database can have, and the restored one would be in era %d", dag.EraMax, to)
	}
	_, err = st.Raise(ctx, from, to, engine.LetterOfEra(to, cfg.Name, "a backup was restored"))
	return err
}

// checkPast reports whether the database has gone back to an earlier state, as far as this node knows.
func checkPast(ctx context.Context, cfg *config.Config, st store.Store) Check {
	c := Check{Name: "history", State: CheckGood}
	marks, err := st.Marks(ctx)
	if err != nil {
		return Check{Name: "history", State: CheckWarn, Found: err.Error()}
	}
	known, there, err := past.Known(cfg.PastFile())
	era := store.EraOf(marks)
	c.Found = fmt.Sprintf("era %d", era)
	switch {
	case err != nil:
		c.State, c.Found = CheckWarn, fmt.Sprintf("%s; %s cannot be read: %v", c.Found, cfg.PastFile(), err)
		c.Remedy = "remove the file; if the database was recovered to an earlier state since this node ran: skein db recovered"
	case len(known) > 0:
		r := known[0]
		c.State = CheckWarn
		c.Found += fmt.Sprintf("; %s: the database went back to an earlier state when era %d began at %s: %s", past.Code, r.Era, r.At.Format(time.RFC3339), r.Why)
		c.Remedy = "look for what was lost (the guide, \"When the database goes back\"); with a synchronous standby nothing is lost"
	case !there:
		c.Found += "; this node has not written yet how far the database has come: if it was recovered to an earlier state, only skein db recovered can tell"
	}
	return c
}
