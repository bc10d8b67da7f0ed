//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"skein.dev/skein/internal/kind/jobtest"
)

// TestClusterJobs: if node and keeper die while a task with spark or hadoop runs, the task still has only one
// application, which the next attempt continues. A stopped run leaves no application, and neither does a
// killed attempt. The servers and programs are doubles; make clusters runs the real ones.
func TestClusterJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := jobtest.New(t)
	w.env = append(w.env, "PATH="+jobtest.Programs(t)+":/usr/bin:/bin", "DOUBLE="+s.URL, "SKEIN_PASS_ENV=DOUBLE")
	p := w.server("--lease", "3s")
	p.apply("jobs", strings.ReplaceAll(`
  yarn: {spark: {master: yarn, main: agg.jar, class: x.Agg, resource_manager: "URL"}}
  master: {spark: {master: "spark://127.0.0.1:7077", main: /srv/agg.jar, class: x.Agg, rest: "URL"}}
  mr: {hadoop: {jar: wordcount.jar, resource_manager: "URL"}}
  told: {needs: [yarn, master, mr], run: 'echo "$ID"', env: {ID: "${{ tasks.mr.outputs.application_id }}"}}
`, "URL", s.URL))
	states := func(is string) (n int) {
		for _, j := range s.Jobs() {
			if j.State == is {
				n++
			}
		}
		return n
	}
	handles := func(run string, token int64) bool {
		tasks := map[string]bool{}
		for e, err := range p.EachEvent(t.Context(), run) {
			if err != nil {
				return false
			}
			if e.Kind == "handle" && deref(e.Token) == token {
				tasks[deref(e.Task)] = true
			}
		}
		return len(tasks) == 3
	}
	run := p.begin("jobs", nil)
	w.eventually("the applications run and have handles", func() bool { return states("RUNNING") == 3 && handles(run, 1) })
	p.crash()
	p = w.server("--lease", "3s")
	w.eventually("the next attempts go on with them", func() bool { return handles(run, 2) })
	if n := len(s.Jobs()); n != 3 {
		t.Errorf("%d applications: %+v", n, s.Jobs())
	}
	s.Finish("SUCCEEDED")
	p.wantState(run, "succeeded")
	if log := p.logOf(run, "told", 1); !strings.HasPrefix(log, "application_") {
		t.Errorf("%q", log)
	}
	run = p.begin("jobs", nil)
	w.eventually("the applications of the next run have handles", func() bool { return states("RUNNING") == 3 && handles(run, 1) })
	if o := w.skein("run", "stop", run); o.code != exitOK {
		t.Error(o)
	}
	p.wantState(run, "stopped")
	if states("KILLED") != 3 || states("RUNNING") != 0 {
		t.Errorf("%+v", s.Jobs())
	}
	run = p.begin("jobs", nil)
	w.eventually("the applications of the last run have handles", func() bool { return states("RUNNING") == 3 && handles(run, 1) })
	for _, name := range []string{"spark", "hadoop"} {
		for _, pid := range processesWith("skein\x00kind\x00" + name) {
			if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err == nil && bytes.Contains(env, []byte(w.data)) {
				_ = syscall.Kill(pid, syscall.SIGKILL) // so the attempts cannot end their applications
			}
		}
	}
	p.wantState(run, "failed")
	if states("KILLED") != 6 || states("RUNNING") != 0 {
		t.Errorf("%+v", s.Jobs())
	}
}
