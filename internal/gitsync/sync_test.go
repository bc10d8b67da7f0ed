package gitsync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
	"skein.dev/skein/internal/workflow"
	"skein.dev/skein/sdk/shared/mask"
)

// applier remembers the sets that it gets, and accepts each of them.
type applier struct {
	sets   []*Set
	faults workflow.Errors
	err    error
	during func()
}

func (a *applier) Options(context.Context, string) workflow.Options { return workflow.Options{} }

func (a *applier) ApplySet(ctx context.Context, set *Set) (*Outcome, error) {
	if a.during != nil {
		a.during()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if a.err != nil || len(a.faults) > 0 {
		return &Outcome{Faults: a.faults}, a.err
	}
	out := &Outcome{}
	for i := range set.Items {
		out.Changes = append(out.Changes, Change{Workflow: set.Items[i].Def.Name, File: set.Items[i].Request.File, What: Created, Version: 1})
	}
	for _, b := range set.Before {
		if !slices.ContainsFunc(set.Items, func(i Item) bool { return i.Def.Name == b.Name }) {
			out.Changes = append(out.Changes, Change{Workflow: b.Name, What: Paused})
		}
	}
	if !set.Plan {
		a.sets = append(a.sets, set)
	}
	return out, nil
}

// last returns the workflows of the last set that was applied.
func (a *applier) last() (names []string) {
	for i := range a.sets[len(a.sets)-1].Items {
		names = append(names, a.sets[len(a.sets)-1].Items[i].Def.Name)
	}
	return names
}

type bench struct {
	t     *testing.T
	ctx   context.Context
	repo  string
	store *memory.Store
	apply *applier
	y     *Syncer
	owns  bool
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, ctx: t.Context(), repo: filepath.Join(t.TempDir(), "repo"), store: memory.New(memory.Options{Shards: 1}), apply: &applier{}, owns: true}
	b.git("init", "-q", "-b", "main", b.repo)
	b.y = New(Config{Store: b.store, Owns: func(dag.ShardID) bool { return b.owns }, Applier: func() Applier { return b.apply }, Log: slog.New(slog.DiscardHandler),
		Needs: Needs{Dir: filepath.Join(t.TempDir(), "looks"), Rules: func(context.Context, string) (egress.Rules, error) {
			return egress.Rules{Policies: []string{egress.Any}}, nil
		},
			Secret: func(_ context.Context, _, name string) (string, error) { return "pass-" + name, nil }}})
	return b
}

func (b *bench) git(args ...string) string {
	b.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "protocol.file.allow=always"}, args...)...)
	if _, err := os.Stat(b.repo); err == nil {
		cmd.Dir = b.repo
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (b *bench) file(name, text string) {
	b.t.Helper()
	path := filepath.Join(b.repo, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
		b.t.Fatal(err)
	}
}

// commit commits everything, and returns the commit.
func (b *bench) commit() string {
	b.t.Helper()
	b.git("add", "-A")
	b.git("commit", "-q", "-m", "a change")
	return b.git("rev-parse", "HEAD")
}

// source makes a source of a folder of the repository.
func (b *bench) source(spec string) {
	b.t.Helper()
	is, err := b.store.GitSourceOf(b.ctx, "shop", "flows")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		b.t.Fatal(err)
	}
	if _, err := Parse([]byte(spec)); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.store.PutGitSource(b.ctx, store.GitSource{Namespace: "shop", Name: "flows", Version: is.Version + 1, Spec: []byte(spec), By: "ann"}); err != nil {
		b.t.Fatal(err)
	}
}

// sync syncs, and returns the stored state.
func (b *bench) sync() State {
	b.t.Helper()
	g, _, err := b.y.Sync(b.ctx, "shop", "flows")
	if err != nil {
		b.t.Fatal(err)
	}
	return ReadState(g.State)
}

func (b *bench) local() string { return fmt.Sprintf(`{"url":"file://%s"}`, b.repo) }

const simple = "name: %s\ntasks: {a: {run: 'true'}}\n"

// TestSync checks that the workflows of a commit are applied as one set, with the files that they name. If a
// file is wrong, the previous commit stays in force, and the state names the fault and its place.
func TestSync(t *testing.T) {
	b := newBench(t)
	b.file("flows/a.yaml", "name: a\nfiles: [lib/*.py, conf.yaml]\ntasks: {a: {run: {file: lib/a.py}}}\n")
	b.file("flows/lib/a.py", "print(1)\n")
	b.file("flows/conf.yaml", "name: no workflow\n")
	b.file("flows/data.yaml", "x: 1\n")
	b.file("flows/deep/bc.yml", fmt.Sprintf(simple+"---\n"+simple, "b", "c"))
	b.file("flows/.hidden/d.yaml", "name: [")
	b.file("other/e.yaml", "name: [")
	first := b.commit()
	b.source(fmt.Sprintf(`{"url":"file://%s","folder":"flows"}`, b.repo))
	if _, out, err := b.y.Plan(b.ctx, "shop", "flows"); err != nil || len(out.Changes) != 3 || len(b.apply.sets) != 0 {
		t.Fatalf("planned %+v, %v, applied %d", out, err, len(b.apply.sets))
	}
	st := b.sync()
	if st.Failing != nil || st.Applied != first || st.Author != "Ann <ann@example.com>" || st.Subject != "a change" || len(st.Workflows) != 3 {
		t.Fatalf("%+v", st)
	}
	set := b.apply.sets[0]
	if got := set.Items[0]; !slices.Equal(b.apply.last(), []string{"a", "b", "c"}) || got.Def.Namespace != "shop" || len(got.Request.Files) != 2 ||
		string(got.Request.Files[1].Data) != "print(1)\n" || got.Def.Git.Commit != first || set.Items[2].Request.File != "deep/bc.yml" {
		t.Fatalf("%+v", set)
	}
	b.file("flows/a.yaml", "name: a\ntasks:\n  a: {run: x, nedds: b}\n")
	b.file("flows/z.yaml", "name: z\n")
	second := b.commit()
	st = b.sync()
	if st.Applied != first || st.Seen != second || st.Failing == nil || st.Failing.Commit != second || len(b.apply.sets) != 1 {
		t.Fatalf("%+v", st)
	}
	if f := st.Failing.Faults; len(f) < 2 || f[0].File != "a.yaml" || f[0].Line != 3 || f[len(f)-1].File != "z.yaml" {
		t.Fatalf("%+v", f)
	}
	since := st.Failing.Since
	b.y.now = func() time.Time { return time.Now().Add(time.Hour) }
	if st = b.sync(); st.Failing == nil || !st.Failing.Since.Equal(since) {
		t.Fatalf("a second look: %+v", st.Failing)
	}
	b.git("rm", "-q", "-r", "flows/a.yaml", "flows/z.yaml", "flows/deep", "flows/conf.yaml")
	b.file("flows/b.yaml", fmt.Sprintf(simple, "b"))
	third := b.commit()
	st = b.sync()
	if st.Failing != nil || st.Applied != third || len(st.Workflows) != 3 || !st.Workflows[0].Paused || st.Workflows[1].Gone {
		t.Fatalf("%+v", st)
	}
}

// TestRewritten: if the history was rewritten, only the newest commit is applied.
func TestRewritten(t *testing.T) {
	b := newBench(t)
	b.file("a.yaml", fmt.Sprintf(simple, "a"))
	first := b.commit()
	b.file("b.yaml", fmt.Sprintf(simple, "b"))
	b.commit()
	b.source(b.local())
	b.sync()
	b.git("reset", "-q", "--hard", first)
	b.git("commit", "-q", "--amend", "-m", "another past")
	if st := b.sync(); st.Failing != nil || st.Applied != b.git("rev-parse", "HEAD") || !slices.Equal(b.apply.last(), []string{"a"}) {
		t.Fatalf("%+v", st)
	}
	b.git("tag", "-a", "v1", "-m", "one")
	b.source(fmt.Sprintf(`{"url":"file://%s","tag":"v1"}`, b.repo))
	if st := b.sync(); st.Failing != nil || st.Applied != b.git("rev-parse", "v1^{commit}") {
		t.Fatalf("of a tag: %+v", st)
	}
}

// TestStrangeRepositories: whatever a repository contains, no look writes outside of its folder or executes a
// file of the repository.
func TestStrangeRepositories(t *testing.T) {
	b := newBench(t)
	b.source(b.local())
	if st := b.sync(); st.Failing == nil || !strings.Contains(st.Failing.Why, "no branch main") {
		t.Fatalf("an empty repository: %+v", st.Failing)
	}
	b.file("readme.md", "x")
	b.commit()
	if st := b.sync(); st.Failing == nil || len(st.Failing.Faults) != 1 || st.Failing.Faults[0].File != "." {
		t.Fatalf("without workflows: %+v", st.Failing)
	}
	secret := filepath.Join(t.TempDir(), "secret.yaml")
	if err := os.WriteFile(secret, []byte(fmt.Sprintf(simple, "stolen")), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink(secret, filepath.Join(b.repo, "link.yaml")), os.Symlink("/etc", filepath.Join(b.repo, "etc"))); err != nil {
		t.Fatal(err)
	}
	b.file("a.yaml", "name: a\nfiles: [etc/hostname]\ntasks: {a: {run: 'true'}}\n")
	b.commit()
	if st := b.sync(); st.Failing == nil || len(st.Failing.Faults) != 2 || len(b.apply.sets) != 0 {
		t.Fatalf("links: %+v", st.Failing)
	}
	b.git("rm", "-q", "link.yaml", "etc")
	b.file("a.yaml", "name: a\nfiles: [big.bin]\ntasks: {a: {run: 'true'}}\n")
	b.file("big.bin", strings.Repeat("x", workflow.FileMax+1))
	b.commit()
	if st := b.sync(); st.Failing == nil || !strings.Contains(fmt.Sprint(st.Failing.Faults), "big.bin is larger") {
		t.Fatalf("a large file: %+v", st.Failing)
	}
	archiveMax = 1 << 20
	defer func() { archiveMax = 64 << 20 }()
	if st := b.sync(); st.Failing == nil || !strings.Contains(st.Failing.Why, "more than 1 MiB") {
		t.Fatalf("a large folder: %+v", st.Failing)
	}
	b.git("rm", "-q", "-f", "big.bin")
	b.file("half.bin", strings.Repeat("x", 300<<10))
	const half = "---\nname: %s\nfiles: [half.bin]\ntasks: {a: {run: 'true'}}\n"
	b.file("a.yaml", fmt.Sprintf(half+half+half+half, "a", "b", "c", "d"))
	b.commit()
	if items, faults := read(os.DirFS(b.repo), workflow.Options{}); len(items) > 0 || !strings.Contains(fmt.Sprint(faults), "more than 1 MiB together") {
		t.Fatalf("the same file many times: %d, %v", len(items), faults)
	}
	archiveMax = 64 << 20
	evil := filepath.Join(t.TempDir(), "ran")
	b.file(".gitattributes", "*.yaml filter=evil\n")
	b.git("config", "filter.evil.smudge", "touch "+evil)
	b.git("config", "filter.evil.clean", "cat")
	b.file("a.yaml", fmt.Sprintf(simple, "a"))
	b.git("init", "-q", "-b", "main", filepath.Join(b.repo, "..", "sub"))
	b.git("-C", filepath.Join(b.repo, "..", "sub"), "commit", "-q", "--allow-empty", "-m", "empty")
	b.git("submodule", "--quiet", "add", filepath.Join(b.repo, "..", "sub"), "sub")
	b.commit()
	_ = os.Remove(evil)
	if st := b.sync(); st.Failing != nil || !slices.Equal(b.apply.last(), []string{"a"}) {
		t.Fatalf("a submodule and a filter: %+v", st.Failing)
	}
	if _, err := os.Stat(evil); err == nil {
		t.Error("a filter of the repository was executed")
	}
	left, err := os.ReadDir(b.y.cfg.Needs.Dir)
	if err != nil || len(left) != 0 {
		t.Errorf("looks have left %v, %v", left, err)
	}
}

// TestOverHTTP reads a repository from a server that requires a password, over the relay. It also checks that
// the egress rules can refuse the server.
func TestOverHTTP(t *testing.T) {
	b := newBench(t)
	b.file("a.yaml", fmt.Sprintf(simple, "a"))
	b.commit()
	core, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(core)), "git-http-backend"), Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(b.repo), "GIT_HTTP_EXPORT_ALL=1"}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch user, password, _ := r.BasicAuth(); {
		case strings.HasPrefix(r.URL.Path, "/moved/"):
			http.Redirect(w, r, strings.TrimPrefix(r.URL.String(), "/moved"), http.StatusMovedPermanently)
		case user != "git" || password != "pass-TOKEN":
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
		default:
			backend.ServeHTTP(w, r)
		}
	}))
	defer srv.Close()
	b.source(fmt.Sprintf(`{"url":"%s/repo/.git"}`, srv.URL))
	if st := b.sync(); st.Failing == nil || st.Failing.Commit != "" {
		t.Fatalf("without a password: %+v", st)
	}
	b.source(fmt.Sprintf(`{"url":"%s/repo/.git","user":"git","password_secret":"TOKEN"}`, srv.URL))
	if st := b.sync(); st.Failing != nil || len(b.apply.sets) != 1 {
		t.Fatalf("%+v", st.Failing)
	}
	b.source(fmt.Sprintf(`{"url":"%s/moved/repo/.git","user":"git","password_secret":"TOKEN"}`, srv.URL))
	if st := b.sync(); st.Failing == nil || strings.Contains(st.Failing.Why, "pass-TOKEN") {
		t.Fatalf("a redirect: %+v", st.Failing)
	}
	b.source(fmt.Sprintf(`{"url":"%s/repo/.git","user":"git","password_secret":"TOKEN"}`, srv.URL))
	b.y.cfg.Needs.Rules = onlyPublic
	if st := b.sync(); st.Failing == nil || !strings.Contains(st.Failing.Why, "the egress of namespace shop is public") {
		t.Fatalf("against the rules: %+v", st.Failing)
	}
	b.y.cfg.Needs.Rules = func(context.Context, string) (egress.Rules, error) {
		return egress.Rules{Policies: []string{egress.Any}}, errors.New("the store is away")
	}
	if st := b.sync(); st.Failing == nil || st.Failing.Why != "the store is away" {
		t.Fatalf("without rules: %+v", st.Failing)
	}
}

// onlyPublic returns the rules of a namespace whose policy is public.
func onlyPublic(_ context.Context, namespace string) (egress.Rules, error) {
	return egress.Rules{Policies: []string{egress.Any}}.Under(namespace, egress.Public), nil
}

// TestHangingServer: a server that does not answer delays no other source, and its look ends with its
// context.
func TestHangingServer(t *testing.T) {
	b := newBench(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	called := make(chan struct{}, 10)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			called <- struct{}{}
		}
	}()
	b.file("a.yaml", fmt.Sprintf(simple, "a"))
	b.commit()
	b.source(b.local())
	if _, err := b.store.PutGitSource(b.ctx, store.GitSource{Namespace: "shop", Name: "hang", Version: 1, Spec: []byte(`{"url":"http://` + ln.Addr().String() + `/x.git"}`)}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.ctx)
	var calls sync.WaitGroup
	for range looksMax + 1 {
		calls.Go(func() { _, _, _ = b.y.Sync(ctx, "shop", "hang") })
	}
	<-called
	if st := b.sync(); st.Failing != nil {
		t.Fatalf("%+v", st.Failing)
	}
	stop()
	calls.Wait()
	left, err := os.ReadDir(b.y.cfg.Needs.Dir)
	if err != nil || len(left) != 0 {
		t.Errorf("looks have left %v, %v", left, err)
	}
}

// TestHangUp: if a caller hangs up while a commit is applied, the commit is still recorded.
func TestHangUp(t *testing.T) {
	b := newBench(t)
	b.file("a.yaml", fmt.Sprintf(simple, "a"))
	commit := b.commit()
	b.source(b.local())
	ctx, hangUp := context.WithCancel(b.ctx)
	b.apply.during = hangUp
	_, _, _ = b.y.Sync(ctx, "shop", "flows")
	if g, err := b.store.GitSourceOf(b.ctx, "shop", "flows"); err != nil || len(b.apply.sets) != 1 || ReadState(g.State).Applied != commit {
		t.Errorf("%v, %d sets, %s", err, len(b.apply.sets), g.State)
	}
}

// TestLongPaths: paths that would make the index of the archive large are refused.
func TestLongPaths(t *testing.T) {
	b := newBench(t)
	b.file("a.yaml", fmt.Sprintf(simple, "a"))
	b.file(strings.Repeat("d/", levelsMax+1)+"x", "")
	b.commit()
	b.source(b.local())
	if st := b.sync(); st.Failing == nil || !strings.Contains(st.Failing.Why, "a path with more than") {
		t.Errorf("%+v", st.Failing)
	}
}

// TestTurns checks that a repository is read when that is due, and only on the node that owns the shard. The
// state of an older version of the source is not written.
func TestTurns(t *testing.T) {
	b := newBench(t)
	b.file("a.yaml", fmt.Sprintf(simple, "a"))
	b.commit()
	b.source(b.local())
	clock := time.Now()
	b.y.now = func() time.Time { return clock }
	is := func() (store.GitSource, State) {
		g, err := b.store.GitSourceOf(b.ctx, "shop", "flows")
		if err != nil {
			t.Fatal(err)
		}
		return g, ReadState(g.State)
	}
	begins := func() bool {
		g, st := is()
		return b.y.begin(&g, &st) != nil
	}
	if !begins() || begins() {
		t.Fatal("a new source is looked at once")
	}
	b.y.looks = map[key]*turn{}
	b.sync()
	if begins() {
		t.Fatal("a look was due before its time")
	}
	if err := b.store.DropGitSource(b.ctx, "shop", "flows"); err != nil {
		t.Fatal(err)
	}
	if b.source(b.local()); !begins() {
		t.Fatal("a source that was made again, with the version that it had, is looked at at once")
	}
	b.y.looks = map[key]*turn{}
	b.sync()
	if clock = clock.Add(time.Minute); !begins() {
		t.Fatal("no look was due after a minute")
	}
	b.owns = false
	var elsewhere *errkind.Elsewhere
	if _, _, err := b.y.Sync(b.ctx, "shop", "flows"); !errors.As(err, &elsewhere) {
		t.Fatalf("on another node: %v", err)
	}
	b.owns = true
	old, _ := is()
	b.source(b.local())
	if _, _, err := b.y.look(b.ctx, &old, now); !errors.Is(err, store.ErrFenced) {
		t.Fatalf("the state of an older version: %v", err)
	}
	b.apply.err = &errkind.Elsewhere{}
	g, before := is()
	if _, _, err := b.y.look(b.ctx, &g, now); !errors.As(err, &elsewhere) {
		t.Fatalf("a lost shard: %v", err)
	}
	if _, st := is(); st.LookedAt != before.LookedAt {
		t.Error("a node that lost the shard has written the state")
	}
}

func TestSpec(t *testing.T) {
	for spec, good := range map[string]bool{
		`{"url":"https://example.com/a.git"}`:                                           true,
		`{"url":"git@example.com:a/b.git","key_secret":"K","known_hosts":"x"}`:          true,
		`{"url":"ssh://git@example.com:2222/a.git","key_secret":"K","known_hosts":"x"}`: true,
		`{"url":"git@example.com:a/b.git"}`:                                             false,
		`{"url":"git@example.com:a/b.git","key_secret":"K"}`:                            false,
		`{"url":"https://u:p@example.com/a.git"}`:                                       false,
		`{"url":"https://example.com/a.git","user":"u"}`:                                false,
		`{"url":"ext::sh -c x"}`:                                                        false,
		`{"url":"ext::sh"}`:                                                             false,
		`{"url":"git://example.com/a.git"}`:                                             false,
		`{"url":"--upload-pack=x"}`:                                                     false,
		`{"url":"ssh://-oProxyCommand=x/a"}`:                                            false,
		`{"url":"FILE:///a/b"}`:                                                         false,
		`{"url":"file:///a/../b"}`:                                                      false,
		`{"url":"https://example.com/a.git","folder":"../x"}`:                           false,
		`{"url":"https://example.com/a.git","folder":"/x"}`:                             false,
		`{"url":"https://example.com/a.git","branch":"-x"}`:                             false,
		`{"url":"https://example.com/a.git","branch":"a..b"}`:                           false,
		`{"url":"https://example.com/a.git","branch":"a","tag":"b"}`:                    false,
		`{"url":"https://example.com/a.git","every":"1s"}`:                              false,
		`{"url":"https://example.com/a.git","removed":"burn"}`:                          false,
		`{"url":"https://example.com/a.git","colour":"red"}`:                            false,
		`{"url":""}`: false,
	} {
		if _, err := Parse([]byte(spec)); (err == nil) != good {
			t.Errorf("%s: %v", spec, err)
		}
	}
}

// secretsOf returns secrets by their names.
func secretsOf(all map[string]string) func(context.Context, string, string) (string, error) {
	return func(_ context.Context, _, name string) (string, error) { return all["pass-"+name], nil }
}

// TestPointers: a pointer of Git LFS in place of a workflow file, or of a file that a workflow names, is a
// fault, and its text names the remedy. Other pointers do not matter.
func TestPointers(t *testing.T) {
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"
	files := fstest.MapFS{
		"a.yaml":        {Data: []byte("name: a\nfiles: [model.bin]\ntasks: {a: {run: 'true'}}\n")},
		"model.bin":     {Data: []byte(pointer)},
		"deep/big.yaml": {Data: []byte(pointer)},
		"other.bin":     {Data: []byte(pointer)},
		"b.yaml":        {Data: []byte(fmt.Sprintf(simple, "b"))},
	}
	_, faults := read(files, workflow.Options{})
	if len(faults) != 2 || faults[0].File != "a.yaml" || !strings.Contains(faults[0].Message, "model.bin") || faults[1].File != "deep/big.yaml" || !strings.Contains(faults[1].Hint, "git lfs migrate export --include=deep/big.yaml") {
		t.Errorf("%+v", faults)
	}
}

// TestMemoryIsBounded: the processes of git have a limit on their memory, and an error names it.
func TestMemoryIsBounded(t *testing.T) {
	r := &repo{dir: t.TempDir(), mask: mask.NewSet(nil)}
	out, err := r.git(t.Context(), askMax, 100, "-c", "alias.bound=!ulimit -v", "bound")
	if err != nil || strings.TrimSpace(string(out)) != strconv.Itoa(memoryMax>>10) {
		t.Errorf("the limit is %q, %v", out, err)
	}
	_, err = r.git(t.Context(), askMax, 100, "-c", "alias.eat=!echo fatal: Out of memory, malloc failed >&2; exit 128", "eat")
	if err == nil || !strings.Contains(err.Error(), "memory?") {
		t.Errorf("git without memory: %v", err)
	}
}
