//go:build linux

package sql

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"skein.dev/skein/internal/kind"
)

// passage forwards connections to a server until the test cuts them.
func passage(t *testing.T, to string) (port int, cut func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	near := make(chan net.Conn, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = c.Close()
				return
			}
			near <- c
			near <- far
			go func() { _, _ = io.Copy(far, c); _ = far.Close() }()
			go func() { _, _ = io.Copy(c, far); _ = c.Close() }()
		}
	}()
	return portOf(t, l.Addr().String()), func() { _ = (<-near).Close(); _ = (<-near).Close() }
}

// TestEndDuringCommit checks that a confirmed commit is a success even if the attempt had to end meanwhile.
// If the session breaks, the log must say that the outcome is unknown.
func TestEndDuringCommit(t *testing.T) {
	s := postgresServer(t)
	for _, text := range []string{"DROP TABLE IF EXISTS deferred", "CREATE TABLE deferred (v text)",
		`CREATE OR REPLACE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600);
			RETURN NULL; EXCEPTION WHEN query_canceled THEN IF NEW.v = 'kept' THEN RETURN NULL; END IF; RAISE; END $$`,
		"CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON deferred DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hold()"} {
		s.ask(text)
	}
	const committing = "SELECT count(*) FROM pg_stat_activity WHERE query = 'commit' AND state = 'active' AND wait_event = 'PgSleep'"
	for v, code := range map[string]int{"kept": kind.Kept, "left": kind.Failed, "cut": kind.Failed} {
		port, cut := passage(t, pg.Addr())
		through := s
		through.connection = strings.Replace(s.connection, fmt.Sprintf(`"port":%d`, portOf(t, pg.Addr())), fmt.Sprintf(`"port":%d`, port), 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan result, 1)
		go func() { ended <- run(ctx, t, through, With{Query: "INSERT INTO deferred VALUES ('" + v + "')"}) }()
		await(t, "the server commits", func() bool { return s.ask(committing) == "1" })
		if v == "cut" {
			cut()
		} else {
			cancel()
		}
		if got := <-ended; got.code != code || strings.Contains(got.log, "it is unknown") != (v == "cut") {
			t.Errorf("%s: %+v", v, got)
		}
		cancel()
		// The client of the session is gone, so the server ends the session.
		await(t, "the session has ended", func() bool { return s.ask(committing) == "0" })
	}
	if is := s.ask("SELECT string_agg(v, ' ') FROM deferred"); is != "kept" {
		t.Errorf("committed: %s", is)
	}
}
