//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"skein.dev/skein/internal/dag"
)

// TestRestoredWhileItRuns restores a backup after kill -9 of the server, while its keeper holds attempts, and
// again after the keeper has ended them. The backup knows one attempt, and the other was assigned after the
// backup. Both attempts end, none of their results is accepted, and their tasks begin again under unused
// tokens.
func TestRestoredWhileItRuns(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]string{"within the lease": "10m", "after the lease": "1s"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			args := []string{"--slots", "1", "--lease", lease}
			p := w.server(args...)
			for _, wf := range []string{"first", "second"} {
				p.apply(wf, fmt.Sprintf(`
  a: {run: "echo $$ > %[1]s/%[2]s.pid; echo $SKEIN_TOKEN >> %[1]s/%[2]s.begun; until [ -e %[1]s/%[2]s.gate ]; do sleep 0.05; done; echo by=$SKEIN_TOKEN >> $SKEIN_OUTPUT"}
`, w.dir, wf))
			}
			first := p.begin("first", nil)
			w.appears("first.begun")
			second := p.begin("second", nil)
			w.skein("db", "backup", "backup.db")
			w.gate("first.gate")
			p.wantState(first, "succeeded")
			w.appears("second.begun")
			pid, err := strconv.Atoi(strings.TrimSpace(w.read("second.pid")))
			if err != nil {
				t.Fatal(err)
			}
			p.kill()
			gone := func() bool { return syscall.Kill(pid, 0) != nil }
			if lease == "1s" {
				w.eventually("the keeper has ended the attempt", gone)
			}
			if o := w.skein("db", "restore", "backup.db", "--force"); o.code != 0 {
				t.Fatalf("restore: %d, %s%s", o.code, o.out, o.err)
			}
			if err := os.Remove(filepath.Join(w.dir, "second.begun")); err != nil {
				t.Fatal(err)
			}
			p = w.server(args...)
			w.eventually("the attempt of the lost time has ended", gone)
			w.gate("second.gate")
			for _, wf := range []struct{ name, id string }{{"first", first}, {"second", second}} {
				run := p.wantState(wf.id, "succeeded")
				last := run.Tasks[0].Attempts[len(run.Tasks[0].Attempts)-1]
				if last.Token <= dag.TokensOfEra || last.Era != 1 {
					t.Errorf("%s ended under token %d of era %d", wf.name, last.Token, last.Era)
				}
				if got, want := string(run.Tasks[0].Outputs), fmt.Sprintf(`{"by":"%d"}`, last.Token); got != want {
					t.Errorf("%s has the outputs %s, want %s", wf.name, got, want)
				}
			}
			p.stop()
			w.verify()
		})
	}
}
