//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestGitOfKilledNodes: a node is killed at any time of a sync, several times. At every time, all workflows
// come from the same commit, and the last node applies the newest commit without a request. A run keeps the
// files of its version.
func TestGitOfKilledNodes(t *testing.T) {
	t.Parallel()
	const flows, rounds = 4, 4
	w := newWorld(t)
	repo := filepath.Join(w.dir, "repo")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=ann", "-c", "user.email=a@example.com"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	if err := os.MkdirAll(filepath.Join(repo, "lib"), 0o777); err != nil {
		t.Fatal(err)
	}
	commit := func(n int) {
		t.Helper()
		w.write("repo/lib/says.sh", fmt.Sprintf("echo commit %d\n", n))
		for i := range flows {
			w.write(fmt.Sprintf("repo/f%d.yaml", i), fmt.Sprintf("name: f%d\ntags: {commit: \"%d\"}\nfiles: [lib/*]\ntasks: {a: {run: {file: lib/says.sh}}}\n", i, n))
		}
		git("add", "-A")
		git("commit", "-q", "-m", fmt.Sprint("commit ", n))
	}
	git("init", "-q", "-b", "main")
	commit(0)
	// whole returns the number of the commit in force, and fails if the workflows come from several commits.
	whole := func(p *process) int {
		t.Helper()
		page, err := p.Workflows(t.Context(), "default", "", 100) // one read, because a commit may come between two reads
		if err != nil {
			t.Fatal(err)
		}
		is := map[string]bool{}
		for i := range flows {
			at := slices.IndexFunc(page.Items, func(f api.Workflow) bool { return f.Name == fmt.Sprintf("f%d", i) })
			if at < 0 {
				is["none"] = true
				continue
			}
			is["commit "+page.Items[at].Tags["commit"]] = true
		}
		if len(is) != 1 {
			t.Fatalf("the workflows are of several commits: %v", is)
		}
		n := -1
		for text := range is {
			_, _ = fmt.Sscanf(text, "commit %d", &n)
		}
		return n
	}
	for round := range rounds {
		p := w.server()
		whole(p)
		if round == 0 {
			if _, err := skein.NewGitSources(p.Client).Set(t.Context(), "default", "flows", api.GitSourceRequest{URL: "file://" + repo, Every: "10s"}); err != nil {
				t.Fatal(err)
			}
		}
		commit(round + 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = skein.NewGitSources(p.Client).Sync(t.Context(), "default", "flows") // the node is killed
		}()
		time.Sleep(time.Duration(round) * 25 * time.Millisecond)
		p.kill()
		<-done
	}
	p := w.server()
	p.eventually("the newest commit is in force", func() bool { return whole(p) == rounds })
	run := p.begin("f0", nil)
	p.ends(run)
	if log := p.logOf(run, "a", 1); strings.TrimSpace(log) != fmt.Sprint("commit ", rounds) {
		t.Errorf("the script of the commit says %q", log)
	}
	if o := w.skein("git", "add", "other", "--url", "file://"+repo, "--adopt", "--plan"); o.code != exitOK || !strings.Contains(o.out, "f3.yaml") {
		t.Error(o)
	}
	if o := w.skein("git", "list"); o.code != exitOK || strings.Contains(o.out, "other") {
		t.Error(o)
	}
	w.write("repo/f1.yaml", "name: f1\ntasks: {a: {rum: x}}\n")
	git("commit", "-q", "-a", "-m", "wrong")
	if o := w.skein("git", "sync", "flows"); o.code != exitInvalid || !strings.Contains(o.err, "f1.yaml:2:") {
		t.Error(o)
	}
	if o := w.skein("git", "list"); o.code != exitOK || !strings.Contains(o.out, "refused") {
		t.Error(o)
	}
	if n := whole(p); n != rounds {
		t.Errorf("after a wrong commit, commit %d is in force", n)
	}
}
