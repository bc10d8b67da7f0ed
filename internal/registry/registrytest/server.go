// Package registrytest starts real registries, etcd and ZooKeeper, for tests.
package registrytest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"skein.dev/skein/internal/cluster/nettest"
)

// Server is a registry that a test has started.
type Server struct {
	t       testing.TB
	Dir     string // the folder of a test's files
	Address string // host:port for clients
	data    string
	command func() *exec.Cmd
	cmd     *exec.Cmd
}

// Etcd starts an etcd. flags are more of its flags.
func Etcd(t testing.TB, flags ...string) *Server {
	t.Helper()
	etcd, _ := exec.LookPath("etcd") // "" if etcd is not installed; needs then skips the test
	needs(t, etcd, "etcd")
	s := &Server{t: t, Dir: t.TempDir(), Address: freeAddress(t)}
	s.data = filepath.Join(s.Dir, "data")
	scheme := "http://"
	if strings.Contains(strings.Join(flags, " "), "--cert-file") {
		scheme = "https://"
	}
	peers := "http://" + freeAddress(t)
	s.command = func() *exec.Cmd {
		return exec.Command(etcd, append([]string{"--name=one", "--data-dir=" + s.data, "--listen-client-urls=" + scheme + s.Address,
			"--advertise-client-urls=" + scheme + s.Address, "--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers,
			"--initial-cluster=one=" + peers, "--log-level=error", "--logger=zap"}, flags...)...)
	}
	s.Start()
	t.Cleanup(s.Kill)
	return s
}

// The folder with the libraries of Debian, and the main class of ZooKeeper.
const (
	javaLibraries = "/usr/share/java"
	zooKeeperMain = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
)

// ZooKeeper starts a ZooKeeper. lines are more lines of its settings.
func ZooKeeper(t testing.TB, lines ...string) *Server {
	t.Helper()
	needs(t, javaLibraries+"/zookeeper.jar", "libzookeeper-java")
	java, _ := exec.LookPath("java")
	needs(t, java, "default-jre-headless")
	s := &Server{t: t, Dir: t.TempDir(), Address: freeAddress(t)}
	s.data = filepath.Join(s.Dir, "data")
	host, port, _ := net.SplitHostPort(s.Address)
	conf := filepath.Join(s.Dir, "zoo.cfg")
	text := fmt.Sprintf("tickTime=500\ndataDir=%s\nclientPort=%s\nclientPortAddress=%s\nadmin.enableServer=false\n%s\n", s.data, port, host, strings.Join(lines, "\n"))
	if strings.Contains(text, "ssl.keyStore") {
		text = strings.ReplaceAll(text, "clientPort", "secureClientPort")
	}
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.command = func() *exec.Cmd {
		return exec.Command(java, "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(javaLibraries, "*"), zooKeeperMain, conf)
	}
	s.Start()
	t.Cleanup(s.Kill)
	return s
}

// needs skips the test if the tool name is not installed as file. In CI, the test fails instead.
func needs(t testing.TB, file, name string) {
	t.Helper()
	if _, err := os.Stat(file); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is missing: make tools installs it", name)
		}
		t.Skipf("the tests of registries need %s: make tools installs it", name)
	}
}

// startMax bounds the start of a server.
const startMax = time.Minute

// Start starts the server, and waits until it takes connections.
func (s *Server) Start() {
	s.t.Helper()
	if err := os.MkdirAll(s.data, 0o700); err != nil {
		s.t.Fatal(err)
	}
	s.cmd = s.command()
	s.cmd.Env = append(os.Environ(), "ETCD_UNSUPPORTED_ARCH=arm64")
	log, err := os.OpenFile(filepath.Join(s.Dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	tie(s.cmd)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", s.Address)
		if err == nil {
			_ = c.Close()
			return
		}
		if time.Since(began) > startMax {
			text, _ := os.ReadFile(filepath.Join(s.Dir, "log")) // the log as far as it exists
			s.t.Fatalf("%v: %s", err, text)
		}
	}
}

// Kill ends the server with SIGKILL. Its data stay.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// Wipe deletes the data of a server that was killed.
func (s *Server) Wipe() {
	s.t.Helper()
	if err := os.RemoveAll(s.data); err != nil {
		s.t.Fatal(err)
	}
}

// Pause stops the process, and Resume lets it continue.
func (s *Server) Pause()  { _ = s.cmd.Process.Signal(syscall.SIGSTOP) }
func (s *Server) Resume() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }

// freeAddress returns an address on loopback that is free.
func freeAddress(t testing.TB) string {
	t.Helper()
	port, err := nettest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}
