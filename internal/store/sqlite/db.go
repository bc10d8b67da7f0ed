// Package sqlite is the store of a single node: one file, one connection for the writer, read-only
// connections for readers. It uses the driver's native interface (no database/sql, no cgo) and WAL. It
// syncs the log for every commit, so a commit that has returned is on the disk.
//
// The process that opens a database for writing must be its only writer. The caller locks the data folder
// for that.
package sqlite

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
	"skein.dev/skein/internal/zipped"
)

// The archive holds migrations/*.sql and *.sql. After a change of these files, write it by
// go test . -run TestScriptsArePacked -pack.
//
//go:embed sql.zip.gz
var scriptsZip []byte

var scripts = zipped.New(scriptsZip)

const (
	// applicationID marks a database as ours, in its header: "Skei".
	applicationID = 0x536b6569
	// format is the newest format that this program knows. It rises with the migrations.
	format = 41
	// readersMax is the number of concurrent readers.
	readersMax = 4
	// cacheKiB bounds the pages that the writer keeps. A larger cache is slower: if a transaction splits
	// pages and reorders them by number, SQLite examines every page of the cache at the commit. (While it
	// reorders, it uses the number of the lock page at 1 GiB for a page, and then assumes that all pages
	// beyond the end of the file are left over.)
	cacheKiB = 16 << 10
	// textMax bounds one text or blob, in bytes.
	textMax = 64 << 20
	// theShard is the only shard, because SQLite has one writer.
	theShard = dag.ShardID(0)
)

// DB is an open database.
type DB struct {
	eras
	rights
	rotations
	sessions
	members
	secrets
	audits
	namespaces
	tallies
	traces
	alerts
	connections
	gitSources
	sentEvents
	path    string
	cluster string
	// isolation is the value of Info.Isolation.
	isolation string
	read      map[string]string // statements by name
	pool      *sqlitex.Pool
	closed    atomic.Bool
	// readOnly says that this process must not write the database, because another process may do so.
	readOnly bool
	broken   atomic.Bool // a COMMIT failed, so the connection must be opened again
	syncs    syncs
	stages   stages
	// syncFile syncs a file. It is syncData, except in tests that replace it.
	syncFile func(*os.File) error

	mu      sync.Mutex // protects following fields; held by a transaction
	conn    *sqlite.Conn
	log     *walFile
	ahead   *ahead // the transaction that was written ahead and is not committed; nil if there is none
	stmts   writeStmts
	numbers numbers
	keys    lateKeys
	rolls   rolls
	moves   lineMoves
	packed  []byte // a buffer for a packed claim
	lists   lastLists
	past    packed.Past
	seq     int64 // the number of the present transaction in its shard
	handed  packed.Handed
	hands   *packed.HandPlan // the plan of the present transaction

	checkpoints checkpointer
}

var (
	_ store.Store  = (*DB)(nil)
	_ store.Mortal = (*DB)(nil)
)

// Open opens a database for writing, or creates it. It makes an empty file into a database. If the file is
// not a database or has a newer format, Open returns an error and does not change the file.
func Open(path string) (*DB, error) {
	// The program, and not SQLite, makes the file, so that only its owner can read it. The log gets the same
	// mode.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	d := closedDB(path)
	if err := d.open(); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *DB) open() error {
	if err := d.restoreLog(); err != nil {
		return err
	}
	if err := d.openWriter(); err != nil {
		return err
	}
	if err := d.openReaders(); err != nil {
		return errors.Join(err, d.conn.Close(), d.log.close())
	}
	if err := d.checkpoints.start(d.path); err != nil {
		return errors.Join(err, d.Close())
	}
	return nil
}

func closedDB(path string) *DB {
	d := &DB{path: path, read: statements("read", "schedules_read", "claims", "past", "alerts", "connections", "git", "tally", "traces", "sent"), syncFile: syncData}
	d.eras, d.rights, d.rotations, d.sessions, d.secrets, d.audits, d.alerts, d.connections, d.namespaces, d.tallies, d.traces = eras{d}, rights{d}, rotations{d}, sessions{d}, secrets{d}, audits{d}, alerts{d}, connections{d}, namespaces{d}, tallies{d}, traces{d}
	d.sentEvents, d.gitSources = sentEvents{d}, gitSources{d}
	d.members = members{d}
	return d
}

// OpenReadOnly opens an existing database that another process may be writing. Every write returns
// store.ErrUnavailable.
func OpenReadOnly(path string) (*DB, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	d := closedDB(path)
	d.broken.Store(true)
	d.readOnly = true
	if err := d.openReaders(); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *DB) openWriter() error {
	conn, err := sqlite.OpenConn(d.path, sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenURI)
	if err != nil {
		return opening(d.path, err)
	}
	conn.SetBusyTimeout(busyWait)
	if err := d.prepareWriter(conn); err != nil {
		return errors.Join(err, conn.Close())
	}
	if err := d.openLog(); err != nil {
		d.stmts.finalize()
		return errors.Join(err, conn.Close())
	}
	d.conn = conn
	d.broken.Store(false)
	return nil
}

// reopenWriter opens the writer's connection again.
func (d *DB) reopenWriter() error {
	// after this sync, the log contains no commit that still waits for a sync
	if err := d.sync(written{d.syncs.written.Load(), d.log}); err != nil {
		return err
	}
	d.stmts.finalize()
	_, _ = d.conn.Close(), d.log.close() // both failed, so their errors do not matter
	return d.openWriter()
}

func (d *DB) prepareWriter(conn *sqlite.Conn) error {
	err := sqlitex.ExecuteScript(conn, `PRAGMA cell_size_check = ON`, nil)
	if err == nil {
		err = hashing(conn)
	}
	if err == nil {
		err = checkFormat(conn)
	}
	if err != nil {
		return opening(d.path, err)
	}
	for _, pragma := range []string{
		"PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", fmt.Sprint("PRAGMA cache_size = -", cacheKiB),
		"PRAGMA wal_autocheckpoint = 0", "PRAGMA temp_store = MEMORY", "PRAGMA foreign_keys = OFF",
	} {
		if err := sqlitex.ExecuteTransient(conn, pragma, nil); err != nil {
			return translate(pragma, err)
		}
	}
	if err := migrate(conn); err != nil {
		return translate("migrate "+d.path, err)
	}
	if err := d.keys.load(conn); err != nil {
		return translate("read the newest keys of "+d.path, err)
	}
	// from here on, this process syncs the log itself
	if err := sqlitex.ExecuteTransient(conn, "PRAGMA synchronous = NORMAL", nil); err != nil {
		return opening(d.path, err)
	}
	return d.stmts.prepare(conn, statements("write", "schedules_write", "claims_write", "alerts_write", "connections_write", "git_write"))
}

func (d *DB) openReaders() error {
	pool, err := sqlitex.NewPool(d.path, sqlitex.PoolOptions{
		Flags: sqlite.OpenReadOnly | sqlite.OpenURI, PoolSize: readersMax,
		PrepareConn: func(c *sqlite.Conn) error {
			c.SetBusyTimeout(busyWait)
			if err := hashing(c); err != nil {
				return opening(d.path, err)
			}
			return sqlitex.ExecuteTransient(c, "PRAGMA query_only = ON", nil)
		},
	})
	if err != nil {
		return opening(d.path, err)
	}
	d.pool = pool
	conn, err := pool.Take(context.Background())
	if err == nil {
		err = opening(d.path, checkReadable(conn))
		pool.Put(conn)
	}
	if err == nil {
		err = d.query(context.Background(), "meta", nil, func(s *sqlite.Stmt) error {
			d.cluster, d.isolation = s.ColumnText(0), s.ColumnText(1)
			return nil
		})
	}
	if err == nil && d.cluster == "" {
		err = fmt.Errorf("%s: %w: it has no number of its own", d.path, store.ErrCorrupt)
	}
	if err != nil {
		return errors.Join(err, pool.Close())
	}
	return nil
}

// checkFormat returns ErrFormat for a file that this program must not change.
func checkFormat(conn *sqlite.Conn) error {
	app, err := pragmaInt(conn, "application_id")
	if err != nil {
		return err
	}
	version, err := pragmaInt(conn, "user_version")
	if err != nil {
		return err
	}
	tables, err := scalar(conn, "SELECT count(*) FROM sqlite_schema")
	switch {
	case err != nil:
		return err
	case app != applicationID && (app != 0 || tables != 0):
		return fmt.Errorf("%w: the file is a database of another program; name another one with --db", store.ErrFormat)
	case version > format:
		return fmt.Errorf("%w: the database has format %d, this program knows up to %d; use a newer skein",
			store.ErrFormat, version, format)
	}
	return nil
}

// checkReadable returns ErrFormat for an older format: a reader does not migrate.
func checkReadable(conn *sqlite.Conn) error {
	err := checkFormat(conn)
	if err != nil {
		return err
	}
	version, err := pragmaInt(conn, "user_version")
	switch {
	case err != nil:
		return err
	case version == 0:
		return fmt.Errorf("%w: the file contains no Skein database", store.ErrFormat)
	case version < format:
		return fmt.Errorf("%w: it has format %d and this program reads format %d; start a node on it once to bring it up to date",
			store.ErrFormat, version, format)
	}
	return nil
}

// migrate brings the database to the newest format, in one transaction for each step. So after a crash the
// database has a valid format.
func migrate(conn *sqlite.Conn) error {
	version, err := pragmaInt(conn, "user_version")
	if err != nil {
		return err
	}
	files, err := scripts.ReadDir("migrations")
	if err != nil {
		return err
	}
	fresh := version == 0
	for _, f := range files[version:] {
		script, err := scripts.ReadFile("migrations/" + f.Name())
		if err != nil {
			return err
		}
		if version++; version == formatStates {
			if err := listStates(conn); err != nil {
				return fmt.Errorf("%s: %w", f.Name(), err)
			}
		}
		text := fmt.Sprintf("%s\nPRAGMA application_id = %d;\nPRAGMA user_version = %d;", script, applicationID, version)
		if version == 1 {
			text += fmt.Sprintf("\nINSERT INTO meta (one, cluster, created) VALUES (1, '%s', %d);",
				uuid.NewString(), time.Now().UnixMicro())
		}
		if fresh && version == int64(len(files)) {
			text += "\nUPDATE meta SET isolation = '" + store.IsolationNew + "';"
		}
		if err := sqlitex.ExecuteScript(conn, text, nil); err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	return nil
}

func pragmaInt(conn *sqlite.Conn, name string) (int64, error) {
	return scalar(conn, "PRAGMA "+name)
}

func scalar(conn *sqlite.Conn, query string) (int64, error) {
	var v int64
	err := sqlitex.ExecuteTransient(conn, query, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		v = s.ColumnInt64(0)
		return nil
	}})
	return v, err
}

// statements returns the named statements of .sql files, which are given without this ending.
func statements(files ...string) map[string]string {
	out := map[string]string{}
	for _, file := range files {
		text, err := scripts.ReadFile(file + ".sql")
		if err != nil {
			panic("sqlite: an embedded script: " + err.Error())
		}
		for _, part := range strings.Split(string(text), "-- name: ")[1:] {
			name, body, _ := strings.Cut(part, "\n")
			out[strings.TrimSpace(name)] = strings.TrimSpace(body)
		}
	}
	return out
}

// Close waits for the transaction under way and closes every connection.
func (d *DB) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	d.checkpoints.stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.pool.Close()
	if d.conn != nil {
		d.dropAhead()
		d.stmts.finalize()
		if d.alive() == nil { // otherwise the connection stays open, because closing the last one copies the log into the database
			err = errors.Join(err, d.conn.Close())
		}
		err = errors.Join(err, d.log.close())
		d.conn = nil
	}
	return err
}

func wall() dag.Micros { return dag.Micro(time.Now()) }
