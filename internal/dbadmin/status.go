package dbadmin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/store/sqlite"
)

// Status is the output of `skein db status`.
type Status struct {
	Engine   string `json:"engine"`
	Location string `json:"location"` // without the password
	// Format is the format of the database, or 0 if there is no database yet. Known is the newest format that
	// this program knows.
	Format  int      `json:"format"`
	Known   int      `json:"known_format"`
	Applied []string `json:"migrations"`
	Pending []string `json:"pending_migrations"`
	Cluster string   `json:"cluster"`
	Bytes   int64    `json:"bytes"`
	Shards  int      `json:"shards"`
	Free    int      `json:"free_shards"` // shards without an owner; on SQLite always 0
	Members []Member `json:"members"`
	// SQLite: the process that holds the data folder, or "" if there is none
	Holder string           `json:"holder"`
	Runs   map[string]int64 `json:"runs"` // number of runs, by state
}

// Member is a node of a cluster, as recorded in the database.
type Member struct {
	Name    string    `json:"name"`
	Handler int64     `json:"handler"`
	Address string    `json:"address"`
	Version string    `json:"version"`
	Known   int       `json:"known_format"`
	State   string    `json:"state"`
	Slots   int       `json:"slots"`
	Busy    int       `json:"busy"`
	Seen    time.Time `json:"seen_at"`
	Shards  []int     `json:"shards"` // the shards that the node owns
}

// lookAt reads the format and the facts of the database of the settings. It creates and changes nothing.
func lookAt(ctx context.Context, cfg *config.Config) (seen store.Seen, engine string, err error) {
	if cfg.Postgres == "" {
		seen, err = sqlite.Inspect(cfg.DBPath())
		return seen, "sqlite", named(cfg, err)
	}
	o, err := postgres.ParseAddress(cfg.Postgres)
	if err == nil {
		seen, err = postgres.Inspect(ctx, o)
	}
	return seen, "postgres", named(cfg, err)
}

func named(cfg *config.Config, err error) error {
	if err != nil {
		return fmt.Errorf("database %s: %w", cfg.DBName(), err)
	}
	return nil
}

// ReadStatus reads the status of a database of any format. It changes nothing.
func ReadStatus(ctx context.Context, cfg *config.Config) (Status, error) {
	seen, engine, err := lookAt(ctx, cfg)
	s := Status{Engine: engine, Location: cfg.DBName(), Format: seen.Format, Known: seen.Known,
		Applied: append([]string{}, seen.Applied...), Pending: append([]string{}, seen.Pending...), Members: []Member{}, Runs: map[string]int64{}}
	if err != nil {
		return s, err
	}
	if cfg.Postgres == "" {
		if h, err := datadir.Look(cfg.Data); err == nil && h != nil {
			s.Holder = fmt.Sprintf("pid %d at %s", h.PID, h.Address)
		}
	}
	if seen.Format == 0 || seen.Format > seen.Known || len(seen.Pending) > 0 {
		return s, nil // opening this database would fail, or would migrate it
	}
	st, err := OpenReadOnly(ctx, cfg)
	if err != nil {
		return s, err
	}
	defer st.Close()
	info, err := st.Info(ctx)
	if err != nil {
		return s, named(cfg, err)
	}
	s.Location, s.Cluster, s.Bytes, s.Shards = info.Location, info.Cluster, info.Bytes, info.Shards
	if p := store.Can(st).Portable; p != nil {
		if s.Runs, err = p.RunStates(ctx); err != nil {
			return s, named(cfg, err)
		}
	}
	return s, named(cfg, s.members(ctx, st))
}

func (s *Status) members(ctx context.Context, st store.Store) error {
	c := store.Can(st).Cluster
	if c == nil {
		return nil
	}
	members, shards, err := c.Members(ctx)
	if err != nil {
		return err
	}
	owned := map[dag.HandlerID][]int{}
	for _, row := range shards {
		owned[row.Owner] = append(owned[row.Owner], int(row.ID))
	}
	s.Free = len(owned[0])
	for _, m := range members {
		s.Members = append(s.Members, Member{Name: m.Name, Handler: int64(m.Handler), Address: m.Address, Version: m.Version, Known: m.Format,
			State: m.State, Slots: int(m.Slots), Busy: int(m.Busy), Seen: m.Seen.Time(), Shards: append([]int{}, owned[m.Handler]...)})
	}
	return nil
}

// Migration is the result of `skein db migrate`.
type Migration struct {
	Location string `json:"location"`
	From     int    `json:"from"` // 0 if there was no database yet
	To       int    `json:"to"`
	// Known is the newest format of this program. To may be lower, see store.Cluster.Rise.
	Known   int      `json:"known_format"`
	Applied []string `json:"applied"`
}

// Migrate migrates a database to the newest format of this program, or creates it. Nodes on PostgreSQL may
// continue meanwhile. An SQLite file that needs a migration must not be in use.
func Migrate(ctx context.Context, cfg *config.Config) (Migration, error) {
	seen, _, err := lookAt(ctx, cfg)
	m := Migration{Location: cfg.DBName(), From: seen.Format, To: max(seen.Known, seen.Format), Known: seen.Known, Applied: append([]string{}, seen.Pending...)}
	if err != nil || seen.Format == seen.Known {
		return m, err
	}
	if cfg.Postgres == "" {
		if err := datadir.Prepare(cfg.Data); err != nil {
			return m, err
		}
		l, err := datadir.Take(cfg.Data)
		if err != nil {
			return m, err
		}
		defer l.Release()
	}
	st, err := Open(ctx, cfg, nil) // Open reports a format that is too new
	if err != nil {
		return m, err
	}
	if c := store.Can(st).Cluster; c != nil {
		_, err = c.Rise(ctx)
	}
	info, bad := st.Info(ctx)
	err = errors.Join(err, bad)
	m.To = info.Format // the format does not rise while a node knows only an older one
	return m, errors.Join(err, st.Close())
}

// ErrInUse says that a process uses the database.
var ErrInUse = errors.New("the database is in use")

// nobodyWorks returns an error if a node uses an open database. It can detect only the members of a cluster.
func nobodyWorks(ctx context.Context, cfg *config.Config, st store.Store) error {
	c := store.Can(st).Cluster
	if c == nil {
		return nil
	}
	members, _, err := c.Members(ctx)
	if err != nil {
		return named(cfg, err)
	}
	now, err := st.Clock(ctx)
	if err != nil {
		return named(cfg, err)
	}
	for _, m := range members {
		if silent := time.Duration(now-m.Seen) * time.Microsecond; silent < cfg.Lag {
			return fmt.Errorf("%w: node %s (%s) works on %s and was last active %s ago; stop it first (a node that was killed counts as gone after %s)",
				ErrInUse, m.Name, m.Address, cfg.DBName(), silent.Round(100*time.Millisecond), cfg.Lag)
		}
	}
	return nil
}

// hold keeps nodes on this machine from using an SQLite file. If the file's folder is a data folder, hold
// takes its lock. It also checks that no process has the file open at this moment.
func hold(cfg *config.Config) (release func(), err error) {
	release = func() {}
	if cfg.Postgres != "" {
		return release, nil
	}
	dir := filepath.Dir(cfg.DBPath())
	if datadir.Is(dir) {
		l, err := datadir.Take(dir)
		if err != nil {
			return release, err
		}
		release = func() { _ = l.Release() }
	}
	if _, err := os.Stat(cfg.DBPath()); errors.Is(err, os.ErrNotExist) {
		return release, nil
	}
	if err := sqlite.Alone(cfg.DBPath()); err != nil {
		release()
		if errors.Is(err, sqlite.ErrInUse) {
			err = fmt.Errorf("%w: another process has %s open; end it first", ErrInUse, cfg.DBPath())
		}
		return func() {}, err
	}
	return release, nil
}
