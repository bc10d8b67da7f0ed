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
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/transfer"
)

// The reasons why a copy is refused.
var (
	ErrNotEmpty   = errors.New("the target must be empty")
	ErrIncomplete = errors.New("some rows cannot be copied")
)

// CopyOptions holds the options of `skein db copy`.
type CopyOptions struct {
	// LeaveOut makes Copy leave out rows that the target cannot hold. Otherwise such rows are an error.
	LeaveOut bool
	// Progress is called with the number of copied rows of a table. done is true after its last row.
	Progress func(table string, rows int64, done bool)
	// Say is called with a description of each step.
	Say func(format string, args ...any)
}

// CopyResult is the output of `skein db copy`.
type CopyResult struct {
	From    string           `json:"from"`
	To      string           `json:"to"`
	Rows    map[string]int64 `json:"rows"` // number of copied rows, by table
	LeftOut map[string]int64 `json:"left_out"`
	// Bad names rows that were left out. If the copy failed because of them, it names rows that LeaveOut
	// would leave out.
	Bad        []string         `json:"left_out_rows"`
	FromShards int              `json:"from_shards"`
	ToShards   int              `json:"to_shards"`
	Runs       map[string]int64 `json:"runs"` // number of runs in the copy, by state
	// Quarantined lists the runs whose rows cannot be read, in the source and in the copy, as "id: reason".
	Quarantined []string `json:"quarantined"`
	// Violations holds what verify finds in the copy. The source has the same violations.
	Violations []inspect.Violation `json:"violations"`
	Seconds    float64             `json:"seconds"`
}

// Copy copies a whole database into an empty one. It copies everything or nothing. No node may use either
// database.
func Copy(ctx context.Context, cfg *config.Config, from, to string, o CopyOptions) (CopyResult, error) {
	began := time.Now()
	res := CopyResult{Rows: map[string]int64{}, LeftOut: map[string]int64{}, Bad: []string{}, Quarantined: []string{}, Violations: []inspect.Violation{}}
	source, err := cfg.At(from)
	if err != nil {
		return res, err
	}
	target, err := cfg.At(to)
	if err != nil {
		return res, err
	}
	res.From, res.To = source.DBName(), target.DBName()
	for _, c := range []*config.Config{source, target} {
		release, err := hold(c)
		if err != nil {
			return res, err
		}
		defer release()
	}
	src, err := openSource(ctx, source)
	if err != nil {
		return res, err
	}
	defer src.Close()
	rows, err := portable(source, src)
	if err != nil {
		return res, err
	}
	dst, discard, err := openTarget(ctx, target)
	if err != nil {
		return res, err
	}
	defer dst.Close()
	watched := watchedSource{Portable: rows, check: func() error { return nobodyWorks(ctx, source, src) }}
	if err := errors.Join(watched.check(), nobodyWorks(ctx, target, dst)); err != nil {
		discard()
		return res, err
	}
	if err := res.move(ctx, watched, dst, o); err != nil {
		discard()
		return res, err
	}
	err = res.compare(ctx, src, dst, o)
	res.Seconds = time.Since(began).Seconds()
	return res, err
}

// openSource opens the database to copy. The database must have the newest format of this program, because
// Copy does not migrate it.
func openSource(ctx context.Context, cfg *config.Config) (store.Store, error) {
	seen, _, err := lookAt(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if seen.Format == 0 {
		return nil, fmt.Errorf("%w: there is no database %s", ErrNoData, cfg.DBName())
	}
	if seen.Format < seen.Known {
		return nil, fmt.Errorf("database %s: %w: it has format %d and this program copies format %d; bring it up to date first: skein db migrate --db %s",
			cfg.DBName(), store.ErrFormat, seen.Format, seen.Known, cfg.DBSetting())
	}
	return OpenReadOnly(ctx, cfg)
}

// openTarget opens the target of the copy, or creates it. discard removes the file that openTarget created.
func openTarget(ctx context.Context, cfg *config.Config) (st store.Store, discard func(), err error) {
	discard = func() {}
	if cfg.Postgres == "" {
		if _, err := os.Stat(cfg.DBPath()); errors.Is(err, os.ErrNotExist) {
			if err := os.MkdirAll(filepath.Dir(cfg.DBPath()), 0o700); err != nil {
				return nil, discard, fmt.Errorf("database %s: %w", cfg.DBName(), err)
			}
			discard = func() {
				if st != nil {
					_ = st.Close()
				}
				removeDB(cfg.DBPath())
			}
		}
	}
	st, err = Open(ctx, cfg, nil)
	return st, discard, err
}

// removeDB removes an SQLite file, and the files next to it that belong to it.
func removeDB(path string) {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		_ = os.Remove(path + suffix)
	}
}

// watchedSource checks, after all rows have been read, that no process uses the source by then.
type watchedSource struct {
	store.Portable
	check func() error
}

func (w watchedSource) Export(ctx context.Context, to store.Rows) error {
	if err := w.Portable.Export(ctx, to); err != nil {
		return err
	}
	return w.check()
}

// errNotPortable says that a database has an engine that cannot copy it as a whole.
var errNotPortable = errors.New("this kind of database cannot be copied")

// portable returns the interface of a store that exports and imports all of its rows.
func portable(cfg *config.Config, st store.Store) (store.Portable, error) {
	if p := store.Can(st).Portable; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("copy %s: %w", cfg.DBName(), errNotPortable)
}

// move copies the rows.
func (r *CopyResult) move(ctx context.Context, src store.Portable, dst store.Store, o CopyOptions) error {
	info, err := dst.Info(ctx)
	if err != nil {
		return fmt.Errorf("database %s: %w", r.To, err)
	}
	to := store.Can(dst).Portable
	if to == nil {
		return fmt.Errorf("copy to %s: %w", r.To, errNotPortable)
	}
	rep, err := transfer.Copy(ctx, src, to, transfer.Options{Shards: info.Shards, LeaveOut: o.LeaveOut, Forward: engine.Forward, Progress: o.Progress})
	r.Rows, r.LeftOut, r.FromShards, r.ToShards = rep.Rows, rep.LeftOut, rep.From, rep.To
	r.Bad = append(r.Bad, rep.Bad...)
	switch {
	case errors.Is(err, transfer.ErrIncomplete):
		return fmt.Errorf("copy %s to %s: %w: %w", r.From, r.To, ErrIncomplete, err)
	case errors.Is(err, store.ErrRefused):
		return fmt.Errorf("copy %s to %s: %w: %w", r.From, r.To, ErrNotEmpty, err)
	case err != nil:
		return fmt.Errorf("copy %s to %s: %w", r.From, r.To, err)
	}
	r.Runs, err = to.RunStates(ctx)
	return err
}

// compare checks the invariants of both databases. Only violations of the source may be in the copy.
func (r *CopyResult) compare(ctx context.Context, src, dst store.Store, o CopyOptions) error {
	o.Say("verifying the source …")
	before, _, err := verifyAll(ctx, src)
	if err != nil {
		return fmt.Errorf("everything was copied, but verifying %s failed: %w", r.From, err)
	}
	o.Say("verifying the copy …")
	after, quarantined, err := verifyAll(ctx, dst)
	if err != nil {
		return fmt.Errorf("everything was copied, but verifying %s failed: %w", r.To, err)
	}
	r.Violations, r.Quarantined = append(r.Violations, after...), append(r.Quarantined, quarantined...)
	known := map[inspect.Violation]bool{}
	for _, v := range before {
		v.What = "" // two engines describe the same violation in different words
		known[v] = true
	}
	for _, v := range after {
		if v.What = ""; !known[v] && len(r.LeftOut) == 0 && len(before) < violationsCompared {
			return fmt.Errorf("the copy breaks rule %s for run %s, but the source does not; do not use the copy, and report this", v.Rule, v.Run)
		}
	}
	return nil
}

// violationsCompared bounds a comparison: verify reports at most this number of violations, so longer lists
// may be cut off.
const violationsCompared = 1000

// quarantinedMax bounds the quarantined runs that a result names.
const quarantinedMax = 100

// counted is a store that records the unreadable runs that a scan meets.
type counted struct {
	store.Store
	quarantined *[]string
}

func (c counted) Scan(ctx context.Context, see func(store.RunRecord, []dag.EventRow) error) error {
	return c.Store.Scan(ctx, func(rec store.RunRecord, events []dag.EventRow) error {
		why := ""
		switch {
		case rec.Bad != nil:
			why = rec.Bad.Error()
		case rec.Run.Cause == dag.CauseCorrupt:
			why = rec.Run.Message
		}
		if why != "" && len(*c.quarantined) < quarantinedMax {
			*c.quarantined = append(*c.quarantined, fmt.Sprintf("%s: %s", rec.Run.ID, why))
		}
		return see(rec, events)
	})
}

// Check returns the result of the store's own checks.
func (c counted) Check(ctx context.Context) ([]string, error) {
	if inner := store.Can(c.Store).Checker; inner != nil {
		return inner.Check(ctx)
	}
	return nil, nil
}

// verifyAll checks every invariant of an open database. It also names the quarantined runs.
func verifyAll(ctx context.Context, st store.Store) (found []inspect.Violation, quarantined []string, err error) {
	found, err = verifyStore(ctx, counted{st, &quarantined})
	return found, quarantined, err
}
