//go:build linux

package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"skein.dev/skein/internal/worker"
	api "skein.dev/skein/sdk/api/v1"
)

// stranger is a program that calls a node without a credential, and prints the status. Before that, it tries
// to read the files that hold a credential.
const stranger = `import sys, urllib.request, urllib.error
def call(method, url, token=None, body=None):
    head = {"Content-Type": "application/json"}
    if token: head["Authorization"] = "Bearer " + token
    try: return urllib.request.urlopen(urllib.request.Request(url, body, head, method=method)).status
    except urllib.error.HTTPError as e: return e.code
for path in sys.argv[2:]:
    try: print("read", open(path).read())
    except OSError as e: print("refused", type(e).__name__)
print(call("GET", sys.argv[1] + "/runs"), call("POST", sys.argv[1] + "/runs", body=b'{"workflow": "hello"}'),
    call("PUT", sys.argv[1] + "/workflows/default/evil", body=b'{"source": "name: evil\ntasks: {t: {run: id}}\n"}'))
`

// TestLoopbackToken: a caller has no rights just because it reaches the port. The user who runs the node
// needs nothing but the address; another user, a page, an isolated task and a program without the token are
// refused.
func TestLoopbackToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, unfenced := worker.Fences()
	p := w.server("--isolation", "auto")
	token := ownToken(t, w.data)
	evil, nothing := "https://evil.example", map[string]string{"Authorization": ""}
	for name, f := range map[string]struct {
		header map[string]string
		want   int
	}{
		"own":          {nil, 200},
		"nothing":      {nothing, 401},
		"a claim":      {map[string]string{"Authorization": "", "X-Skein-User": "ann", "X-Skein-Principal": "x.y"}, 401},
		"cut":          {map[string]string{"Authorization": "Bearer " + token[:len(token)-1]}, 401},
		"a page":       {map[string]string{"Authorization": "", "Origin": evil, "Sec-Fetch-Site": "cross-site"}, 401},
		"own page":     {map[string]string{"Authorization": "", "Origin": p.url, "Sec-Fetch-Site": "same-origin"}, 401},
		"a page, held": {map[string]string{"Origin": evil}, 403},
		"another host": {map[string]string{"Host": "evil.example"}, 421},
	} {
		if code, text := p.ask("GET", "/api/v1/runs", f.header, nil); code != f.want || code == 401 && !strings.Contains(text, "token") {
			t.Errorf("%s: %d %.200s, want %d", name, code, text, f.want)
		}
	}
	for _, path := range []string{"/metrics", "/api/v1/runs"} {
		if code, text := p.ask("GET", path, nothing, nil); code != 401 || !strings.Contains(text, "skein api") || !strings.Contains(text, "skein token local") {
			t.Errorf("%s: %d %.300s", path, code, text)
		}
	}
	// This is the request of a worker of an earlier version.
	if code, text := p.ask("POST", "/skein.worker.v1.Workers/Register", nothing, strings.NewReader("{}")); code != 401 || !strings.Contains(text, "--token-file") {
		t.Errorf("a worker: %d %.300s", code, text)
	}
	if code, _ := p.ask("GET", "/livez", nothing, nil); code != 200 {
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
	other.env = append(slices.Clone(w.env), "HOME="+elsewhere) // this home folder has no records of tokens
	other.refused(exitNotAllowed, []string{"skein token local"}, "--server", p.url, "--data", elsewhere, "run", "list")

	secrets := []string{filepath.Join(w.data, "access", "local.token"),
		filepath.Join(w.home, ".local", "state", "skein", "local", strings.Replace(strings.TrimPrefix(p.url, "http://"), ":", "_", 1))}
	for _, path := range secrets {
		if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), token) {
			t.Fatalf("%s: %q, %v", path, text, err)
		}
	}
	const turnedAway = "refused PermissionError\nrefused PermissionError\n401 401 401\n"
	args := append([]string{"-c", stranger, p.url + api.Prefix}, secrets...)
	if os.Geteuid() == 0 { // only root can act as another user
		cmd := exec.Command("/usr/bin/python3", args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4321, Gid: 4321}}
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != turnedAway {
			t.Errorf("another user: %v\n%s", err, out)
		}
	}
	if unfenced == nil {
		script := strings.ReplaceAll(stranger, "\n", "\n      ")
		p.apply("task", fmt.Sprintf("  t:\n    env: {U: %q, A: %q, B: %q}\n    run: |\n      exec /usr/bin/python3 - \"$U\" \"$A\" \"$B\" <<'END'\n      %s\n      END\n",
			p.url+api.Prefix, secrets[0], secrets[1], script))
		run := p.begin("task", nil)
		p.ends(run)
		if got := p.logOf(run, "t", 1); got != turnedAway {
			t.Errorf("an isolated task: %s", got)
		}
	}
	if _, err := p.Workflow(t.Context(), "evil"); err == nil {
		t.Error("somebody who may not has applied a workflow")
	}
}

// TestLoopbackOpen: the old rule of loopback lets every caller in, and a warning says so at each start and in
// doctor.
func TestLoopbackOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env = append(w.env, "SKEIN_LOOPBACK=open")
	p := w.server("--log-level", "warn")
	if code, text := p.ask(http.MethodGet, "/api/v1/runs", map[string]string{"Authorization": ""}, nil); code != 200 {
		t.Errorf("%d %.200s", code, text)
	}
	if code, _ := p.ask(http.MethodGet, "/api/v1/runs", map[string]string{"Authorization": "", "Origin": "https://evil.example"}, nil); code != 403 {
		t.Errorf("a page: %d", code)
	}
	if !strings.Contains(p.log.String(), "code=loopback_open") {
		t.Errorf("the start says nothing:\n%s", p.log)
	}
	if o := w.skein("doctor"); !strings.Contains(o.out, "loopback is open") {
		t.Errorf("doctor: %v", o)
	}
}
