package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/store"
)

// Backup writes the content of a database, as of one instant, into a new file and syncs the file. The
// database may be in use: readers and writers do not wait for Backup.
func Backup(ctx context.Context, path, to string) error {
	// The file is made here and not by SQLite, so that only its owner can read it.
	f, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	err = errors.Join(vacuumInto(ctx, path, to), f.Sync(), f.Close())
	if err != nil {
		_ = os.Remove(to)
	}
	return err
}

func vacuumInto(ctx context.Context, path, to string) error {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly|sqlite.OpenURI)
	if err != nil {
		return opening(path, err)
	}
	defer conn.Close()
	conn.SetBusyTimeout(busyWait)
	conn.SetInterrupt(ctx.Done())
	if err := checkFormat(conn); err != nil {
		return opening(path, err)
	}
	err = sqlitex.ExecuteTransient(conn, "VACUUM INTO ?1", &sqlitex.ExecOptions{Args: []any{to}})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return translate("copy "+path+" to "+to, err)
}

// ErrInUse says that another process has the database open.
var ErrInUse = fmt.Errorf("another process has the database open: %w", store.ErrUnavailable)

// Alone returns ErrInUse if another process has the database open at this moment. It does not rely on the
// lock of the folder.
func Alone(path string) error {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenURI)
	if err != nil {
		return opening(path, err)
	}
	defer conn.Close()
	conn.SetBusyTimeout(0)
	// In this mode the first transaction needs exclusive access to the file.
	err = sqlitex.ExecuteTransient(conn, "PRAGMA locking_mode = EXCLUSIVE", nil)
	if err == nil {
		err = sqlitex.ExecuteTransient(conn, "BEGIN IMMEDIATE", nil)
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultOK:
		return opening(path, sqlitex.ExecuteTransient(conn, "ROLLBACK", nil))
	case sqlite.ResultBusy, sqlite.ResultLocked:
		return fmt.Errorf("%s: %w", path, ErrInUse)
	case sqlite.ResultReadOnly: // the file is read-only, so no process writes it
		return nil
	}
	return opening(path, err)
}

// Inspect reads the format of a database without opening it for work. A missing file has format 0.
func Inspect(path string) (store.Seen, error) {
	seen := store.Seen{Known: format}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return seen, fmt.Errorf("open %s: %w", path, err)
	case !info.Mode().IsRegular():
		return seen, fmt.Errorf("%s is not a file: name the file of an SQLite database", path)
	default:
		conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly|sqlite.OpenURI)
		if err != nil {
			return seen, opening(path, err)
		}
		defer conn.Close()
		conn.SetBusyTimeout(busyWait)
		version, err := pragmaInt(conn, "user_version")
		if err != nil {
			return seen, opening(path, err)
		}
		if seen.Format = int(version); seen.Format <= format {
			if err := checkFormat(conn); err != nil {
				return seen, opening(path, err)
			}
		}
	}
	files, err := scripts.ReadDir("migrations")
	if err != nil {
		return seen, err
	}
	for i, f := range files {
		if i < seen.Format {
			seen.Applied = append(seen.Applied, f.Name())
		} else {
			seen.Pending = append(seen.Pending, f.Name())
		}
	}
	return seen, nil
}
