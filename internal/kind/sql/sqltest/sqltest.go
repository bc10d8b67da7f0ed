//go:build linux

// Package sqltest gives each test its own server of MariaDB or ClickHouse, like package pgtest for
// PostgreSQL. A server listens on a loopback port. It ends with the process that started it, however that
// process ends. If the server is not installed, the test is skipped. With CI=true it fails instead.
package sqltest

import (
	"bytes"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"skein.dev/skein/internal/cluster/nettest"
)

// User, password and database of a server.
const (
	User     = "etl"
	Password = "right-password"
	Database = "shop"
)

// startMax bounds the start of a server.
const startMax = time.Minute

// Server is a running server.
type Server struct {
	Port int
	dir  string
}

// guardian is a shell script that starts a server with the folder $1. When its input ends, it kills the
// server and removes the folder.
const guardian = `dir=$1; shift; "$@" >"$dir/log" 2>&1 & p=$!; read -r _; kill -KILL $p; wait $p 2>/dev/null; rm -rf -- "$dir"`

// program returns the path of the first program that exists, or skips the test.
func program(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		for _, dir := range []string{"", "/usr/sbin/", "/usr/bin/"} {
			if path, err := exec.LookPath(dir + name); err == nil {
				return path
			}
		}
	}
	text := fmt.Sprintf("the program %s is not installed; make tools installs it", names[0])
	if os.Getenv("CI") != "" {
		t.Fatal(text)
	}
	t.Skip(text)
	return ""
}

func freePort(t testing.TB) int {
	t.Helper()
	port, err := nettest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// folder makes a folder. If this process runs as root, the user nobody owns the folder, because MariaDB does
// not run as root.
func folder(t testing.TB) (dir string, as *syscall.Credential) {
	t.Helper()
	dir, err := os.MkdirTemp("", "skein-sql-")
	if err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		u, err := user.Lookup("nobody")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return dir, as
}

// start starts a server and waits until it answers.
func start(t testing.TB, s *Server, as *syscall.Credential, answers func() error, args ...string) {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", guardian, "sh", s.dir}, args...)...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	leash, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			raw, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			t.Logf("the log of the server ends with:\n%s", raw[max(0, len(raw)-3000):])
		}
		_ = leash.Close()
		_ = cmd.Wait()
	})
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if err = answers(); err == nil {
			return
		}
		if time.Since(began) > startMax {
			raw, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			t.Fatalf("the server does not answer: %v\n%s", err, raw)
		}
	}
}

// MariaDB starts a MariaDB server.
func MariaDB(t testing.TB) *Server {
	t.Helper()
	server := program(t, "mariadbd", "mysqld")
	dir, as := folder(t)
	// Each server needs a temporary folder of its own, because a server removes all temporary tables in its
	// folder when it starts.
	temporary, _ := folder(t)
	s := &Server{Port: freePort(t), dir: dir}
	var script bytes.Buffer
	script.WriteString("CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n")
	for _, name := range []string{"mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql"} {
		raw, err := os.ReadFile(filepath.Join("/usr/share/mysql", name))
		if err != nil {
			t.Fatal(err)
		}
		script.Write(raw)
	}
	script.WriteString("\nCREATE DATABASE " + Database + ";\n")
	small := []string{"--no-defaults", "--datadir=" + dir, "--tmpdir=" + temporary, "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M",
		"--innodb-flush-log-at-trx-commit=0", "--skip-log-bin", "--performance-schema=0"}
	boot := exec.Command(server, append(small, "--bootstrap")...)
	boot.Stdin, boot.SysProcAttr, boot.Dir = &script, &syscall.SysProcAttr{Credential: as}, dir
	if out, err := boot.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	first := filepath.Join(dir, "first.sql")
	grants := fmt.Sprintf("CREATE USER %s@'%%' IDENTIFIED BY '%s';\nGRANT ALL ON %s.* TO %s@'%%';\n", User, Password, Database, User)
	if err := os.WriteFile(first, []byte(grants), 0o644); err != nil {
		t.Fatal(err)
	}
	start(t, s, as, func() error {
		db, err := s.open()
		if err != nil {
			return err
		}
		defer db.Close()
		return db.Ping()
	}, append(append([]string{server}, small...), "--port="+strconv.Itoa(s.Port), "--bind-address=127.0.0.1", "--skip-name-resolve",
		"--socket="+filepath.Join(dir, "s"), "--init-file="+first)...)
	return s
}

type quiet struct{}

func (quiet) Print(...any) {}

func (s *Server) open() (*sql.DB, error) {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.DBName, cfg.Net, cfg.Addr = User, Password, Database, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port))
	cfg.MultiStatements, cfg.Logger = true, quiet{}
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}

// MySQL executes statements on a MariaDB server. It returns the first value in the first row of the first
// statement.
func (s *Server) MySQL(t testing.TB, statements string) string {
	t.Helper()
	db, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(statements)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	value := ""
	if rows.Next() {
		is := new(string)
		if err := rows.Scan(&is); err != nil {
			t.Fatal(err)
		}
		if is != nil {
			value = *is
		}
	}
	for rows.NextResultSet() {
		for rows.Next() {
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return value
}

// ClickHouse starts a ClickHouse server.
func ClickHouse(t testing.TB) *Server {
	t.Helper()
	server := program(t, "clickhouse-server")
	dir, as := folder(t)
	s := &Server{Port: freePort(t), dir: dir}
	for name, text := range map[string]string{
		"config.xml": fmt.Sprintf(`<yandex><logger><level>warning</level><console>1</console></logger><listen_host>127.0.0.1</listen_host>
<http_port>%d</http_port><tcp_port>%d</tcp_port><path>%s/data/</path><tmp_path>%s/tmp/</tmp_path><users_config>users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database><mark_cache_size>67108864</mark_cache_size></yandex>`,
			s.Port, freePort(t), dir, dir),
		"users.xml": fmt.Sprintf(`<yandex><profiles><default></default></profiles><quotas><default></default></quotas><users><%s><password>%s</password>
<networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></%s></users></yandex>`, User, Password, User),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	start(t, s, as, func() error { _, err := s.post("SELECT 1"); return err }, server, "--config-file="+filepath.Join(dir, "config.xml"))
	return s
}

func (s *Server) post(statement string) (string, error) {
	req, err := http.NewRequest(http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/?wait_end_of_query=1", s.Port), strings.NewReader(statement))
	if err != nil {
		return "", err
	}
	req.Header.Set("X-ClickHouse-User", User)
	req.Header.Set("X-ClickHouse-Key", Password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s", raw)
	}
	return strings.TrimSpace(string(raw)), err
}

// Post executes a statement on a ClickHouse server and returns its answer.
func (s *Server) Post(t testing.TB, statement string) string {
	t.Helper()
	is, err := s.post(statement)
	if err != nil {
		t.Fatal(err)
	}
	return is
}
