package local_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skein.dev/skein/sdk/shared/local"
)

// node answers only calls with its token, and records them.
type node struct {
	*httptest.Server
	token string
	got   []string
}

func newNode(t *testing.T) *node {
	n := &node{}
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown := r.Header.Get("Authorization")
		n.got = append(n.got, shown)
		if shown != "Bearer "+n.token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(n.Close)
	return n
}

func TestTransport(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	n := newNode(t)
	c := &http.Client{Transport: local.Transport(http.DefaultTransport)}
	ask := func(url string, want int) {
		t.Helper()
		resp, err := c.Post(url, "text/plain", strings.NewReader("said"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if resp.StatusCode != want || err != nil || want == 200 && string(text) != "said" {
			t.Fatalf("%s: %s %q, %v; want %d; the node got %q", url, resp.Status, text, err, want, n.got)
		}
	}
	write := func(address, token string) func() {
		t.Helper()
		remove, err := local.Write(address, token)
		if err != nil {
			t.Fatal(err)
		}
		return remove
	}
	n.token = "one"
	ask(n.URL, 401) // the node is not recorded yet
	first := write(n.URL, "one")
	ask(n.URL, 200)
	n.token = "two" // the node was restarted
	second := write(n.URL, "two")
	ask(n.URL, 200)
	u, err := url.Parse(n.URL)
	if err != nil {
		t.Fatal(err)
	}
	ask("http://localhost:"+u.Port(), 200)

	other := newNode(t) // another user's node has no record here
	_, _ = c.Get(other.URL)
	if len(other.got) != 1 || other.got[0] != "" {
		t.Errorf("a node without a record was shown %q", other.got)
	}
	if _, _, ok := local.Find(&url.URL{Scheme: "https", Host: u.Host}); ok {
		t.Error("the token of a node that speaks no TLS goes to one that does")
	}
	if _, _, ok := local.Find(&url.URL{Scheme: "http", Host: "192.0.2.1:" + u.Port()}); ok {
		t.Error("a token goes to another machine")
	}

	folder := filepath.Join(state, "skein", "local")
	for path, want := range map[string]os.FileMode{folder: 0o700, filepath.Join(folder, "127.0.0.1_"+u.Port()): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %o", path, info.Mode(), err, want)
		}
	}
	record := filepath.Join(folder, "127.0.0.1_"+u.Port())
	// With these modes, another user could read or replace the record.
	for path, mode := range map[string]os.FileMode{record: 0o644, folder: 0o777} {
		was, err := os.Stat(path)
		if err != nil || os.Chmod(path, mode) != nil {
			t.Fatal(path, err)
		}
		if token, _ := local.Shown(n.URL); token != "" {
			t.Errorf("a token of %s with the mode %o counts", path, mode)
		}
		if err := os.Chmod(path, was.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	first() // too late: by now the address belongs to the other node
	ask(n.URL, 200)
	second()
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("after the end there are %v, %v", left, err)
	}
}
