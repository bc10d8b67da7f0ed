//go:build linux

package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// half holds the incomplete uploads in a node's data folder.
func (m *member) half() []string {
	found, _ := filepath.Glob(filepath.Join(m.home.data(), "artifacts", "*", "*", "*", ".new-*"))
	return found
}

// TestArtifactsOfWorkers: the artifacts of a task on a worker are stored at its home, completely, and can be
// read through any node. If the worker dies during an upload, the next process uploads the artifact under the
// same token. If the home dies, another node gets the artifact. No incomplete upload is left. The artifacts
// that a node stored itself are gone with the node, and the error says so.
func TestArtifactsOfWorkers(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 2, "SKEIN_ROLES=api,scheduler", "SKEIN_LAG=10s")
	one, two := f.members[0], f.members[1]
	f.own(map[string]int{"n1": 16, "n2": 16})
	w := f.worker("w1", "--slots", "2", "--lease", "7s")
	f.listed(3)
	home := func() (is, other *member) {
		t.Helper()
		at := f.row("home", "w1")
		if at == f.row("handler", "n1") {
			return one, two
		}
		return two, one
	}

	one.apply("small", "  a: {run: 'mkdir -p out; seq 300000 > out/numbers; : > out/empty; echo x > other', artifacts: ['out/*']}\n  none: {run: 'true', artifacts: ['nothing*']}\n")
	id := one.detach("small")
	one.home.run("run", "watch", id)
	want, err := exec.Command("seq", "300000").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range f.members {
		if got := m.home.run("task", "artifacts", "get", id+"/a", "out/numbers"); !bytes.Equal(got, want) {
			t.Errorf("by way of %s: %.100q", m.name, got)
		}
		if list := string(m.home.run("task", "artifacts", id+"/a")); !strings.HasPrefix(list, "out/empty\t0\t") || !strings.Contains(list, "\nout/numbers\t1988895\t") {
			t.Errorf("by way of %s: %q", m.name, list)
		}
	}
	f.until("the worker keeps nothing of it", func() bool {
		left, _ := filepath.Glob(filepath.Join(w.home.data(), "outgoing", "artifacts", "*", "*", "*"))
		return len(left) == 0
	})

	const size = 96 << 20
	one.apply("large", fmt.Sprintf("  a: {run: 'head -c %d /dev/zero > zeros; echo end >> zeros', artifacts: [zeros]}\n", size))
	sum := sha256.Sum256(append(make([]byte, size), "end\n"...))
	// brought waits until the run has succeeded, and compares its artifact and its number of attempts.
	brought := func(id string, attempts int) {
		t.Helper()
		f.until("the run ends", func() bool { return one.state(id) == "succeeded" })
		if a := one.attempts(id, "a"); len(a) != attempts {
			t.Errorf("attempts: %+v", a)
		}
		if list := string(one.home.run("task", "artifacts", id+"/a")); !strings.Contains(list, fmt.Sprintf("%x", sum)) {
			t.Errorf("%q, want the sum %x", list, sum)
		}
		for _, m := range f.members {
			f.until("nothing half is left", func() bool { return len(m.half()) == 0 })
		}
	}
	id = one.detach("large")
	at, _ := home()
	at.home.until("it is being brought", func() bool { return len(at.half()) > 0 || at.state(id) == "succeeded" })
	w.kill()
	f.until("its keeper, which runs nothing, has gone", func() bool { return keeperOf(w.home.data()) == 0 })
	w.start()
	brought(id, 1)

	id = one.detach("large")
	at, other := home()
	at.home.until("it is being brought", func() bool { return len(at.half()) > 0 || at.state(id) == "succeeded" })
	at.kill()
	f.until("the run ends", func() bool { return other.state(id) == "succeeded" })
	if list := string(other.home.run("task", "artifacts", id+"/a")); !strings.Contains(list, fmt.Sprintf("%x", sum)) {
		t.Errorf("%q, want the sum %x", list, sum)
	}
	if left := other.half(); len(left) > 0 {
		t.Errorf("half: %v", left)
	}
	w.stop()
	if _, err := os.Stat(filepath.Join(w.home.data(), "outgoing", "artifacts")); err == nil {
		left, _ := filepath.Glob(filepath.Join(w.home.data(), "outgoing", "artifacts", "*", "*", "*"))
		if len(left) > 0 {
			t.Errorf("the worker has kept %v", left)
		}
	}
	other.stop()
}

// TestInputsOfWorkers: a task on a worker gets the artifacts of a task on another worker, and of a task on a
// node, whichever nodes store the files. If its home dies meanwhile, no attempt and no file is lost.
func TestInputsOfWorkers(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 2, "SKEIN_LAG=10s")
	one, two := f.members[0], f.members[1]
	f.own(map[string]int{"n1": 16, "n2": 16})
	f.worker("w1", "--slots", "1")
	w := f.worker("w2", "--slots", "1", "--lease", "7s")
	f.listed(4)
	const size = 24 << 20
	p := f.place()
	one.apply("flow", fmt.Sprintf(`
  n1: {node: n1, run: 'echo of n1 > first', artifacts: [first]}
  n2: {node: n2, run: 'echo of n2 > second', artifacts: [second]}
  big: {node: w1, run: 'head -c %d /dev/zero > zeros; echo end >> zeros', artifacts: [zeros], needs: [n1, n2]}
  hold: {node: w2, needs: big, run: 'touch %[2]s/at; until [ -e %[2]s/go ]; do sleep 0.05; done'}
  use:
    needs: [hold]
    node: w2
    inputs: {a: n1/first, d/b: n2/second, big: big/zeros}
    run: 'cat a d/b; tail -c 4 big; sha256sum < big'
  local: {needs: use, node: n2, inputs: {a: n1/first, big: big/zeros}, run: 'cat a; sha256sum < big'}
`, size, p.dir))
	sum := fmt.Sprintf("%x", sha256.Sum256(append(make([]byte, size), "end\n"...)))
	id := one.detach("flow")
	p.appears("at")
	p.open("go")
	at, other := one, two
	if f.row("home", "w2") == f.row("handler", "n2") {
		at, other = two, one
	}
	incoming := func() int {
		left, _ := filepath.Glob(filepath.Join(w.home.data(), "incoming", "artifacts", "*", "*", "*", "*"))
		return len(left)
	}
	f.until("the run ends", func() bool { return other.state(id) == "succeeded" })
	for task, said := range map[string]string{"use": "of n1\nof n2\nend\n" + sum, "local": "of n1\n" + sum} {
		f.until("what it got is in the log of "+task, func() bool { return strings.HasPrefix(one.printed(id, task), said) })
	}
	if n := incoming(); n > 0 {
		t.Errorf("%d attempts' files are left with the worker", n)
	}

	// The files of a node are gone with the node, unless the nodes share a folder. Files on the other node arrive
	// through another home.
	keeper := other.name
	one.apply("again", fmt.Sprintf(`
  big: {node: %s, run: 'head -c %d /dev/zero > zeros; echo end >> zeros', artifacts: [zeros]}
  hold: {node: w2, needs: big, run: 'touch %[3]s/at2; until [ -e %[3]s/go2 ]; do sleep 0.05; done'}
  use: {node: w2, needs: hold, inputs: {a/big: big/zeros}, run: 'sha256sum < a/big'}
`, keeper, size, p.dir))
	id = other.detach("again")
	p.appears("at2")
	p.open("go2")
	at.home.until("it is being fetched, or was", func() bool { return incoming() > 0 || other.state(id) == "succeeded" })
	at.kill()
	f.until("the run ends", func() bool { return other.state(id) == "succeeded" })
	if a := other.attempts(id, "use"); len(a) != 1 {
		t.Errorf("attempts: %+v", a)
	}
	f.until("what it got is in the log", func() bool { return strings.HasPrefix(other.printed(id, "use"), sum) })
}
