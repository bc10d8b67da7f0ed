package sql

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/kind"
	"skein.dev/skein/sdk/shared/mask"
)

// A statement can outlive the process of its attempt: the server may notice late that the client is gone. So
// the session of an attempt has a name of its own in the server, and the name is the handle of the attempt.
// In PostgreSQL, it is the name of the application. In MySQL and MariaDB, it is the name of a lock that the
// session holds.

// handlePrefix begins the names of sessions.
const handlePrefix = "skein:"

// handleAfter is how long a session lasts before the attempt has a handle. Most statements are shorter, and
// an attempt without a handle costs no row and no errand. A test lowers it.
var handleAfter = 2 * time.Second

// goneMax bounds how long a release waits until an ended session is gone.
const goneMax = 10 * time.Second

// sessionName returns the name of the attempt's session. MySQL allows 64 bytes, PostgreSQL 63.
func (t *task) sessionName() string {
	in := &t.env.Input
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", in.Run, in.Task, in.Token))
	return handlePrefix + hex.EncodeToString(sum[:16])
}

// named gives the attempt its handle if it still runs after handleAfter. The caller calls stop when the
// session has ended. An error means that this worker keeps no handles, so there is nothing to do.
func (t *task) named() (stop func() bool) {
	if t.to.Postgres == nil && t.to.MySQL == nil || t.unnamed {
		return func() bool { return true }
	}
	return time.AfterFunc(handleAfter, func() { _ = t.env.SetHandle(t.sessionName()) }).Stop
}

// Release implements kind.Releaser: it ends the session that a handle names.
func (Kind) Release(ctx context.Context, env *kind.Env) (code int) {
	t := &task{env: env, hidden: mask.NewSet(nil)}
	defer func() {
		if p := recover(); p != nil { // the driver may panic, see Main
			t.say("the driver of the database panicked: %v", p)
			code = kind.Failed
		}
	}()
	if err := t.release(ctx, env.Input.Handle); err != nil {
		t.say("%v", err)
		return codeOf(err)
	}
	return kind.Done
}

// Adopts implements kind.Releaser. No attempt continues the statement of another one.
func (Kind) Adopts() bool { return false }

func (t *task) release(ctx context.Context, name string) error {
	if !strings.HasPrefix(name, handlePrefix) {
		return never("the handle names no session")
	}
	if json.Unmarshal(t.env.Input.With, &t.with) != nil {
		return never("the input of the task cannot be read")
	}
	if err := t.connection(); err != nil {
		return err
	}
	dial, err := egress.Dialer(t.egress)
	if err != nil {
		return never("%w", err)
	}
	var end func(context.Context) (gone bool, err error)
	switch {
	case t.to.Postgres != nil:
		conn, err := t.to.Postgres.Open(ctx, t.password, dial, t.notice)
		if err != nil {
			return unreachable(err, (&postgres{t: t}).judge(err))
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		end = func(ctx context.Context) (bool, error) {
			n := 0
			err := conn.QueryRow(ctx, `SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE application_name = $1 AND usename = session_user AND pid <> pg_backend_pid()) AS ended`, name).Scan(&n)
			return n == 0, err
		}
	case t.to.MySQL != nil:
		s, err := t.to.MySQL.Open(ctx, t.password, dial)
		if err != nil {
			return unreachable(err, (&mariaDB{t: t}).judge(err))
		}
		defer func() { _ = s.Close() }()
		end = func(ctx context.Context) (bool, error) { return endMySQL(ctx, s, name) }
	default:
		return never("the connection has no sessions to end any more: it has the type %s", t.to.Type())
	}
	ctx, cancel := context.WithTimeout(ctx, goneMax)
	defer cancel()
	for {
		gone, err := end(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("the session cannot be ended: %w", err)
		case gone:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the session %s is still there after %v", name, goneMax)
		case <-time.After(100 * time.Millisecond): // the pause between two looks
		}
	}
}

// endMySQL ends the session that holds a lock. gone reports whether there is none.
func endMySQL(ctx context.Context, s *connection.MySQLSession, name string) (gone bool, err error) {
	var id *int64
	if err := s.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?)", name).Scan(&id); err != nil || id == nil {
		return err == nil, err
	}
	// A session that has ended in between is no error.
	if _, err := s.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", *id)); err != nil && !isNumber(err, 1094) {
		return false, err
	}
	return false, nil
}
