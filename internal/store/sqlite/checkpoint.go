package sqlite

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const (
	// checkpointRows is the number of written rows after which the log is copied into the database.
	checkpointRows = 40_000
	// walPagesMax is the length of the log at which the writer waits until the log can be started over: 256
	// MiB of 4 KiB pages.
	walPagesMax = 65_536
	// restartWait bounds how long the writer waits for readers when it starts the log over.
	restartWait = 100 * time.Millisecond
	// busyWait bounds how long a connection waits for another connection to the same file.
	busyWait = 10 * time.Second
)

// checkpointer copies the log into the database, on its own connection and its own core. So the writer's
// transactions do not wait for the copy. When all of the log has been copied and a transaction begins, SQLite
// starts the log over. If the writer never pauses long enough for that, it waits for the copy once the log
// has walPagesMax pages.
type checkpointer struct {
	wake chan struct{} // capacity 1, so that many wake-ups cause one checkpoint
	quit chan struct{}
	wg   sync.WaitGroup
	conn *sqlite.Conn
	rows int // the rows written since the last wake-up; only the writer uses it
	long atomic.Bool
	off  atomic.Bool // the content of the log may be damaged
}

func (c *checkpointer) start(path string) error {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenURI)
	if err != nil {
		return opening(path, err)
	}
	conn.SetBusyTimeout(0)
	if err := sqlitex.ExecuteTransient(conn, "PRAGMA synchronous = FULL", nil); err != nil {
		return fmt.Errorf("checkpointer: %w", err)
	}
	c.conn, c.wake, c.quit = conn, make(chan struct{}, 1), make(chan struct{})
	c.wg.Go(c.run)
	return nil
}

func (c *checkpointer) run() {
	for {
		select {
		case <-c.quit:
			return
		case <-c.wake:
		}
		if c.off.Load() {
			continue
		}
		// Errors are ignored. After one, for example because of a full disk, the log grows. If there is no
		// space for the log either, the writer returns an error.
		_ = sqlitex.ExecuteTransient(c.conn, "PRAGMA wal_checkpoint(PASSIVE)", &sqlitex.ExecOptions{
			ResultFunc: func(s *sqlite.Stmt) error {
				if s.ColumnInt64(1) > walPagesMax {
					c.long.Store(true)
				}
				return nil
			},
		})
	}
}

// commitRows is added to the number of rows of each transaction, because even a transaction of a few rows
// changes as many pages.
const commitRows = 8

// wrote counts the rows of a transaction of the writer.
func (c *checkpointer) wrote(rows int) {
	if c.rows += rows + commitRows; c.rows < checkpointRows {
		return
	}
	c.rows = 0
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// totalChanges returns the number of rows that a connection has changed since it was opened.
func totalChanges(conn *sqlite.Conn) (n int) {
	_ = sqlitex.Execute(conn, "SELECT total_changes()", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		n = s.ColumnInt(0)
		return nil
	}})
	return n
}

// restart starts a long log over. It runs on the writer's connection, between transactions. It fails while a
// reader is reading, and is then tried again later.
func (c *checkpointer) restart(writer *sqlite.Conn) {
	if c.long.Swap(false) {
		writer.SetBusyTimeout(restartWait)
		defer writer.SetBusyTimeout(busyWait)
		_ = sqlitex.ExecuteTransient(writer, "PRAGMA wal_checkpoint(RESTART)", nil)
	}
}

func (c *checkpointer) stop() {
	if c.conn == nil {
		return
	}
	close(c.quit)
	c.wg.Wait()
	_ = c.conn.Close()
	c.conn = nil
}
