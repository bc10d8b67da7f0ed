package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"skein.dev/skein/internal/store"
)

// codePrepared is PostgreSQL's error code if a statement of that name is already prepared. A new session has
// no prepared statements. So on a new session this code means that a pooler has given the session to another
// client before.
const codePrepared = "42P05"

// pooler remembers the result of checkPooler, which is needed once per DB.
type pooler struct {
	mu     sync.Mutex // held while checkPooler looks
	looked bool
	found  bool // a pooler in session mode is in front of the database
}

// inFront reports whether a pooler is in front of the database.
func (p *pooler) inFront() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.found
}

// errPooler returns the error about a pooler that gives a client another session for each transaction. With
// such a pooler, the settings, the prepared statements and the process number of a session can be those of
// other clients. The code of the error is not transient, because another try does not help.
func errPooler() error {
	return fmt.Errorf("%w: %w", store.ErrUnavailable, &answered{codePrepared,
		"a connection pooler in transaction mode is in front of the database, and Skein needs sessions of its own: " +
			"set pool_mode = session for this database, or connect to PostgreSQL directly"})
}

// pooled replaces the error that a pooler in transaction mode causes in a new session by errPooler.
func pooled(err error) error {
	if answer := (*answered)(nil); errors.As(err, &answer) && answer.code == codePrepared {
		return errPooler()
	}
	return err
}

// checkPooler is called if another process serves the session than the one that was named when the connection
// was made. In this case a pooler is in front of the database. checkPooler returns errPooler if the pooler
// works by transaction: then two clients share one session, or one client gets another session while another
// client uses the first one in a transaction.
func (d *DB) checkPooler(ctx context.Context) error {
	d.pooler.mu.Lock()
	defer d.pooler.mu.Unlock()
	if d.pooler.looked {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectMax)
	defer cancel()
	shared, err := d.sharesSessions(ctx)
	if err != nil {
		return err
	}
	if shared {
		return errPooler()
	}
	d.pooler.looked, d.pooler.found = true, true
	return nil
}

// sharesSessions finds out whether a pooler lets two clients share a session. It uses two connections. It
// asks which server process serves the first connection, before the second one begins a transaction and again
// during that transaction. It also asks which process serves the second one.
func (d *DB) sharesSessions(ctx context.Context) (bool, error) {
	var clients [2]*pgconn.PgConn
	for i := range clients {
		c, err := d.hosts.dial(ctx, nil)
		if err != nil {
			return false, err
		}
		defer hangUp(c)
		clients[i] = c.PgConn
	}
	before, err := backend(ctx, clients[0], "")
	if err != nil {
		return false, err
	}
	other, err := backend(ctx, clients[1], "BEGIN; ")
	if err != nil {
		return false, err
	}
	after, err := backend(ctx, clients[0], "")
	return before == other || before != after, err
}

// backend runs the statements in first, and returns the number of the server process that serves the
// connection. It uses the simple protocol, so it prepares no statement.
func backend(ctx context.Context, c *pgconn.PgConn, first string) (int, error) {
	results, err := c.Exec(ctx, first+"SELECT pg_backend_pid()").ReadAll()
	if err != nil {
		return 0, translate("look for a pooler", err)
	}
	last := results[len(results)-1]
	if len(last.Rows) != 1 {
		return 0, fmt.Errorf("look for a pooler: %w: no process number", store.ErrUnavailable)
	}
	return strconv.Atoi(string(last.Rows[0][0]))
}
