//go:build linux

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"skein.dev/skein/internal/cluster/nettest"
)

// Ask returns the rows of a query by the superuser, as psql prints them without alignment.
func (s *Server) Ask(database, query string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startMax)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "psql"), "-X", "-At", "-h", s.dir, "-p", strconv.Itoa(s.port), "-U", Superuser,
		"-d", database, "-c", query)
	s.user.run(cmd, s.dir)
	out, err := cmd.Output()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		err = fmt.Errorf("%w: %s", err, ended.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// Standby makes a second server that streams from this one, asynchronously, and waits until it accepts reads.
func (s *Server) Standby() (*Server, error) {
	return s.copied(func(c *Server) error {
		return s.backUp(c, "--write-recovery-conf")
	})
}

// copied makes a server from a base backup of this one, on another port.
func (s *Server) copied(fill func(*Server) error) (*Server, error) {
	dir, err := os.MkdirTemp("", "skein-pg-")
	if err != nil {
		return nil, err
	}
	c := &Server{bin: s.bin, dir: dir, on: s.on, user: s.user}
	return c, c.guarded(func() error {
		if err := c.user.give(c.dir); err != nil {
			return err
		}
		var err error
		if c.port, err = nettest.FreePort(); err != nil {
			return err
		}
		if err := fill(c); err != nil {
			return err
		}
		if err := c.set(map[string]string{"port": strconv.Itoa(c.port), "unix_socket_directories": c.dir}); err != nil {
			return err
		}
		return c.Start()
	})
}

// backUp writes a base backup of the server into the folder of another.
func (s *Server) backUp(to *Server, more ...string) error {
	return s.run("pg_basebackup", append(append(s.backupOptions(), "--pgdata="+to.data()), more...)...)
}

func (s *Server) backupOptions() []string {
	return []string{"--host=" + s.dir, "--port=" + strconv.Itoa(s.port), "--username=" + Superuser, "--checkpoint=fast", "--wal-method=stream", "--no-sync"}
}

// Hold ends the stream to a standby, so that later commits of its primary do not reach it. It returns when
// the earlier commits have arrived and the standby receives nothing more.
func (s *Server) Hold(primary *Server) error {
	at, err := primary.Ask("postgres", "SELECT pg_current_wal_flush_lsn()")
	if err == nil {
		err = s.await("the standby has caught up", "SELECT pg_last_wal_replay_lsn() >= '"+at+"'")
	}
	for _, sql := range []string{"ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"} {
		if err == nil {
			err = s.SQL("postgres", sql)
		}
	}
	if err != nil {
		return err
	}
	return s.await("nothing is received any more", "SELECT count(*) = 0 FROM pg_stat_wal_receiver")
}

// Follow makes commits of this server wait until a standby has them.
func (s *Server) Follow() error {
	for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
		if err := s.SQL("postgres", sql); err != nil {
			return err
		}
	}
	return s.await("a standby is synchronous", "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
}

// Promote makes a standby a primary, with the data that it has received.
func (s *Server) Promote() error {
	if err := s.SQL("postgres", "SELECT pg_promote()"); err != nil {
		return err
	}
	return s.await("the standby takes writes", "SELECT NOT pg_is_in_recovery()")
}

// await polls until the query returns true.
func (s *Server) await(what, query string) error {
	for began := time.Now(); ; time.Sleep(poll) {
		switch got, err := s.Ask("postgres", query); {
		case err != nil:
			return fmt.Errorf("%s: %w", what, err)
		case got == "t":
			return nil
		case time.Since(began) > startMax:
			return fmt.Errorf("still not: %s", what)
		}
	}
}
