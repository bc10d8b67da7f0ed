//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestFencedCluster runs tasks of a cluster of two nodes, a worker and a Go program at the level fence, which
// is the default: outputs, artifacts, foreach, a retry, an attempt that outlives its killed worker, and refused
// files. Each task with a process shows that it has a fence.
func TestFencedCluster(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 2, "SKEIN_ISOLATION=auto", "SKEIN_LAG=30s")
	one, p := f.members[0], f.place()
	w := f.worker("w1", "--slots", "4", "--lease", "30s", "--isolation", "auto")
	f.listed(3)
	f.working(&handlers{}, "gopher")
	strange := filepath.Join(t.TempDir(), "strange")
	if err := os.WriteFile(strange, []byte("not yours\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	one.apply("fenced", fmt.Sprintf(`
  make:
    node: n1
    outputs: {items: json}
    artifacts: ['out/*']
    run: |
      grep NoNewPrivs /proc/self/status
      mkdir out && seq 1000 > out/numbers
      echo 'items=["a","b"]' >> "$SKEIN_OUTPUT"
  each:
    needs: make
    node: w1
    foreach: "${{ tasks.make.outputs.items }}"
    env: {ITEM: "${{ item }}"}
    outputs: {upper: string}
    run: |
      grep NoNewPrivs /proc/self/status
      echo "upper=$(echo "$ITEM" | tr ab AB)" >> "$SKEIN_OUTPUT"
  use:
    node: w1
    needs: [make, each]
    inputs: {in/numbers: make/out/numbers}
    artifacts: [sum]
    env: {LETTERS: "${{ tasks.each.outputs.map(o, o.upper) }}"}
    run: |
      grep NoNewPrivs /proc/self/status
      echo "$LETTERS $(tail -n 1 in/numbers) $(cat "$TMPDIR/none" 2>/dev/null || echo fresh)" > sum
  back:
    needs: use
    node: n2
    inputs: {sum: use/sum}
    run: 'grep NoNewPrivs /proc/self/status; cat sum'
  flaky: {node: w1, labels: {isolation: fence}, retry: {max: 2, delay: 1ms}, run: 'grep NoNewPrivs /proc/self/status; [ "$SKEIN_ATTEMPT" = 2 ]'}
  count: {kind: count, needs: [back, each], with: {n: "${{ size(tasks.each.outputs) }}", deep: []}, outputs: {n: int, f: float, seen: string}}
  held:
    node: w1
    access: {read: %[1]s, write: %[1]s}
    outputs: {held: string}
    run: |
      grep NoNewPrivs /proc/self/status
      touch %[1]s/at; until [ -e %[1]s/go ]; do sleep 0.05; done
      echo held=yes >> "$SKEIN_OUTPUT"
  late: # it is refused a file after its worker was killed
    node: w1
    access: {write: %[1]s}
    run: |
      grep NoNewPrivs /proc/self/status
      touch %[1]s/at-late; until [ -e %[1]s/go ]; do sleep 0.05; done
      cat %[2]s
`, p.dir, strange))
	one.apply("refused", fmt.Sprintf(`
  node: {node: n2, run: 'cat %[1]s'}
  worker: {node: w1, run: 'cat %[1]s'}
  write: {node: w1, run: 'echo x > %[2]s/new'}
  data: {node: w1, run: 'cat %[3]s'}
`, strange, filepath.Dir(strange), filepath.Join(w.home.data(), "work", "keeper.lock")))
	run, refused := one.detach("fenced"), one.detach("refused")
	p.appears("at")
	p.appears("at-late")
	f.task(one.client, run, "count", inState("succeeded"))
	f.until("the run has ended", func() bool { return one.state(refused) == "failed" })
	w.kill()
	w.start()
	p.open("go")
	f.until("the run has ended", func() bool { return one.state(run) == "failed" })

	last := func(run, task string) api.Attempt {
		all := one.attempts(run, task)
		if len(all) == 0 {
			t.Fatalf("%s has no attempt", task)
		}
		return all[len(all)-1]
	}
	for _, task := range []string{"make", "each.0", "each.1", "use", "back", "held", "late", "flaky"} {
		if a, want := one.attempts(run, task), map[bool]int{true: 2, false: 1}[task == "flaky"]; len(a) != want {
			t.Errorf("%s has the attempts %+v", task, a)
		}
		f.printed(one.client, run, task, "NoNewPrivs:\t1\n")
	}
	f.printed(one.client, run, "back", `["A","B"] 1000 fresh`)
	if got, err := skein.Outputs[numbered](t.Context(), one.client, run, "count"); err != nil || got.Seen != "2 [] true" {
		t.Errorf("count: %+v, %v", got, err)
	}
	if got, err := skein.Outputs[struct{ Held string }](t.Context(), one.client, run, "held"); err != nil || got.Held != "yes" {
		t.Errorf("held: %+v, %v", got, err)
	}
	read, write := "access: {read: ["+strange+"]}", "access: {write: ["+filepath.Dir(strange)+"]}"
	for _, is := range []struct{ run, task, line string }{
		{run, "late", read}, {refused, "node", read}, {refused, "worker", read}, {refused, "write", write}, {refused, "data", ""},
	} {
		a := last(is.run, is.task)
		said := ""
		if a.Message != nil {
			said = *a.Message
		}
		if is.line == "" {
			is.line = filepath.Join(w.home.data(), "work", "keeper.lock")
		}
		if a.State != "failed" || !strings.Contains(said, is.line) {
			t.Errorf("%s: %+v, and the message lacks %q", is.task, a, is.line)
		}
	}
	if out := string(one.home.run("verify")); !strings.Contains(out, `"violations": []`) {
		t.Errorf("verify: %s", out)
	}
	w.stop()
}
