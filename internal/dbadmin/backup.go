package dbadmin

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/store/sqlite"
)

// ErrExists says that the target exists. The caller must force the operation to replace it.
var ErrExists = errors.New("already exists")

// BackupResult is the output of `skein db backup`.
type BackupResult struct {
	From  string `json:"from"`
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	// PgDump is a command line that backs up the PostgreSQL database with its own tool. It is "" for SQLite.
	PgDump  string  `json:"pg_dump,omitempty"`
	Seconds float64 `json:"seconds"`
}

// Backup writes a snapshot of a database into an SQLite file. The database may be of any engine, and nodes
// may use it meanwhile. The file is complete and synced, or it does not exist.
func Backup(ctx context.Context, cfg *config.Config, file string, force bool) (res BackupResult, err error) {
	began := time.Now()
	res = BackupResult{From: cfg.DBName()}
	if res.File, err = filepath.Abs(file); err != nil {
		return res, err
	}
	if _, err := os.Stat(res.File); err == nil && !force {
		return res, fmt.Errorf("%s %w", res.File, ErrExists)
	}
	if cfg.Postgres == "" {
		if _, err := os.Stat(cfg.DBPath()); err != nil {
			return res, fmt.Errorf("%w: there is no database %s", ErrNoData, cfg.DBPath())
		}
		if sameFile(cfg.DBPath(), res.File) {
			return res, fmt.Errorf("%s is the database itself", res.File)
		}
	} else {
		res.PgDump = pgDump(cfg.Postgres)
	}
	// The temporary folder is on the disk of the file, so that the last step can be a rename.
	dir, err := os.MkdirTemp(filepath.Dir(res.File), ".skein-backup-")
	if err != nil {
		return res, fmt.Errorf("backup to %s: %w", res.File, datadir.Reason(err))
	}
	defer os.RemoveAll(dir)
	whole := filepath.Join(dir, "whole")
	source := cfg.DBPath()
	if cfg.Postgres != "" {
		source = filepath.Join(dir, "copy")
		if err := copyOut(ctx, cfg, source); err != nil {
			return res, err
		}
	}
	if err := sqlite.Backup(ctx, source, whole); err != nil {
		return res, err
	}
	if err := settle(whole, res.File, force); err != nil {
		return res, err
	}
	info, err := os.Stat(res.File)
	if err != nil {
		return res, err
	}
	res.Bytes, res.Seconds = info.Size(), time.Since(began).Seconds()
	return res, noteBackup(cfg.Data, began)
}

// copyOut copies a PostgreSQL database into a new SQLite file, from one snapshot.
func copyOut(ctx context.Context, cfg *config.Config, path string) error {
	src, err := openSource(ctx, cfg)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := sqlite.Open(path)
	if err != nil {
		return err
	}
	var r CopyResult
	r.From, r.To = cfg.DBName(), path
	rows, err := portable(cfg, src)
	if err == nil {
		err = r.move(ctx, rows, dst, CopyOptions{})
	}
	return errors.Join(err, dst.Close())
}

// settle gives a finished file its final name and syncs the folder.
func settle(from, to string, replace bool) error {
	move := os.Link // unlike a rename, fails if the name is taken
	if replace {
		move = os.Rename
	}
	if err := move(from, to); err != nil {
		return fmt.Errorf("write %s: %w", to, datadir.Reason(err))
	}
	dir, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// pgDump returns a command line for a shell. It holds no password: pg_dump takes the password from PGPASSWORD
// or ~/.pgpass.
func pgDump(address string) string {
	o, err := postgres.ParseAddress(address)
	if err != nil {
		return ""
	}
	if u, err := url.Parse(o.URL); err == nil && u.User != nil {
		u.User = url.User(u.User.Username())
		o.URL = u.String()
	}
	schema := o.Schema
	if schema == "" {
		schema = postgres.SchemaDefault
	}
	shown := config.Config{Postgres: o.URL}
	return fmt.Sprintf("pg_dump --format=custom --schema=%s --file=skein.dump '%s'", schema, shown.DBName())
}

// RestoreResult is the output of `skein db restore`.
type RestoreResult struct {
	File string `json:"file"`
	To   string `json:"to"`
	// Replaced is the new path of the database that was replaced. It is "" if there was none.
	Replaced   string              `json:"replaced,omitempty"`
	Runs       map[string]int64    `json:"runs"` // by state
	Violations []inspect.Violation `json:"violations"`
}

// Restore replaces the database of the settings with a backup. No process may use that database. Unless force
// is set, Restore refuses a backup in which verify finds violations, and refuses to replace a database. With
// force, it keeps the replaced database under another name.
func Restore(ctx context.Context, cfg *config.Config, file string, force bool, o CopyOptions) (RestoreResult, error) {
	res := RestoreResult{To: cfg.DBName(), Runs: map[string]int64{}, Violations: []inspect.Violation{}}
	var err error
	if res.File, err = filepath.Abs(file); err != nil {
		return res, err
	}
	seen, err := sqlite.Inspect(res.File)
	switch {
	case err != nil:
		return res, err
	case seen.Format == 0:
		return res, fmt.Errorf("%s: %w", res.File, os.ErrNotExist)
	}
	if cfg.Postgres != "" {
		return res, res.intoPostgres(ctx, cfg, o)
	}
	return res, res.intoFolder(ctx, cfg, force, o)
}

func (r *RestoreResult) intoPostgres(ctx context.Context, cfg *config.Config, o CopyOptions) error {
	dir, err := os.MkdirTemp("", "skein-restore-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	mine := filepath.Join(dir, "skein.db") // a copy, because the backup must not be migrated
	if err := r.prepare(ctx, cfg, mine, o); err != nil {
		return err
	}
	c, err := Copy(ctx, cfg, "sqlite:"+mine, cfg.Postgres, o)
	r.Violations = append([]inspect.Violation{}, c.Violations...)
	return err
}

func (r *RestoreResult) intoFolder(ctx context.Context, cfg *config.Config, force bool, o CopyOptions) error {
	if err := datadir.Prepare(cfg.Data); err != nil {
		return err
	}
	l, err := datadir.Take(cfg.Data)
	if err != nil {
		return err
	}
	defer l.Release()
	to := cfg.DBPath()
	if sameFile(to, r.File) {
		return fmt.Errorf("%s is the database itself", r.File)
	}
	_, err = os.Stat(to)
	there := err == nil
	if there {
		if !force {
			return fmt.Errorf("the database %s %w", to, ErrExists)
		}
		// Any other error means that the database is damaged, and may be replaced.
		if err := sqlite.Alone(to); errors.Is(err, sqlite.ErrInUse) {
			return fmt.Errorf("%w: another process has %s open; end it first", ErrInUse, to)
		}
	}
	dir, err := os.MkdirTemp(filepath.Dir(to), ".skein-restore-")
	if err != nil {
		return fmt.Errorf("restore to %s: %w", to, datadir.Reason(err))
	}
	defer os.RemoveAll(dir)
	mine := filepath.Join(dir, "skein.db")
	if err := r.prepare(ctx, cfg, mine, o); err != nil {
		return err
	}
	if len(r.Violations) > 0 && !force {
		return fmt.Errorf("%s is not valid (%d violations); nothing was restored", r.File, len(r.Violations))
	}
	if there {
		r.Replaced = fmt.Sprintf("%s.replaced-%s", to, time.Now().UTC().Format("20060102-150405"))
		for _, suffix := range []string{"-wal", "-shm", ""} {
			if err := os.Rename(to+suffix, r.Replaced+suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("set the old database aside: %w", err)
			}
		}
	}
	return settle(mine, to, true)
}

// prepare makes a copy of the backup at path, migrates it to the newest format, gives it a new era, and
// verifies it. At the end the copy is closed and synced.
func (r *RestoreResult) prepare(ctx context.Context, cfg *config.Config, path string, o CopyOptions) error {
	if err := sqlite.Backup(ctx, r.File, path); err != nil {
		return err
	}
	st, err := sqlite.Open(path)
	if err != nil {
		return fmt.Errorf("backup %s: %w", r.File, err)
	}
	o.Say("verifying %s …", r.File)
	found, err := verifyStore(ctx, st)
	r.Violations = append(r.Violations, found...)
	if err == nil {
		r.Runs, err = st.RunStates(ctx)
	}
	if err == nil {
		err = raiseRestored(ctx, cfg, st)
	}
	if err == nil {
		err = endSessions(ctx, st)
	}
	if err = errors.Join(err, st.Close()); err != nil {
		return fmt.Errorf("backup %s: %w", r.File, err)
	}
	for _, name := range []string{path, filepath.Dir(path)} { // sync the files that closing the database wrote
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// endSessions deletes the sessions in a restored backup. Some of them have ended since, and their secrets
// must not become valid again.
func endSessions(ctx context.Context, st store.Sessions) error {
	all, err := st.SessionList(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		// Ending a session also ends its children.
		if err := st.EndSession(ctx, all[i].ID); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

// backupName names a file in the data folder. Its modification time is the time of the last backup.
const backupName = "last-backup"

// LastBackup returns the time of the last backup that this data folder knows of. ok is false if there was
// none.
func LastBackup(data string) (at time.Time, ok bool) {
	info, err := os.Stat(filepath.Join(data, backupName))
	if err != nil {
		return at, false
	}
	return info.ModTime(), true
}

// noteBackup records the time of a backup in the data folder. It does nothing if there is no data folder.
func noteBackup(data string, now time.Time) error {
	path := filepath.Join(data, backupName)
	err := os.WriteFile(path, []byte(now.UTC().Format(time.RFC3339)+"\n"), 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
