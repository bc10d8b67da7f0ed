package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/past"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
)

// remember compares the database with what the database had confirmed when this node ran last. If the
// database has gone back to an earlier state, remember raises the era.
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

// back is called when the era has risen. During the start there is no engine yet, and all later reads are of
// the new era.
func (n *Node) back(era dag.Era) {
	if n.begun.Load() {
		n.forgetVersions()
		n.engine.Back(era)
		n.members.slots().EndOld(era) // workers must end their attempts of older eras
		return
	}
	n.wentBack.Add(1)
}

// forgetVersions drops from memory everything that was read from versions of workflows. The database may have
// lost these versions, and other versions may then get their numbers.
func (n *Node) forgetVersions() {
	n.resolver.Forget()
	n.planner.Forget()
	server.Forget(n.server)
	n.gate.Forget()
}

// sureOf returns a time at which this node sent a commit that the database has confirmed since.
func (n *Node) sureOf() time.Time {
	if !n.begun.Load() {
		return time.Time{}
	}
	return n.members.beaten()
}

// ofDatabase adds the name of the database to an error that says that the database cannot be used at present.
func ofDatabase(cfg *config.Config, err error) error {
	if errors.Is(err, errkind.ErrUnavailable) {
		return fmt.Errorf("database %s: %w", cfg.DBName(), err)
	}
	return err
}
