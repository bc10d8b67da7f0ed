//go:build linux

package plus_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// daemon is a server from a Debian package. A test starts and kills it.
type daemon struct {
	t       *testing.T
	argv    []string
	address string   // address at which the server accepts connections
	env     []string // variables in addition to those of the test
	cmd     *exec.Cmd
	said    bytes.Buffer
}

// startDaemon starts a server. The server ends with the test. If the program is not installed, the test is
// skipped.
func startDaemon(t *testing.T, address string, argv ...string) *daemon {
	t.Helper()
	return startDaemonWith(t, nil, address, argv...)
}

// startDaemonWith does the same as startDaemon, with additional variables.
func startDaemonWith(t *testing.T, env []string, address string, argv ...string) *daemon {
	t.Helper()
	path, err := exec.LookPath(argv[0])
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + argv[0])
	}
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatalf("there is no %s: run make tools", argv[0])
	case err != nil:
		t.Skipf("there is no %s: run make tools", argv[0])
	}
	d := &daemon{t: t, argv: append([]string{path}, argv[1:]...), address: address, env: env}
	t.Cleanup(func() {
		d.kill()
		if t.Failed() {
			t.Logf("%s said:\n%.5000s", argv[0], &d.said)
		}
	})
	d.start()
	return d
}

// start starts the server, and waits until it accepts connections.
func (d *daemon) start() {
	d.t.Helper()
	d.cmd = exec.Command(d.argv[0], d.argv[1:]...)
	d.cmd.Stdout, d.cmd.Stderr = &d.said, &d.said
	d.cmd.Env = append(os.Environ(), d.env...)
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	until(d.t, "the server accepts connections", func() bool {
		conn, err := net.Dial("tcp", d.address)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
}

func (d *daemon) kill() {
	_ = syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL)
	_ = d.cmd.Wait()
}

// hostile listens on a port, and sends the same answer to each client.
func hostile(t *testing.T, answer string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = conn.Write([]byte(answer))
				var b [512]byte
				for {
					if _, err := conn.Read(b[:]); err != nil {
						_ = conn.Close()
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}
