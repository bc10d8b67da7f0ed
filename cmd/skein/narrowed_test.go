//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNarrowedRulesInCluster raises the level of a namespace at one node while another node owns the run,
// and a third one executes its tasks. When the command ends, no task begins at the earlier level.
func TestNarrowedRulesInCluster(t *testing.T) {
	t.Parallel()
	const tasks = 150
	f := newFlight(t, 3, "SKEIN_ISOLATION=none,fence")
	f.until("every node owns shards", func() bool { return len(f.owners()) == 3 })
	dir := t.TempDir()
	witness := filepath.Join(dir, "witness")
	var text strings.Builder
	for i := range tasks {
		fmt.Fprintf(&text, "  t%d: {node: n2, access: {write: %s}, run: 'grep NoNewPrivs: /proc/self/status >> %s; sleep 0.05'", i, dir, witness)
		if i > 0 {
			fmt.Fprintf(&text, ", needs: t%d", i-1)
		}
		text.WriteString("}\n")
	}
	lines := func() (fenced []bool) {
		all, err := os.ReadFile(witness)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(all)) {
			fenced = append(fenced, strings.Contains(line, "1"))
		}
		return fenced
	}
	first := f.members[0]
	run := ""
	for i := 0; run == ""; i++ {
		name := fmt.Sprint("chain", i)
		first.apply(name, text.String())
		id := first.detach(name)
		owner := ""
		f.until("the run has an owner", func() bool {
			var err error
			owner, err = f.query("select m.name from skein.run r join skein.shard s on s.id = r.shard join skein.member m on m.handler = s.owner where r.id::text = '" + id + "'")
			return err == nil && owner != ""
		})
		if owner == "n3" {
			run = id
			break
		}
		first.home.run("run", "kill", id)
		f.until("the run has ended", func() bool { return first.state(id) != "running" })
		_ = os.Remove(witness)
	}
	f.until("its tasks run", func() bool { return len(lines()) > 5 })
	first.home.run("namespace", "set", "default", "--isolation", "fence")
	before := len(lines()) + 1 // the node may already have the job of one more task
	f.until("the run ends", func() bool { return first.state(run) == "succeeded" })
	all := lines()
	for i, fenced := range all {
		if i >= before && !fenced {
			t.Errorf("task %d of %d began at the level none, after the command had ended with task %d", i, len(all), before)
		}
	}
	if len(all) != tasks || all[0] || !all[len(all)-1] {
		t.Errorf("%d tasks, of which the first has a fence: %v, and the last: %v", len(all), all[0], all[len(all)-1])
	}
}
