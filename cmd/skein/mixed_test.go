//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
)

// older returns the path of a program that knows one format less. It is built from these sources, because the
// sources of a release may be missing where the tests run. So it differs from this program in the format that
// it claims to know, and in the rows that it writes, but not in how it reads rows. SKEIN_OLDER names a
// program of an earlier release to use instead.
func older(t *testing.T, knows int) string {
	t.Helper()
	if is := os.Getenv("SKEIN_OLDER"); is != "" {
		return is
	}
	program := filepath.Join(t.TempDir(), "skein")
	flag := fmt.Sprintf("-X skein.dev/skein/internal/store/postgres.claims=%d", knows)
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", flag, "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}

// TestMixedVersions: a node of a version that knows one format less and a node of this version work on one
// database. Runs continue while their shards move from each node to the other. The older node may be
// restarted. When it has left, the format of the database rises, and the older node is refused.
func TestMixedVersions(t *testing.T) {
	t.Parallel()
	// No step of this test waits until a silent process is declared dead.
	env := []string{"SKEIN_SLOTS=8", "SKEIN_LAG=60s", "SKEIN_LEASE=45s"}
	f := newFlight(t, 0, env...)
	seen, err := postgres.Inspect(t.Context(), postgres.Options{URL: f.db})
	if err != nil {
		t.Fatal(err)
	}
	n := seen.Known
	format := func() string {
		out, err := f.query("select format from skein.meta")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := &member{home: newHome(t), name: "before"}
	before.home.bin = older(t, n-1)
	before.home.env = append([]string{"SKEIN_DB=" + f.db, "SKEIN_NAME=before", "SKEIN_HEARTBEAT=500ms", "SKEIN_DRAIN=30s"}, env...)
	f.secure(byProgram(before.home)) // this program would make a database that the older one refuses
	before.home.doors = f.doors
	f.members = append(f.members, before)
	before.start()
	had := format()
	if at, err := strconv.Atoi(had); err != nil || at >= n || os.Getenv("SKEIN_OLDER") == "" && at != n-1 {
		t.Fatalf("the older program has made a database of format %s, this one knows %d", had, n)
	}
	p := f.place()
	const stages = 4
	text := ""
	for i := range stages {
		text += fmt.Sprintf("  s%[1]d: {run: \"echo $SKEIN_TOKEN >> %[2]s/ran-$SKEIN_RUN_ID-%[1]d; until [ -e %[2]s/go%[1]d ]; do sleep 0.05; done\"%[3]s}\n", i, p.dir,
			map[bool]string{true: fmt.Sprintf(", needs: s%d", i-1)}[i > 0])
	}
	var ids []string
	for i := range 6 {
		name := fmt.Sprint("w", i)
		before.apply(name, text)
		ids = append(ids, before.detach(name))
	}
	reach := func(stage int) {
		t.Helper()
		f.until(fmt.Sprint("all runs are at stage ", stage), func() bool {
			at, _ := filepath.Glob(filepath.Join(p.dir, fmt.Sprintf("ran-*-%d", stage)))
			return len(at) == len(ids)
		})
	}
	reach(0)
	now := f.add()
	f.listed(2)
	f.own(map[string]int{"before": 16, now.name: 16})
	if is := format(); is != had {
		t.Errorf("format %s beside a node that knows %s", is, had)
	}
	p.open("go0")
	reach(1)
	before.home.run("node", "cordon", "before")
	f.own(map[string]int{now.name: 32, "before": 0})
	p.open("go1")
	reach(2)
	before.home.run("node", "uncordon", "before")
	now.home.run("node", "cordon", now.name)
	f.own(map[string]int{now.name: 0, "before": 32})
	before.kill() // the older node can be restarted, although the newer one has added rows
	before.start()
	f.own(map[string]int{now.name: 0, "before": 32})
	p.open("go2")
	reach(3)
	now.home.run("node", "uncordon", now.name)
	p.open("go3")
	for _, id := range ids {
		f.until("the run ends", func() bool { return now.state(id) == "succeeded" })
		for i := range stages {
			if a := before.attempts(id, fmt.Sprint("s", i)); len(a) != 1 {
				t.Errorf("%s s%d has the attempts %+v", id, i, a)
			}
		}
	}
	if out := now.home.run("verify"); !bytes.Contains(out, []byte(`"violations": []`)) {
		t.Errorf("verify: %s", out)
	}
	if is := format(); is != had {
		t.Errorf("format %s beside a node that knows %s", is, had)
	}
	if out := string(now.home.run("db", "status")); !strings.Contains(out, "it rises when all nodes know more") {
		t.Errorf("db status: %s", out)
	}
	before.stop()
	f.until("the format rises", func() bool { return format() == strconv.Itoa(n) })
	out, err := before.home.cmd(append([]string{"server"}, f.doors.args(store.TokenNode)...)...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "use a newer skein") {
		t.Errorf("the older one starts: %v\n%s", err, out)
	}
	now.stop()
}
