//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "skein.dev/skein/sdk/api/v1"
)

// TestNoRoomForAttempts: a node and a worker whose disks are full accept no tasks, and report this. Attempts
// that they got meanwhile are lost, not failed, and run elsewhere. Tasks that only they may run wait until
// there is room again.
func TestNoRoomForAttempts(t *testing.T) {
	t.Parallel()
	if why := mountSmall(t, filepath.Join(t.TempDir(), "try"), 1<<20); why != nil {
		t.Skipf("a small disk cannot be mounted here: %v", why)
	}
	f := newFlight(t, 1, "SKEIN_SLOTS=2")
	f.disk = 8 << 20
	n2 := f.add()
	w := f.worker("w1", "--slots", "8")
	f.listed(3)
	k := f.members[0].client
	var many strings.Builder
	many.WriteString("name: many\ntasks:\n")
	for i := range 40 {
		fmt.Fprintf(&many, "  t%02d: {run: {sh: 'exit 0'}}\n", i)
	}
	for name, text := range map[string]string{"many": many.String(),
		"there": "name: there\ntasks:\n  a: {node: n2, run: {sh: 'exit 0'}}\n  b: {node: w1, run: {sh: 'exit 0'}}\n"} {
		if _, err := k.Apply(t.Context(), name, api.ApplyRequest{Source: text}); err != nil {
			t.Fatal(err)
		}
	}
	start := func(workflow string) string {
		run, _, err := k.Start(t.Context(), api.RunRequest{Workflow: workflow})
		if err != nil {
			t.Fatal(err)
		}
		return run.ID
	}
	succeeds := func(id string) {
		t.Helper()
		f.until("the run ends", func() bool {
			run, err := k.Run(t.Context(), id)
			if err == nil && run.Ended() && run.State != "succeeded" {
				t.Fatalf("it is %s: %s", run.State, f.members[0].home.run("run", "get", id, "-o", "json"))
			}
			return err == nil && run.Ended()
		})
	}
	state := func(name, want string) {
		t.Helper()
		f.until(name+" is "+want, func() bool {
			n, err := k.Node(t.Context(), name)
			return err == nil && n.State == want
		})
	}
	ballasts := []string{fill(t, n2.home.data()), fill(t, w.home.data())}
	succeeds(start("many"))
	state("n2", "full")
	state("w1", "full")
	succeeds(start("many"))
	waits := start("there")
	f.until("it is said why they wait", func() bool {
		return strings.Contains(string(f.members[0].home.run("explain", waits)), "has no room on its disk")
	})
	res, err := n2.get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if !strings.Contains(string(text), "skein_disk_full 1") {
		t.Error("no metric says that the disk is full")
	}
	for _, ballast := range ballasts {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
	succeeds(waits)
	state("n2", "active")
	state("w1", "active")
	if out, err := f.query("select count(*) from skein.attempt where cause in ('start', 'poison')"); err != nil || out != "0" {
		t.Errorf("%s attempts failed for want of room, %v", out, err)
	}
}

// TestCommandsWithoutRoom: if the disk of the data folder has no room, the error of a command says so, and
// says what to do.
func TestCommandsWithoutRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	small := filepath.Join(w.dir, "small")
	if why := mountSmall(t, small, 4<<20); why != nil {
		t.Skipf("a small disk cannot be mounted here: %v", why)
	}
	w.data = filepath.Join(small, "data")
	w.env = append(w.env, "SKEIN_DATA="+w.data)
	t.Cleanup(func() { endKeeper(t, w.data) })
	valid := w.workflow("valid", "  a: {run: 'true'}\n")
	w.refused(exitOK, nil, "run", valid)
	fill(t, small)
	for _, verb := range [][]string{{"server"}, {"dev"}, {"run", valid}} {
		w.refused(exitError, []string{"data folder " + w.data, "no space left on device", "make room"}, verb...)
	}
	w.refused(exitError, []string{"database " + w.data, "the disk is full; make room"}, "status")
	if o := w.skein("doctor"); !strings.Contains(o.out+o.err, "make room on the disk of the database") || strings.Contains(o.out+o.err, "restore a backup") {
		t.Errorf("doctor proposes something else: %v", o)
	}
}
