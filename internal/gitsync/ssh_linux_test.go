package gitsync

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"skein.dev/skein/internal/cluster/nettest"
	"skein.dev/skein/internal/egress"
)

// TestOverSSH reads a repository over ssh. ssh uses one key, and accepts only the known keys of the server.
func TestOverSSH(t *testing.T) {
	sshd := "/usr/sbin/sshd"
	if _, err := os.Stat(sshd); err != nil {
		const why = "there is no /usr/sbin/sshd: run make tools (Debian's package openssh-server)"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	b := newBench(t)
	b.file("a.yaml", fmt.Sprintf(simple, "a"))
	b.commit()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	for _, key := range []string{"host", "user", "other"} {
		run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file(key))
	}
	run("cp", file("user.pub"), file("authorized"))
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	port, err := nettest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nHostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPidFile none\n", port, file("host"), file("authorized"))
	if err := os.WriteFile(file("config"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	server := exec.Command(sshd, "-D", "-e", "-f", file("config"))
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	for {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = conn.Close()
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	secrets := map[string]string{}
	for _, name := range []string{"user", "other"} {
		key, err := os.ReadFile(file(name))
		if err != nil {
			t.Fatal(err)
		}
		secrets["pass-"+name] = string(key)
	}
	b.y.cfg.Needs.Secret = secretsOf(secrets)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	known := func(name string) string {
		key, err := os.ReadFile(file(name + ".pub"))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("[127.0.0.1]:%d %s", port, strings.Join(strings.Fields(string(key))[:2], " "))
	}
	try := func(key, host string) *Failing {
		t.Helper()
		spec, err := json.Marshal(Spec{URL: fmt.Sprintf("ssh://%s@127.0.0.1:%d%s", me.Username, port, b.repo), Key: key, KnownHosts: known(host)})
		if err != nil {
			t.Fatal(err)
		}
		b.source(string(spec))
		return b.sync().Failing
	}
	if f := try("user", "host"); f != nil || len(b.apply.sets) != 1 {
		t.Fatalf("%+v", f)
	}
	throughProxy(t, b, func() *Failing { return try("user", "host") })
	if f := try("user", "other"); f == nil || f.Commit != "" {
		t.Errorf("a server with another key: %+v", f)
	}
	if f := try("other", "host"); f == nil || f.Commit != "" {
		t.Errorf("a key that the server does not know: %+v", f)
	}
	b.y.cfg.Needs.Rules = onlyPublic
	if f := try("user", "host"); f == nil || !strings.Contains(f.Why, "the egress of namespace shop is public") {
		t.Errorf("against the rules of the namespace: %+v", f)
	}
}

// throughProxy checks that ssh uses the proxy of the setting egress_proxy, and connects to no server if the proxy refuses.
func throughProxy(t *testing.T, b *bench, try func() *Failing) {
	t.Helper()
	var asked atomic.Pointer[string]
	var open atomic.Bool
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(&r.Host)
		there, err := net.Dial("tcp", r.Host)
		if r.Method != http.MethodConnect || !open.Load() || err != nil {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		defer there.Close()
		client, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer client.Close()
		_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(there, client) }()
		_, _ = io.Copy(client, there)
	}))
	defer proxy.Close()
	before := b.y.cfg.Needs.Rules
	defer func() { b.y.cfg.Needs.Rules = before }()
	b.y.cfg.Needs.Rules = func(context.Context, string) (egress.Rules, error) {
		return egress.Rules{Policies: []string{egress.Any}, Proxy: proxy.URL}, nil
	}
	if f := try(); f == nil || asked.Load() == nil || !strings.Contains(fmt.Sprint(*f), "403") {
		t.Errorf("a proxy that refuses: %+v", f)
	}
	open.Store(true)
	asked.Store(nil)
	if f := try(); f != nil || asked.Load() == nil || !strings.HasPrefix(*asked.Load(), "127.0.0.1:") {
		t.Errorf("a proxy: %+v, asked for %v", f, asked.Load())
	}
}
