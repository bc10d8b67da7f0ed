//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestLoopbackToken: with loopback: token, the port alone gives nobody a right. The user who runs the node needs
// nothing but the address; another user, a page and a program without the token are refused.
func TestLoopbackToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.server("--loopback", "token")
	token := p.localToken()
	own, evil := "Bearer "+token, "https://evil.example"
	for name, f := range map[string]struct {
		header map[string]string
		want   int
	}{
		"own":          {map[string]string{"Authorization": own}, 200},
		"nothing":      {nil, 401},
		"a claim":      {map[string]string{"X-Skein-User": "ann", "X-Skein-Principal": "x.y"}, 401},
		"cut":          {map[string]string{"Authorization": own[:len(own)-1]}, 401},
		"a page":       {map[string]string{"Origin": evil, "Sec-Fetch-Site": "cross-site"}, 401},
		"a page, held": {map[string]string{"Origin": evil, "Authorization": own}, 403},
		"another host": {map[string]string{"Host": "evil.example", "Authorization": own}, 421},
	} {
		if code, text := p.ask("GET", "/api/v1/runs", f.header, nil); code != f.want || code == 401 && !strings.Contains(text, "token") {
			t.Errorf("%s: %d %.200s, want %d", name, code, text, f.want)
		}
	}
	if code, text := p.ask("GET", "/metrics", nil, nil); code != 401 || !strings.Contains(text, "skein token local") {
		t.Errorf("metrics: %d %.300s", code, text)
	}
	if code, _ := p.ask("GET", "/livez", nil, nil); code != 200 {
		t.Errorf("livez: %d", code)
	}

	elsewhere := filepath.Join(w.dir, "elsewhere")
	if o := w.skein("--server", p.url, "--data", elsewhere, "run", "list"); o.code != exitOK {
		t.Errorf("by the address: %v", o)
	}
	if o := w.skein("token", "local"); o.code != exitOK || strings.TrimSpace(o.out) != token {
		t.Errorf("token local: %v", o)
	}
	other := *w
	other.env = append(slices.Clone(w.env), "HOME="+elsewhere) // has no records
	other.refused(exitNotAllowed, []string{"skein token local"}, "--server", p.url, "--data", elsewhere, "run", "list")

	if os.Geteuid() == 0 { // only root can act as another user
		for _, path := range []string{filepath.Join(w.data, "access", "local.token"), filepath.Join(w.dir, ".local", "state", "skein", "local")} {
			cmd := exec.Command("ls", "-l", path)
			if strings.HasSuffix(path, ".token") {
				cmd = exec.Command("cat", path)
			}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			if out, err := cmd.CombinedOutput(); err == nil {
				t.Errorf("another user reads %s: %s", path, out)
			}
		}
	}
}
