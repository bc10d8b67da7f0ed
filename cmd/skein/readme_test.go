//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	skein "skein.dev/skein/sdk"
)

// trailing is the comment after a command in a document.
var trailing = regexp.MustCompile(` {2,}#.*$`)

// commandsOf returns the commands that a document tells its reader to type: the lines of its blocks that
// begin with "$ ".
func commandsOf(text string) (lines []string) {
	within := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			within = !within
		}
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ "); ok && within {
			lines = append(lines, trailing.ReplaceAllString(command, ""))
		}
	}
	return lines
}

// reader types the commands of documents into a shell.
type reader struct {
	*world
	server *process
	used   map[string]bool
}

func newReader(t *testing.T) *reader {
	r := &reader{world: newWorld(t), used: map[string]bool{}}
	r.env = append(r.env, "PATH="+r.dir+":"+os.Getenv("PATH"))
	return r
}

// follow types every command in order. odd has the commands with other expectations: the valid exit codes, or
// -1 for a command that this test replaces or leaves out. After each command it waits for the end of all
// runs.
func (r *reader) follow(lines []string, odd map[string][]int) {
	r.t.Helper()
	for _, line := range lines {
		right, known := odd[line]
		if known {
			r.used[line] = true
		} else {
			right = []int{exitOK}
		}
		if line == "skein dev" || line == "make run" {
			r.server = r.start("dev")
			r.server.ready()
			r.eventually("the examples are loaded", func() bool { return strings.Contains(r.server.log.String(), "Try, in another terminal") })
		}
		if right[0] < 0 {
			continue
		}
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir, cmd.Env, cmd.SysProcAttr = r.dir, r.env, r.command().SysProcAttr
		o := r.call(cmd)
		if !slices.Contains(right, o.code) || strings.Contains(o.err, "panic:") {
			r.t.Errorf("$ %s\nwant exit %d, got %v", line, right, o)
		}
		r.idle()
	}
	for line := range odd {
		if !r.used[line] {
			r.t.Errorf("this test knows a command that the document does not have: %s", line)
		}
	}
}

// idle waits until no run of the server is unfinished.
func (r *reader) idle() {
	if r.server == nil {
		return
	}
	r.eventually("all runs have ended", func() bool {
		for run, err := range r.server.EachRun(r.t.Context(), skein.RunsQuery{State: "active"}) {
			if err != nil {
				r.t.Fatal(err)
			}
			if !run.Ended() {
				return false
			}
		}
		return true
	})
}

// document reads a file of the repository.
func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestGuide types the commands of the guide, as a newcomer does in an empty folder.
func TestGuide(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	r.dir = filepath.Join(r.dir, "first-steps")
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	lines := commandsOf(strings.ReplaceAll(document(t, "docs/guide.md"), "NAME@", "first-steps@"))
	if len(lines) < 8 {
		t.Fatalf("the guide has only these commands: %q", lines)
	}
	r.follow(lines, map[string][]int{
		"skein dev": {-1},
		"go run ./examples/sdk -server http://127.0.0.1:8080": {-1}, // TestSDKExample runs it
	})
	r.verify()
}

// TestReadme types the commands of the README, except those that build, and those that start or call the
// example of a cluster, because other tests such as TestThreeNodes have their own clusters. It also checks
// that the make targets that the README names exist.
func TestReadme(t *testing.T) {
	t.Parallel()
	text, makefile := document(t, "README.md"), "\n"+document(t, "Makefile")
	r := newReader(t)
	_, backup, _ := strings.Cut(text, "```yaml\n")
	backup, _, _ = strings.Cut(backup, "```")
	r.write("backup.yaml", backup)
	lines := commandsOf(text)
	if len(lines) < 20 {
		t.Fatalf("the README has only these commands: %q", lines)
	}
	omitted := []int{-1}
	r.follow(lines, map[string][]int{
		"make run":                                omitted,
		"export PATH=$PWD/bin:$PATH":              omitted,
		"skein run job-center -p fail=t4":         {exitRunFailed},
		"skein import crontab /etc/crontab":       {exitOK, exitNotFound},
		"make build && examples/cluster/start.sh": omitted,
		"export SKEIN_SERVER=http://127.0.0.1:8081,http://127.0.0.1:8082,http://127.0.0.1:8083 PATH=$PWD/bin:$PATH": omitted,
		"skein workflow apply examples/job-center/workflow.yaml && skein run job-center --follow":                   omitted,
		"kill -9 $(pgrep -f 'name n2')": omitted,
	})
	for _, target := range regexp.MustCompile("(?m)(?:^|`|\\$ )make ([a-z-]+)").FindAllStringSubmatch(text, -1) {
		if !strings.Contains(makefile, "\n"+target[1]+":") {
			t.Errorf("the README names make %s, and the Makefile has no such target", target[1])
		}
	}
	r.server.stop()
	r.verify()
}
