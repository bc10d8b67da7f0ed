//go:build linux

package pgtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// untilMax ends a wait for the cluster that would never end.
const untilMax = 5 * time.Minute

// Ports of the servers under Patroni, each on an address of its own.
const (
	patroniPort = 5432
	restPort    = 8008
	etcdPort    = 2379
	etcdPeers   = 2380
)

// PatroniOptions describe a cluster under Patroni.
type PatroniOptions struct {
	Synchronous bool          // a commit waits until one standby has it
	TTL         time.Duration // how long the leader may be silent; Patroni's default is 30 s
	Etcd        Place         // the place of the server of the registry
	Servers     []Place
}

// Patroni is a PostgreSQL cluster that elects its primary itself, run by Debian's packages patroni and
// etcd-server. Only one goroutine may use it at a time.
type Patroni struct {
	Servers []*PatroniServer
	options PatroniOptions
	home    *Server // owns only the folder; no server runs in it
	etcd    *exec.Cmd
}

// PatroniServer is a server of the cluster with the Patroni that controls it.
type PatroniServer struct {
	*Server        // data and socket; Patroni starts and ends the server
	Name    string // the name in the cluster
	patroni *exec.Cmd
}

// patroniJanitor ends the processes of a cluster and removes its folder, as janitor does for one server.
const patroniJanitor = `read -r _
for f in "$1"/*/pid; do kill -KILL "$(cat "$f")" 2>/dev/null; done
for f in "$1"/*/data/postmaster.pid; do
	pid=$(head -n 1 "$f" 2>/dev/null) && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = postgres ] || continue
	kill -QUIT "$pid"
	while [ -e "/proc/$pid/exe" ]; do sleep 0.05; done # a process that has ended and was not reaped has none
done
rm -rf -- "$1"`

// StartPatroni makes a cluster and waits until all of its servers stream. It removes the cluster at the end
// of the test. If Patroni or etcd is not installed, the test is skipped.
func StartPatroni(t testing.TB, o PatroniOptions) *Patroni {
	t.Helper()
	for _, program := range []string{"patroni", "etcd"} {
		if _, err := exec.LookPath(program); err != nil {
			text := "the program " + program + " is not installed; make tools installs it (Debian: patroni, etcd-server, python3-etcd)"
			if os.Getenv("CI") != "" {
				t.Fatal(text)
			}
			t.Skip(text)
		}
	}
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "skein-patroni-")
	if err != nil {
		t.Fatal(err)
	}
	p := &Patroni{options: o, home: &Server{bin: bin, dir: dir}}
	if p.home.user, err = unprivileged(); err == nil {
		err = errors.Join(p.home.user.give(dir), p.home.guard(patroniJanitor))
	}
	if err != nil {
		t.Fatal(errors.Join(err, os.RemoveAll(dir)))
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, s := range p.Servers {
				log := s.Log()
				t.Logf("the log of %s ends with:\n%s", s.Name, log[max(0, len(log)-3000):])
			}
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	if err := p.make(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *Patroni) close() error {
	err := errors.Join(p.home.leash.Close(), p.home.janitor.Wait())
	for _, s := range p.Servers {
		if !s.Down() {
			_ = s.patroni.Wait()
		}
	}
	if p.etcd != nil {
		_ = p.etcd.Wait()
	}
	return err
}

// make starts the registry and the servers. The first server makes the database, and the others copy it.
func (p *Patroni) make() error {
	if err := p.startEtcd(); err != nil {
		return err
	}
	for i, on := range p.options.Servers {
		s := &PatroniServer{Name: fmt.Sprint("p", i+1), Server: &Server{bin: p.home.bin, on: on, port: patroniPort, user: p.home.user}}
		s.dir = filepath.Join(p.home.dir, s.Name)
		if err := errors.Join(os.Mkdir(s.dir, 0o700), s.user.give(s.dir), p.configure(s)); err != nil {
			return err
		}
		p.Servers = append(p.Servers, s)
		if err := s.Return(); err != nil {
			return err
		}
		if i == 0 {
			if err := p.until("the first server takes writes", func() bool { return p.Leader() == s }); err != nil {
				return err
			}
		}
	}
	return p.Whole()
}

func (p *Patroni) startEtcd() error {
	dir := filepath.Join(p.home.dir, "etcd")
	if err := errors.Join(os.Mkdir(dir, 0o700), p.home.user.give(dir)); err != nil {
		return err
	}
	clients := fmt.Sprintf("http://%s:%d", p.options.Etcd.host(), etcdPort)
	peers := fmt.Sprintf("http://%s:%d", p.options.Etcd.host(), etcdPeers)
	p.etcd = exec.Command("etcd", "--name", "etcd", "--data-dir", filepath.Join(dir, "data"), "--listen-client-urls", clients, "--advertise-client-urls", clients,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "etcd="+peers)
	return p.home.launch(p.etcd, dir, p.options.Etcd)
}

// launch starts a process that ends with the test.
func (s *Server) launch(cmd *exec.Cmd, dir string, on Place) error {
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.user.run(cmd, dir)
	cmd.Env[0] = "PATH=" + s.bin + ":" + os.Getenv("PATH")
	cmd.Stdout, cmd.Stderr = log, log
	if err := on.start(cmd); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
}

// configure writes the settings of a server. JSON is YAML, too.
func (p *Patroni) configure(s *PatroniServer) error {
	type object = map[string]any
	ttl := int(p.options.TTL.Seconds())
	at := func(port int) string { return net.JoinHostPort(s.on.host(), strconv.Itoa(port)) }
	text, err := json.MarshalIndent(object{
		"scope": "skein", "name": s.Name,
		"restapi": object{"listen": at(restPort), "connect_address": at(restPort)},
		"etcd3":   object{"host": net.JoinHostPort(p.options.Etcd.host(), strconv.Itoa(etcdPort))},
		"bootstrap": object{
			"dcs": object{"ttl": ttl, "loop_wait": max(1, ttl/3), "retry_timeout": max(2, ttl/3), "maximum_lag_on_failover": 64 << 20,
				"synchronous_mode": p.options.Synchronous, "postgresql": object{"use_pg_rewind": true}},
			"initdb": []any{object{"encoding": "UTF8"}, object{"locale": "C"}, "no-sync"},
		},
		"postgresql": object{
			"listen": at(patroniPort), "connect_address": at(patroniPort), "data_dir": s.data(), "bin_dir": s.bin, "pgpass": filepath.Join(s.dir, "pgpass"),
			"use_unix_socket": true,
			"pg_hba":          []string{"local all all trust", "local replication all trust", "host all all samenet trust", "host replication all samenet trust"},
			"authentication":  object{"superuser": object{"username": Superuser}, "replication": object{"username": "replicator"}},
			"parameters": object{"unix_socket_directories": s.dir, "max_connections": 100, "shared_buffers": "64MB", "fsync": "off", "timezone": "UTC",
				"logging_collector": "off"},
		},
	}, "", " ")
	if err != nil {
		return err
	}
	path := filepath.Join(s.dir, "patroni.yml")
	return errors.Join(os.WriteFile(path, text, 0o600), s.user.give(path))
}

// Return starts the Patroni of a server that was killed, and with it the server.
func (s *PatroniServer) Return() error {
	s.patroni = exec.Command("patroni", filepath.Join(s.dir, "patroni.yml"))
	return s.launch(s.patroni, s.dir, s.on)
}

// Kill ends a server, its processes and its Patroni at once.
func (s *PatroniServer) Kill() error {
	all := []int{s.patroni.Process.Pid}
	if text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid")); err == nil {
		line, _, _ := strings.Cut(string(text), "\n")
		if pid, err := strconv.Atoi(line); err == nil {
			all = append(all, pid)
		}
	}
	for i := 0; i < len(all); i++ { // stopped processes start no further ones
		_ = syscall.Kill(all[i], syscall.SIGSTOP)
		all = append(all, children(all[i])...)
	}
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = s.patroni.Wait()
	s.patroni = nil
	return os.Remove(filepath.Join(s.dir, "pid"))
}

// Down reports whether the server was killed and has not returned.
func (s *PatroniServer) Down() bool { return s.patroni == nil }

// Leader returns the server that takes writes, or nil if none does.
func (p *Patroni) Leader() *PatroniServer {
	for _, s := range p.Servers {
		if is, err := s.Ask("postgres", "SELECT NOT pg_is_in_recovery()"); err == nil && is == "t" {
			return s
		}
	}
	return nil
}

// Whole waits until each living server except the primary streams from the primary. In a synchronous cluster
// it waits until one of them is the synchronous standby.
func (p *Patroni) Whole() error {
	standbys := -1
	for _, s := range p.Servers {
		if !s.Down() {
			standbys++
		}
	}
	query := fmt.Sprintf("SELECT count(*) = %d AND (NOT %v OR count(*) FILTER (WHERE sync_state = 'sync') = 1) FROM pg_stat_replication WHERE state = 'streaming'",
		standbys, p.options.Synchronous)
	return p.until("all servers stream", func() bool {
		leader := p.Leader()
		if leader == nil {
			return false
		}
		is, err := leader.Ask("postgres", query)
		return err == nil && is == "t"
	})
}

// until polls until a condition holds.
func (p *Patroni) until(what string, is func() bool) error {
	for began := time.Now(); !is(); time.Sleep(poll) {
		if time.Since(began) > untilMax {
			return fmt.Errorf("still not: %s", what)
		}
	}
	return nil
}

// SetSynchronous changes whether commits wait for a standby. It waits until the change has taken effect.
func (p *Patroni) SetSynchronous(on bool) error {
	leader := p.Leader()
	if leader == nil {
		return errors.New("no server takes writes")
	}
	c := http.Client{Timeout: startMax, Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = leader.on.within(func() error {
			c, err = (&net.Dialer{}).DialContext(ctx, network, address)
			return err
		})
		return c, err
	}}}
	defer c.CloseIdleConnections()
	req, err := http.NewRequest(http.MethodPatch, fmt.Sprintf("http://%s:%d/config", leader.on.host(), restPort),
		bytes.NewReader(fmt.Appendf(nil, `{"synchronous_mode": %v}`, on)))
	if err != nil {
		return err
	}
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("Patroni answers %s", res.Status)
	}
	p.options.Synchronous = on
	return p.until("commits wait, or do not", func() bool {
		is, err := leader.Ask("postgres", "SELECT (current_setting('synchronous_standby_names') <> '')::text")
		return err == nil && is == strconv.FormatBool(on)
	})
}

// Near returns the address of the primary for programs on this machine, over the sockets of the servers.
func (p *Patroni) Near() string {
	var dirs []string
	for _, s := range p.Servers {
		dirs = append(dirs, s.dir)
	}
	return fmt.Sprintf("postgres:///postgres?user=%s&host=%s&port=%d&sslmode=disable&target_session_attrs=read-write", Superuser, strings.Join(dirs, ","), patroniPort)
}

// URL returns the address of the primary, with all servers.
func (p *Patroni) URL() string {
	var all []string
	for _, s := range p.Servers {
		all = append(all, s.Addr())
	}
	return fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable&target_session_attrs=read-write", Superuser, strings.Join(all, ","))
}
