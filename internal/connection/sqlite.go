package connection

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/protect"
)

// busyMax is how long a statement waits for the locks of other processes.
const busyMax = 10 * time.Second

// Open opens the file, unless it is one of the protected paths or below one. The end of ctx interrupts
// the statement that runs. ATTACH is refused: a connection is one file.
func (s *SQLite) Open(ctx context.Context, protected []string) (*sqlite.Conn, error) {
	return s.open(ctx, s.Create, protected)
}

func (s *SQLite) open(ctx context.Context, create bool, protected []string) (*sqlite.Conn, error) {
	if protect.Holds(s.Path, protected) { // checked first, so that no error says whether the file exists
		return nil, fmt.Errorf("%s belongs to Skein on this machine, or is in a folder of Skein: use a file in another folder", s.Path)
	}
	is, err := os.Stat(s.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !create:
		return nil, fmt.Errorf("there is no file %s on this machine: create it, or set the connection with --create", s.Path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err == nil && !is.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", s.Path)
	}
	flags := []sqlite.OpenFlags{sqlite.OpenReadWrite}
	if create {
		flags = append(flags, sqlite.OpenCreate)
	}
	conn, err := sqlite.OpenConn(s.Path, flags...)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", s.Path, err)
	}
	conn.SetInterrupt(ctx.Done())
	conn.SetBusyTimeout(busyMax)
	conn.Limit(sqlite.LimitLength, messageMax)
	err = conn.SetAuthorizer(sqlite.AuthorizeFunc(func(a sqlite.Action) sqlite.AuthResult {
		if a.Type() == sqlite.OpAttach {
			return sqlite.AuthResultDeny
		}
		return sqlite.AuthResultOK
	}))
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func (s *SQLite) use(ctx context.Context, m *Means) (string, error) {
	conn, err := s.open(ctx, false, m.Protected)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	stmt, _, err := conn.PrepareTransient("SELECT sqlite_version(), (SELECT count(*) FROM sqlite_master WHERE type = 'table')")
	if err != nil {
		return "", err
	}
	defer func() { _ = stmt.Finalize() }()
	if _, err := stmt.Step(); err != nil {
		return "", err
	}
	return fmt.Sprintf("SQLite %s, %d tables", stmt.ColumnText(0), stmt.ColumnInt64(1)), nil
}
