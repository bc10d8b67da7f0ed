//go:build linux

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestSecretsAreHidden: the kernel shows the environment and the arguments of a process to other processes of
// the same user, such as tasks. Those of a server and of its keeper contain no secrets.
func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.env
	w.env = append(before[:len(before):len(before)], "SKEIN_API_TOKEN=s3cret-token", "SKEIN_VALUE_KEY=s3cret-value", "PGPASSWORD=s3cret-pg",
		"https_proxy=http://ada:s3cret-proxy@proxy:3128", "BESIDE=seen")
	p := w.server("--db", "sqlite:"+w.data+"/x.db?password=s3cret-flag", "--egress-proxy", "http://ada:s3cret-proxy@proxy:3128")
	w.env = before
	file := w.workflow("spy", fmt.Sprintf("  a: {run: 'cat /proc/%d/environ /proc/%d/cmdline > %s/spied'}\n", p.cmd.Process.Pid, p.cmd.Process.Pid, w.dir))
	if o := w.skein("run", file, "--follow"); o.code != exitOK {
		t.Fatal(o)
	}
	spied := w.read("spied")
	if !strings.Contains(spied, "BESIDE=seen") || !strings.Contains(spied, "server") {
		t.Errorf("the task has read %q", spied)
	}
	for _, pid := range []int{p.cmd.Process.Pid, keeperOf(w.data)} {
		for _, of := range []string{"environ", "cmdline"} {
			shown, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, of))
			if err != nil || len(shown) == 0 {
				t.Fatalf("%s of %d: %q, %v", of, pid, shown, err)
			}
			if bytes.Contains(shown, []byte("s3cret")) {
				t.Errorf("%s of %d shows %q", of, pid, shown)
			}
		}
	}
	if strings.Contains(spied, "s3cret") {
		t.Errorf("the task has read %q", spied)
	}
}

// TestTokenStaysPrivate: the command line sends no token in plain text to an address other than loopback,
// unless a flag allows it.
func TestTokenStaysPrivate(t *testing.T) {
	t.Parallel()
	shown := make(chan string, 100)
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown <- r.Header.Get("Authorization")
		w.WriteHeader(http.StatusNotFound)
	}))
	defer node.Close()
	w := newWorld(t)
	token := w.secret("t", "skein_api_x")
	url := "http://0.0.0.0:" + node.URL[strings.LastIndex(node.URL, ":")+1:] // this address leads to this machine
	w.refused(exitUsage, []string{"plain text", "https://", "--insecure-plaintext"}, "--server", url, "--token-file", token, "run", "list")
	for _, address := range []string{url[len("http://"):], "node-1:8080"} {
		w.refused(exitUsage, []string{"plain text"}, "--server", address, "--token-file", token, "run", "list")
	}
	if n := len(shown); n != 0 {
		t.Errorf("the node was asked %d times", n)
	}
	w.skein("--server", url, "--token-file", token, "--insecure-plaintext", "run", "list")
	if len(shown) == 0 || <-shown != "Bearer skein_api_x" {
		t.Error("told to, it does not show the token")
	}
}

// TestComposeMakesTokens runs the script of the compose file that makes the tokens, as sh does in the
// container. A start that was interrupted between the token and its file leaves an empty file. The next start
// makes a new token for it. A complete file stays.
func TestComposeMakesTokens(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct{ Command []string }
	}
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.AllowDuplicateMapKey()); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	script := strings.NewReplacer("$$", "$", "/run/skein", w.dir).Replace(file.Services["tokens"].Command[0])
	kinds := []string{"api", "node", "worker"}
	for _, kind := range kinds {
		if err := os.Mkdir(filepath.Join(w.dir, kind), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	makeTokens := func() {
		t.Helper()
		cmd := w.command("-c", script)
		if cmd.Path, err = exec.LookPath("sh"); err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(slices.Clip(cmd.Env), "PATH="+w.dir+":"+os.Getenv("PATH"))
		if o := w.call(cmd); o.code != exitOK {
			t.Fatal(o)
		}
	}
	makeTokens()
	whole := w.read("api/token")
	for _, kind := range []string{"node", "worker"} {
		if err := os.Truncate(filepath.Join(w.dir, kind, "token"), 0); err != nil {
			t.Fatal(err)
		}
	}
	makeTokens()
	for _, kind := range kinds {
		if token := w.read(kind + "/token"); !strings.HasPrefix(token, "skein_"+kind+"_") {
			t.Errorf("the token of the kind %s is %q", kind, token)
		}
	}
	if w.read("api/token") != whole {
		t.Error("a token that was whole was made again")
	}
}
