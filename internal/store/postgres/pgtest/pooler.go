//go:build linux

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"skein.dev/skein/internal/cluster/nettest"
)

// poolerProgram is the path at which Debian's package pgbouncer installs it.
const poolerProgram = "/usr/sbin/pgbouncer"

// Pooler starts a pgbouncer in front of a server for one test, and returns its address. Mode is a pool_mode
// of pgbouncer: session or transaction. The pooler keeps few sessions, so that clients soon share them.
func (s *Server) Pooler(t testing.TB, mode string) (url string) {
	t.Helper()
	program := poolerProgram
	if found, err := exec.LookPath("pgbouncer"); err == nil {
		program = found
	}
	dir, err := os.MkdirTemp("", "skein-pooler-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	port, err := nettest.FreePort()
	if err == nil {
		err = errors.Join(s.user.give(dir), os.WriteFile(filepath.Join(dir, "users"), fmt.Appendf(nil, "%q \"\"\n", Superuser), 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "pgbouncer.ini")
	err = os.WriteFile(conf, fmt.Appendf(nil, "[databases]\n* = host=%s port=%d\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"+
		"unix_socket_dir =\nauth_type = trust\nauth_file = %s\npool_mode = %s\ndefault_pool_size = 40\nmax_client_conn = 100\n"+
		"ignore_startup_parameters = extra_float_digits\n", s.dir, s.port, port, filepath.Join(dir, "users"), mode), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, conf)
	s.user.run(cmd, dir)
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		t.Fatalf("start pgbouncer (make tools installs it): %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if err := accepts(t.Context(), addr); err != nil {
		t.Fatalf("pgbouncer does not listen at %s: %v", addr, err)
	}
	return fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable", Superuser, addr)
}

// accepts waits until a server listens at an address.
func accepts(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	for {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(poll):
		}
	}
}
