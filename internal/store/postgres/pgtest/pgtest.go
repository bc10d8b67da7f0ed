//go:build linux

// Package pgtest starts a PostgreSQL server for tests and benchmarks. The server is made in a temporary
// folder, and listens on a Unix socket and a loopback port. Tests of faults can kill it and start it again.
// It ends with the process that started it, however that process ends.
//
//	var server *pgtest.Server // of this test binary
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m, &server, pgtest.Options{})) }
//
// It needs the programs of PostgreSQL 14 or newer (on Debian: apt-get install postgresql) and does not touch
// a server that may run already.
package pgtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/cluster/nettest"
)

const (
	// versionMin is the oldest PostgreSQL that Skein knows.
	versionMin = 14
	// startMax bounds how long a server may take to accept connections; after a kill it
	// recovers first.
	startMax = 60 * time.Second
	// poll is the interval at which the files of the server are read.
	poll = 5 * time.Millisecond
	// Superuser is the user that the server was made for. It needs no password.
	Superuser = "skein"
	// loopback is the address of a server on this machine.
	loopback = "127.0.0.1"
	// Locked is a user with the password "right". The server asks for the password only on the loopback port.
	Locked = "locked"
)

// Options are the settings of a server.
type Options struct {
	// NoSync turns fsync off: the server is faster, and commits do not survive a crash of the machine.
	NoSync bool
	// Settings are further lines of postgresql.conf.
	Settings map[string]string
	// On is where the server runs.
	On Place
}

// Place describes where a process of a test runs. The zero value is this machine.
type Place struct {
	Address string // IP address at which the process listens; "" means 127.0.0.1
	// Within calls start on the machine that has the address. If it is nil, start is called on this machine.
	Within func(start func() error) error
}

// start starts a process at the place.
func (p *Place) start(cmd *exec.Cmd) error { return p.within(cmd.Start) }

func (p *Place) within(do func() error) error {
	if p.Within == nil {
		return do()
	}
	return p.Within(do)
}

func (p *Place) host() string { return cmp.Or(p.Address, loopback) }

// Server is a PostgreSQL server. Only one goroutine may use it at a time.
type Server struct {
	bin     string // folder of the programs
	dir     string // folder of everything
	on      Place
	port    int
	user    *account
	process *exec.Cmd
	exited  chan struct{} // closed when process has ended
	janitor *exec.Cmd
	leash   io.Closer // the janitor cleans up when it is closed, or when this process has ended
}

// Start makes a server and waits until it accepts connections.
func Start(o Options) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "skein-pg-")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir, on: o.On}
	return s, s.guarded(func() error { return s.make(o) })
}

// guarded fills the server's folder. If that fails, it ends the server and removes the folder.
func (s *Server) guarded(fill func() error) error {
	if err := s.guard(janitor); err != nil {
		return errors.Join(err, os.RemoveAll(s.dir))
	}
	if err := fill(); err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}

// make fills the folder and starts the server.
func (s *Server) make(o Options) error {
	var err error
	if s.user, err = unprivileged(); err != nil {
		return err
	}
	if err := s.user.give(s.dir); err != nil {
		return err
	}
	if s.port, err = nettest.FreePort(); err != nil {
		return err
	}
	err = s.run("initdb", "--pgdata="+s.data(), "--username="+Superuser, "--auth=trust", "--encoding=UTF8",
		"--locale=C", "--no-sync", "--no-instructions")
	if err != nil {
		return err
	}
	if err := s.configure(o); err != nil {
		return err
	}
	if err := s.Start(); err != nil {
		return err
	}
	return s.SQL("postgres", "CREATE ROLE "+Locked+" LOGIN PASSWORD 'right'")
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) configure(o Options) error {
	settings := map[string]string{
		"listen_addresses": s.on.host(), "port": strconv.Itoa(s.port), "unix_socket_directories": s.dir,
		"max_connections": "60", "shared_buffers": "128MB", "max_wal_size": "4GB", "log_min_messages": "warning",
		"logging_collector": "off", "timezone": "UTC",
	}
	if o.NoSync {
		settings["fsync"], settings["full_page_writes"] = "off", "off"
	}
	for k, v := range o.Settings {
		settings[k] = v
	}
	if err := s.set(settings); err != nil {
		return err
	}
	hba := "local all all trust\nhost all " + Locked + " 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n" +
		"local replication all trust\n"
	if s.on.host() != loopback {
		hba += "host all all samenet trust\n"
	}
	return os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte(hba), 0o600)
}

// set adds settings to the settings of the server. They apply from its next start.
func (s *Server) set(settings map[string]string) error {
	var lines []string
	for k, v := range settings {
		lines = append(lines, fmt.Sprintf("%s = '%s'\n", k, strings.ReplaceAll(v, "'", "''")))
	}
	slices.Sort(lines)
	conf, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = conf.WriteString(strings.Join(lines, ""))
	return errors.Join(err, conf.Close())
}

// programs finds the newest PostgreSQL.
func programs() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	best, newest := "", versionMin-1
	for _, p := range found {
		dir := filepath.Dir(p)
		if v, err := strconv.Atoi(filepath.Base(filepath.Dir(dir))); err == nil && v > newest {
			best, newest = dir, v
		}
	}
	if best == "" {
		return "", fmt.Errorf("no PostgreSQL %d or newer in /usr/lib/postgresql/*/bin: run `make tools` or apt-get install postgresql", versionMin)
	}
	return best, nil
}

// run runs one of PostgreSQL's programs to its end.
func (s *Server) run(name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startMax)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	s.user.run(cmd, s.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return nil
}

// SQL runs statements as the superuser.
func (s *Server) SQL(database, statements string) error {
	return s.run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", s.dir, "-p", strconv.Itoa(s.port), "-U", Superuser,
		"-d", database, "-c", statements)
}

// URL returns the address of a database of the server, over its unix socket.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://%s@/%s?host=%s&port=%d&sslmode=disable", Superuser, database, s.dir, s.port)
}

// Addr returns the TCP address of the server.
func (s *Server) Addr() string { return net.JoinHostPort(s.on.host(), strconv.Itoa(s.port)) }

// Log returns the log of the server.
func (s *Server) Log() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Close ends the server at once and removes all its files.
func (s *Server) Close() error {
	var err error
	if s.process != nil {
		err = s.Kill()
	}
	return errors.Join(err, s.leash.Close(), s.janitor.Wait())
}

// Main runs a test binary with a server that all of its tests share.
func Main(m *testing.M, server **Server, o Options) int {
	s, err := Start(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "PostgreSQL for tests:", err)
		return 1
	}
	*server = s
	code := m.Run()
	if err := s.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "PostgreSQL for tests:", err)
		return 1
	}
	return code
}
