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

// The reasons to refuse a copy.
var (
	ErrNotEmpty   = errors.New("the target must be empty")
	ErrIncomplete = errors.New("some rows cannot be copied")
)

// CopyOptions of `skein db copy`.
type CopyOptions struct {
	// LeaveOut copies the rest if there are rows that the target cannot hold.
	LeaveOut bool
	// Progress is called with the number of copied rows of a table.
	Progress func(table string, rows int64, done bool)
	// Say is called with a description of each step.
	Say func(format string, args ...any)
}

// CopyResult is the output of `skein db copy`.
type CopyResult struct {
	From    string           `json:"from"`
	To      string           `json:"to"`
	Rows    map[string]int64 `json:"rows"` // by table
	LeftOut map[string]int64 `json:"left_out"`
	// Bad names rows that were, or would have been, left out.
	Bad        []string         `json:"left_out_rows"`
	FromShards int              `json:"from_shards"`
	ToShards   int              `json:"to_shards"`
	Runs       map[string]int64 `json:"runs"` // number of runs in the copy, by state
	// Quarantined lists runs whose rows cannot be read, in the source as in the copy: "id: reason".
	Quarantined []string `json:"quarantined"`
	// Violations that verify finds in the copy. The source has them, too.
	Violations []inspect.Violation `json:"violations"`
	Seconds    float64             `json:"seconds"`
}

// Copy copies a whole database into an empty one: everything or nothing. No node may use either of them.
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

// openSource opens the database to copy. It must have the format of this program, because the copy does not
// change it.
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

// openTarget opens or makes the target of the copy. discard removes the file that openTarget made.
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

// removeDB removes an SQLite file and the files that belong to it.
func removeDB(path string) {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		_ = os.Remove(path + suffix)
	}
}

// watchedSource checks, after all rows were read, that no process has begun to use the source.
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

// errNotPortable says that the engine of a database cannot copy it as a whole.
var errNotPortable = errors.New("this kind of database cannot be copied")

// portable returns the part of a store that copies it.
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

// violationsCompared is the number of violations beyond which verify names no more, so that lists cannot be
// compared.
const violationsCompared = 1000

// quarantinedMax bounds the runs that are named.
const quarantinedMax = 100

// counted is a store that notes the unreadable runs while they are scanned.
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

// Check passes on the checks that the store makes of itself.
func (c counted) Check(ctx context.Context) ([]string, error) {
	if inner := store.Can(c.Store).Checker; inner != nil {
		return inner.Check(ctx)
	}
	return nil, nil
}

// verifyAll checks every invariant of an open database, and names the runs that are set aside.
func verifyAll(ctx context.Context, st store.Store) (found []inspect.Violation, quarantined []string, err error) {
	found, err = verifyStore(ctx, counted{st, &quarantined})
	return found, quarantined, err
}
