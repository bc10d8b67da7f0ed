package gitsync

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// signed returns the headers of a call of GitHub.
func signed(secret, body string) http.Header {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(body))
	return http.Header{"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))}, "Content-Type": {"application/json"}}
}

const push = `{"ref":"refs/heads/main","after":"0123"}`

// TestHook: a call with a proof makes a look due. A call without one, or about another branch, does not.
func TestHook(t *testing.T) {
	b := newBench(t)
	spec := fmt.Sprintf(`{"url":"file://%s","every":"24h","hook_secret":"HOOK"}`, b.repo)
	b.source(spec)
	if _, err := b.store.PutGitSource(b.ctx, store.GitSource{Namespace: "shop", Name: "deaf", Version: 1, Spec: []byte(b.local())}); err != nil {
		t.Fatal(err)
	}
	form := url.Values{"payload": {push}}.Encode()
	posted := signed("pass-HOOK", form)
	posted.Set("Content-Type", "application/x-www-form-urlencoded")
	for name, c := range map[string]struct {
		source string
		header http.Header
		body   string
		looks  bool
		form   string // "" means refused
	}{
		"GitHub":           {"flows", signed("pass-HOOK", push), push, true, FormHub},
		"GitHub, a form":   {"flows", posted, form, true, FormHub},
		"GitHub, ping":     {"flows", signed("pass-HOOK", `{"zen":"x"}`), `{"zen":"x"}`, true, FormHub},
		"GitHub, a branch": {"flows", signed("pass-HOOK", `{"ref":"refs/heads/x"}`), `{"ref":"refs/heads/x"}`, false, FormHub},
		"Bitbucket":        {"flows", http.Header{"X-Hub-Signature": signed("pass-HOOK", push)["X-Hub-Signature-256"]}, push, true, FormHub},
		"GitLab":           {"flows", http.Header{"X-Gitlab-Token": {"pass-HOOK"}}, push, true, FormGitLab},
		"GitLab, rubbish":  {"flows", http.Header{"X-Gitlab-Token": {"pass-HOOK"}}, "\x00", true, FormGitLab},
		"another body":     {"flows", signed("pass-HOOK", push), push + " ", false, ""},
		"another secret":   {"flows", signed("pass", push), push, false, ""},
		"another token":    {"flows", http.Header{"X-Gitlab-Token": {"pass"}}, push, false, ""},
		"nothing":          {"flows", http.Header{}, push, false, ""},
		"no webhook":       {"deaf", signed("", push), push, false, ""},
		"no webhook, none": {"deaf", http.Header{"X-Gitlab-Token": {""}}, push, false, ""},
		"no source":        {"none", signed("", push), push, false, ""},
	} {
		looks, form, err := b.y.Hook(b.ctx, "shop", c.source, c.header, []byte(c.body))
		if looks != c.looks || form != c.form || errors.Is(err, ErrUnsigned) != (c.form == "") {
			t.Errorf("%s: %v %q %v", name, looks, form, err)
		}
	}
	b.owns = false
	var elsewhere *errkind.Elsewhere
	if _, _, err := b.y.Hook(b.ctx, "shop", "flows", signed("pass-HOOK", push), []byte(push)); !errors.As(err, &elsewhere) {
		t.Errorf("on another node: %v", err)
	}
	if _, _, err := b.y.Hook(b.ctx, "shop", "flows", http.Header{}, []byte(push)); !errors.Is(err, ErrUnsigned) {
		t.Errorf("on another node, without a proof: %v", err)
	}
	b.y.cfg.Needs.Secret = secretsOf(nil)
	if _, _, err := b.y.Hook(b.ctx, "shop", "flows", http.Header{"X-Gitlab-Token": {"pass-HOOK"}}, []byte(push)); !errors.As(err, &elsewhere) {
		t.Errorf("the secret was read again at once: %v", err)
	}
	b.y.now = func() time.Time { return time.Now().Add(hookKept) }
	if _, _, err := b.y.Hook(b.ctx, "shop", "flows", signed("", push), []byte(push)); !errors.Is(err, ErrUnsigned) {
		t.Errorf("an empty secret: %v", err)
	}
}

// TestHookSyncs: a node that looks once a day applies a commit soon after the call.
func TestHookSyncs(t *testing.T) {
	b := newBench(t)
	b.file("a.yaml", fmt.Sprintf(simple, "a"))
	b.commit()
	b.source(fmt.Sprintf(`{"url":"file://%s","every":"24h","hook_secret":"HOOK"}`, b.repo))
	b.sync()
	b.file("a.yaml", fmt.Sprintf(simple, "a")+"description: new\n")
	commit := b.commit()
	go b.y.Run(b.ctx)
	if _, _, err := b.y.Hook(b.ctx, "shop", "flows", signed("pass-HOOK", push), []byte(push)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		g, err := b.store.GitSourceOf(b.ctx, "shop", "flows")
		if err != nil {
			t.Fatal(err)
		}
		if ReadState(g.State).Applied == commit {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the commit is not applied: %s", g.State)
		}
	}
}

// TestThroughProxy: git reaches an http server through the proxy of the setting egress_proxy, which resolves
// the name.
func TestThroughProxy(t *testing.T) {
	b := newBench(t)
	b.file("a.yaml", fmt.Sprintf(simple, "a"))
	b.commit()
	core, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(core)), "git-http-backend"), Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(b.repo), "GIT_HTTP_EXPORT_ALL=1"}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Host != "git.invalid" || r.Header.Get("Proxy-Authorization") != "" {
			t.Errorf("the proxy was asked for %s with %q", r.URL, r.Header.Get("Proxy-Authorization"))
		}
		backend.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	b.y.cfg.Needs.Rules = func(context.Context, string) (egress.Rules, error) { return egress.Rules{Proxy: proxy.URL}, nil }
	b.source(`{"url":"http://git.invalid/repo/.git"}`)
	if st := b.sync(); st.Failing != nil || len(b.apply.sets) != 1 {
		t.Fatalf("%+v", st.Failing)
	}
}
