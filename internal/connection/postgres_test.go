//go:build linux

package connection

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/store/postgres/pgtest"
	"skein.dev/skein/sdk/shared/mask"
)

// server is a real PostgreSQL.
var server *pgtest.Server

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m, &server, pgtest.Options{NoSync: true})) }

// database is a connection to the server.
func database(t *testing.T) *Postgres {
	t.Helper()
	host, port, err := net.SplitHostPort(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return &Postgres{Host: host, Port: n, User: pgtest.Superuser, Database: "postgres", TLS: TLSDisable}
}

func TestPostgresTest(t *testing.T) {
	c := &Config{Postgres: database(t)}
	found, err := c.Test(t.Context(), means(values{}))
	if err != nil || !strings.HasPrefix(found, "PostgreSQL ") || !strings.HasSuffix(found, "user skein, database postgres") {
		t.Errorf("%q, %v", found, err)
	}
	c.Postgres.User, c.Postgres.Password = pgtest.Locked, parsed(t, `{"postgres":{"host":"a","user":"b","password":{"secret":"P"}}}`).Postgres.Password
	if found, err := c.Test(t.Context(), means(values{"P": "right"})); err != nil || !strings.Contains(found, "user locked") {
		t.Errorf("%q, %v", found, err)
	}
	t.Setenv("PGPASSWORD", "right") // a variable of the node, which must not replace the password of a connection
	t.Setenv("PGHOST", "192.0.2.1")
	if _, err := c.Test(t.Context(), means(values{"P": "wrong-password"})); err == nil || !strings.Contains(err.Error(), "password authentication failed") {
		t.Error(err)
	}
	c.Postgres.Password = nil
	if _, err := c.Test(t.Context(), means(values{})); err == nil {
		t.Error("a variable of the node opened the database")
	}
	c.Postgres.TLS = TLSVerify
	if _, err := c.Test(t.Context(), means(values{})); err == nil || !strings.Contains(err.Error(), "TLS") {
		t.Errorf("without TLS: %v", err)
	}
}

// TestSilentServer: the wait for a server that accepts a connection and does not answer is bounded.
func TestSilentServer(t *testing.T) {
	defer func(is time.Duration) { openMax = is }(openMax)
	openMax = 100 * time.Millisecond
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	p := &Postgres{Host: "127.0.0.1", Port: ln.Addr().(*net.TCPAddr).Port, User: "u", TLS: TLSDisable}
	if _, err := p.Open(t.Context(), "", new(net.Dialer).DialContext, nil); err == nil ||
		!strings.Contains(err.Error(), "no session is open within") {
		t.Error(err)
	}
}

// TestNoVariableTakesPart: sessions do not depend on the environment of the node.
func TestNoVariableTakesPart(t *testing.T) {
	for name, value := range map[string]string{"PGSERVICE": "none", "PGSERVICEFILE": "/nowhere", "PGSSLNEGOTIATION": "direct", "PGREQUIREAUTH": "none",
		"PGCHANNELBINDING": "require", "PGMINPROTOCOLVERSION": "3.2", "PGMAXPROTOCOLVERSION": "3.2", "PGSSLCERTMODE": "require"} {
		t.Setenv(name, value)
	}
	is, err := plainSettings()
	if err != nil {
		t.Fatal(err)
	}
	if is.SSLNegotiation != "postgres" || is.RequireAuth != "" || is.ChannelBinding != "prefer" || is.SSLCertMode != "allow" ||
		is.MinProtocolVersion != "3.0" || is.MaxProtocolVersion != "3.0" {
		t.Errorf("%+v", is.Config)
	}
	if os.Getenv("PGSERVICE") != "none" {
		t.Error("the variable is lost for others")
	}
}

// TestShown: a secret is masked before a text is cut, so that no part of it is left at the end.
func TestShown(t *testing.T) {
	const password = "a-password-that-nobody-reads"
	is := shown(mask.NewSet([]string{password}), strings.Repeat("x", shownMax-10)+password)
	if strings.Contains(is, password[:4]) || !strings.Contains(is, mask.Mark) {
		t.Error(is)
	}
}
