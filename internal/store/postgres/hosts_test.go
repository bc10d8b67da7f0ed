package postgres_test

import (
	"net"
	"sync/atomic"
	"testing"

	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/store/postgres/pgtest"
)

// TestSilentServer: an address names two servers. The first one accepts connections and answers nothing, like
// a machine that is gone. The store uses the second one and, once that one has answered, tries it first.
func TestSilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var tried atomic.Int32
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			tried.Add(1)
			defer c.Close()
		}
	}()
	url := "postgres://" + pgtest.Superuser + "@" + l.Addr().String() + "," + server.Addr() + "/postgres?sslmode=disable&target_session_attrs=read-write"
	db := open(t, postgres.Options{URL: url, Schema: newSchema(), Application: "two-servers"})
	if tried.Load() == 0 {
		t.Error("the first server was not tried first")
	}
	before := tried.Load()
	if err := server.SQL("postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'two-servers'"); err != nil {
		t.Fatal(err)
	}
	for range 3 { // the first call may get a connection that has ended
		_, err = db.Info(t.Context())
	}
	if err != nil || tried.Load() != before {
		t.Errorf("the silent server was tried %d times more, %v", tried.Load()-before, err)
	}
}
