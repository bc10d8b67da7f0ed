package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/gitsync"
	"skein.dev/skein/internal/server"
	api "skein.dev/skein/sdk/api/v1"
)

// gitSyncer makes the part that looks at repositories.
func (b *bed) gitSyncer() server.GitSyncer {
	return gitsync.New(gitsync.Config{Store: b.db, Owns: b.engine.Owns, Applier: func() gitsync.Applier { return server.GitSets(b.srv) }, Log: slog.New(slog.DiscardHandler),
		Needs: gitsync.Needs{Dir: filepath.Join(b.dir, "git"), Rules: func(context.Context, string) (egress.Rules, error) { return egress.Rules{}, nil },
			Secret: func(_ context.Context, _, name string) (string, error) { return name, nil }}})
}

// repository is a repository whose files a test changes.
type repository struct {
	t   *testing.T
	dir string
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{t, t.TempDir()}
	r.git("init", "-q", "-b", "main")
	return r
}

func (r *repository) git(args ...string) {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=ann", "-c", "user.email=a@example.com"}, args...)...)
	cmd.Dir = r.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// commit writes files by name, removes those that are empty, and commits.
func (r *repository) commit(files map[string]string) {
	r.t.Helper()
	for name, text := range files {
		path := filepath.Join(r.dir, name)
		err := os.WriteFile(path, []byte(text), 0o666)
		if text == "" {
			err = os.Remove(path)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	r.git("add", "-A")
	r.git("commit", "-q", "-m", "change")
}

// TestGitSource: after each commit, the namespace has the workflows of the repository.
func TestGitSource(t *testing.T) {
	b := newBed(t, true)
	r := newRepository(t)
	const flow = "name: %s\ntasks: {a: {run: 'echo %s'}}\n"
	set := func(more string, status int) {
		t.Helper()
		want[api.GitSource](t, b.do("PUT", "/api/v1/git-sources/shop/flows", fmt.Sprintf(`{"url":"file://%s"%s}`, r.dir, more), "Content-Type", "application/json"), status)
	}
	sync := func() api.GitSync {
		t.Helper()
		return want[api.GitSync](t, b.post("/api/v1/git-sources/shop/flows:sync", ""), 200)
	}
	changes := func(s *api.GitSync) string {
		var all []string
		for _, c := range s.Changes {
			all = append(all, strings.TrimPrefix(c.Workflow, "shop/")+" "+c.Change)
		}
		return strings.Join(all, ", ")
	}
	state := func(name string) string {
		w := want[api.Workflow](t, b.get("/api/v1/workflows/shop/"+name), 200)
		return fmt.Sprintf("%s %d/%d", w.State, w.Version, w.Latest)
	}
	r.commit(map[string]string{"a.yaml": fmt.Sprintf(flow, "a", "1"), "b.yaml": fmt.Sprintf(flow, "b", "1")})
	if p := want[api.GitSync](t, b.post("/api/v1/git-sources/shop/flows:plan", fmt.Sprintf(`{"url":"file://%s"}`, r.dir)), 200); changes(&p) != "a created, b created" || p.Source.Version != 0 {
		t.Fatalf("a source that is not stored: planned %+v", p)
	}
	wantProblem(t, b.post("/api/v1/git-sources/shop/flows:plan", ""), 404, api.ProblemNotFound)
	set("", 200)
	if p := want[api.GitSync](t, b.post("/api/v1/git-sources/shop/flows:plan", fmt.Sprintf(`{"url":"file://%s","branch":"other"}`, r.dir)), 200); p.Source.State.Failing == nil {
		t.Fatal("the branch other does not exist")
	}
	plan := want[api.GitSync](t, b.post("/api/v1/git-sources/shop/flows:plan", ""), 200)
	if got := changes(&plan); got != "a created, b created" || b.get("/api/v1/workflows/shop/a").status != 404 {
		t.Fatalf("planned %s", got)
	}
	if s := sync(); changes(&s) != "a created, b created" || s.Source.State.Failing != nil {
		t.Fatalf("%+v", s)
	}
	w := want[api.Workflow](t, b.get("/api/v1/workflows/shop/a"), 200)
	if w.Git == nil || w.Git.Source != "flows" || w.Git.File != "a.yaml" || len(w.Git.Commit) != 40 {
		t.Errorf("it comes from %+v", w.Git)
	}
	wantProblem(t, b.do("PUT", "/api/v1/workflows/shop/a", "namespace: shop\n"+fmt.Sprintf(flow, "a", "9"), "Content-Type", "application/yaml"), 409, api.ProblemConflict)

	// A fault in one file leaves all workflows as they are; so does a workflow that does not come from the
	// source.
	want[api.Applied](t, b.do("PUT", "/api/v1/workflows/shop/c", "namespace: shop\n"+fmt.Sprintf(flow, "c", "0"), "Content-Type", "application/yaml"), 201)
	r.commit(map[string]string{"a.yaml": fmt.Sprintf(flow, "a", "2"), "c.yaml": fmt.Sprintf(flow, "c", "1"),
		"d.yaml": "name: d\ntasks:\n  a: {run: x}\n  e: {workflow: default/other}\n",
		"e.yaml": "name: e\nlocks: [global/dock]\ntasks: {a: {run: x}}\n"})
	s := sync()
	if f := s.Source.State.Failing; f == nil || len(f.Errors) != 3 || f.Errors[0].File != "c.yaml" || f.Errors[1].File != "d.yaml" || f.Errors[2].Key != "locks" || state("a") != "active 1/1" {
		t.Fatalf("%+v", f)
	}
	r.commit(map[string]string{"d.yaml": "", "e.yaml": ""})
	set(`,"adopt":true`, 200)
	if s := sync(); changes(&s) != "a changed, b unchanged, c changed" {
		t.Fatalf("%s, %+v", changes(&s), s.Source.State.Failing)
	}
	// A rollback stays until the file changes; a removed file pauses its workflow, and resumes it.
	b.post("/api/v1/workflows/shop/a:rollback", `{"version":1}`)
	r.commit(map[string]string{"b.yaml": ""})
	if s := sync(); changes(&s) != "a unchanged, c unchanged, b paused" || state("a") != "active 1/2" || state("b") != "paused 1/1" {
		t.Fatalf("%s, a %s, b %s", changes(&s), state("a"), state("b"))
	}
	r.commit(map[string]string{"b.yaml": fmt.Sprintf(flow, "b", "1"), "a.yaml": fmt.Sprintf(flow, "a", "3")})
	if s := sync(); changes(&s) != "a changed, b resumed, c unchanged" || state("a") != "active 3/3" || state("b") != "active 1/1" {
		t.Fatalf("%s, a %s, b %s", changes(&s), state("a"), state("b"))
	}
	set(`,"adopt":true,"removed":"delete"`, 200)
	r.commit(map[string]string{"b.yaml": ""})
	if s := sync(); changes(&s) != "a unchanged, c unchanged, b deleted" || b.get("/api/v1/workflows/shop/b").status != 404 {
		t.Fatalf("%s", changes(&s))
	}
	if l := want[api.List[api.GitSource]](t, b.get("/api/v1/git-sources?namespace=shop"), 200); len(l.Items) != 1 || len(l.Items[0].State.Workflows) != 2 {
		t.Errorf("%+v", l)
	}
	put := fmt.Sprintf(`{"url":"file://%s","every":"5m"}`, r.dir)
	wantProblem(t, b.do("PUT", "/api/v1/git-sources/shop/flows", put, "Content-Type", "application/json", "If-Match", `"2"`), 412, api.ProblemPrecondition)
	if g := want[api.GitSource](t, b.do("PUT", "/api/v1/git-sources/shop/flows", put, "Content-Type", "application/json", "If-Match", `"3"`), 200); g.Version != 4 {
		t.Errorf("%+v", g)
	}
	if a := b.do("DELETE", "/api/v1/git-sources/shop/flows", ""); a.status != 204 {
		t.Errorf("%d %s", a.status, a.body)
	}
	want[api.Applied](t, b.do("PUT", "/api/v1/workflows/shop/a", "namespace: shop\n"+fmt.Sprintf(flow, "a", "9"), "Content-Type", "application/yaml"), 200)
	for body, key := range map[string]string{`{"url":"x"}`: "url", `{"url":"https://example.com/a.git","every":"1s"}`: "every", `{"url":"https://example.com/a.git","every":"x"}`: "every",
		`{"url":"https://example.com/a.git","tag":"a..b"}`: "tag", `{"url":"https://example.com/a.git","login":"git"}`: "password_secret", `{"url":"git@h:a","key_secret":"K"}`: "known_hosts"} {
		p := wantProblem(t, b.do("PUT", "/api/v1/git-sources/shop/flows", body, "Content-Type", "application/json"), 422, api.ProblemInvalid)
		if len(p.Errors) != 1 || p.Errors[0].Key != key {
			t.Errorf("%s: %+v", body, p.Errors)
		}
		wantProblem(t, b.post("/api/v1/git-sources/shop/flows:plan", body), 422, api.ProblemInvalid)
	}
	wantProblem(t, b.post("/api/v1/git-sources/shop/flows:sync", ""), 404, api.ProblemNotFound)
}

// TestGitHook: a call of the server of a repository needs no token, but a proof. Without one, the answer
// does not tell whether the source exists.
func TestGitHook(t *testing.T) {
	b := newBed(t, true)
	want[api.GitSource](t, b.do("PUT", "/api/v1/git-sources/shop/flows", `{"url":"file:///nowhere.git","hook_secret":"HOOK"}`, "Content-Type", "application/json"), 200)
	if h := want[api.GitHook](t, b.do("POST", "/api/v1/hooks/shop/flows", `{"ref":"refs/heads/main"}`, "X-Gitlab-Token", "HOOK", "Content-Type", "application/json"), 200); !h.Looks {
		t.Error("no look follows")
	}
	if h := want[api.GitHook](t, b.do("POST", "/api/v1/hooks/shop/flows", `{"ref":"refs/heads/other"}`, "X-Gitlab-Token", "HOOK", "Content-Type", "application/json"), 200); h.Looks {
		t.Error("a look follows the push of another branch")
	}
	there := wantProblem(t, b.do("POST", "/api/v1/hooks/shop/flows", `{}`, "X-Gitlab-Token", "wrong"), 401, api.ProblemSignature)
	none := wantProblem(t, b.do("POST", "/api/v1/hooks/shop/none", `{}`, "X-Gitlab-Token", "HOOK"), 401, api.ProblemSignature)
	if there.Detail != none.Detail {
		t.Errorf("%q and %q", there.Detail, none.Detail)
	}
}
