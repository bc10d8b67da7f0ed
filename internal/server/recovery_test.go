package server_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	api "skein.dev/skein/sdk/api/v1"
)

// held returns the next attempt that the executor holds.
func (b *bed) held() engine.Assignment {
	b.t.Helper()
	select {
	case a := <-b.exec.got:
		return a
	case <-time.After(time.Minute):
		b.t.Fatal("no attempt was assigned")
	}
	return engine.Assignment{}
}

// TestRecoveryPlan: the plan lists the changes that a recover then makes. If a recover is not possible, the
// plan has the reason.
func TestRecoveryPlan(t *testing.T) {
	b := newBed(t, false)
	b.put("plan", "name: plan\ntasks:\n  a: {run: 'true'}\n  b: {needs: a, queue: gpu, run: 'true'}\n  c: {needs: a, run: 'true'}\n  d: {needs: [b, c], run: 'true'}\n")
	want[api.Queue](t, b.do("PUT", "/api/v1/queues/gpu", `{"limit":2}`), 200)
	run := b.run("plan")
	path := "/api/v1/runs/" + run.ID + "/recovery"
	end := func(n int, fails dag.TaskID) {
		for range n {
			a := b.held()
			r := succeeded()
			if a.Task == fails {
				r = dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, ExitCode: 1}
			}
			b.exec.end(a, r)
		}
	}
	end(1, -1)
	if p := want[api.RecoveryPlan](t, b.get(path), 200); p.Refused == nil || !strings.Contains(*p.Refused, "only a run that has ended") || p.Again != 0 {
		t.Errorf("plan of an active run %+v", p)
	}
	end(2, 1)
	eventually(t, "the end of the run", func() bool { return b.ended(run.ID) })

	names := func(p api.RecoveryPlan) (all []string) {
		for _, task := range p.Tasks {
			all = append(all, task.Name+" "+task.State)
		}
		return all
	}
	p := want[api.RecoveryPlan](t, b.get(path), 200)
	if p.Refused != nil || p.Generation != 2 || p.Again != 2 || p.Kept != 2 || !slices.Equal(names(p), []string{"b failed", "d upstream_failed"}) {
		t.Errorf("plan %+v", p)
	}
	if !slices.Equal(p.Queues, []string{"gpu"}) { // the engine of this test returns no queue and no lock of runs
		t.Errorf("plan takes %v", p.Queues)
	}
	if from := want[api.RecoveryPlan](t, b.get(path+"?from=a"), 200); from.Again != 4 || from.Kept != 0 {
		t.Errorf("plan from a: %+v", from)
	}
	if only := want[api.RecoveryPlan](t, b.get(path+"?from=c&task_only=true"), 200); !slices.Equal(names(only), []string{"c succeeded"}) || only.Kept != 3 {
		t.Errorf("plan of c only: %+v", only)
	}
	if only := want[api.RecoveryPlan](t, b.get(path+"?from=d&task_only=true"), 200); only.Refused == nil || !strings.Contains(*only.Refused, "needs task b") {
		t.Errorf("plan of d only: %+v", only)
	}
	wantProblem(t, b.get(path+"?task_only=true"), 422, api.ProblemInvalid)
	wantProblem(t, b.get(path+"?from=zz"), 404, api.ProblemNotFound)

	want[api.Run](t, b.post("/api/v1/runs/"+run.ID+":recover", ""), 202)
	eventually(t, "the second generation", func() bool {
		r := want[api.Run](t, b.get("/api/v1/runs/"+run.ID), 200)
		return int(r.Generation) == int(p.Generation) && r.Counts["succeeded"] == p.Kept
	})
}

// TestDeadlinesOfRuns: a run has the deadlines from the rules of its workflow, and says whether it has met or
// missed each of them.
func TestDeadlinesOfRuns(t *testing.T) {
	b := newBed(t, false)
	b.put("timely", `name: timely
alerts:
  - {name: two-hours, deadline: {after: 2h}, to: ops, escalate: [{after: 30m, to: oncall}]}
  - {name: at-once, deadline: {after: 1s, for: start}, to: ops}
  - {name: soon, deadline: {after: 5m, from: started, for: end}, to: ops}
  - {name: morning, deadline: {by: "07:30", timezone: Europe/Berlin}, to: ops}
  - {on: slow, than: 2x p95, to: [ops, lead]}
  - {on: slow, than: 45m, to: ops, name: limit}
  - {on: failed, to: ops}
triggers: [{name: nightly, cron: "15 2 * * *", timezone: Europe/Berlin}]
tasks: {a: {run: 'true'}}
`)
	w := want[api.Workflow](t, b.get("/api/v1/workflows/default/timely"), 200)
	if len(w.Alerts) != 7 || w.Alerts[0].Deadline.Seconds != 7200 || w.Alerts[0].Deadline.For != "success" || w.Alerts[0].Escalation[0].Seconds != 1800 ||
		*w.Alerts[3].Deadline.By != "07:30" || w.Alerts[4].Than.Percentile != 95 || w.Alerts[5].Than.Seconds != 2700 || w.Alerts[6].Deadline != nil {
		t.Errorf("rules %+v", w.Alerts)
	}
	run := b.run("timely")
	a := b.held()
	states := func() map[string]string {
		by := map[string]string{}
		for _, d := range want[api.List[api.Deadline]](t, b.get("/api/v1/runs/"+run.ID+"/deadlines"), 200).Items {
			if by[d.Rule] = d.Event + " " + d.Goal + " " + d.State; (d.DueAt == nil) != (d.State == "unknown") {
				t.Errorf("deadline %+v", d)
			}
		}
		return by
	}
	is := states()
	for rule, state := range map[string]string{"two-hours": "late success due", "at-once": "late start met", "soon": "late end due", "slow": "slow end unknown", "limit": "slow end due"} {
		if is[rule] != state {
			t.Errorf("rule %s is %q, want %q", rule, is[rule], state)
		}
	}
	if len(is) != 5 {
		t.Errorf("deadlines %v: a run without an instant has none by a time of day", is)
	}
	b.exec.end(a, dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, ExitCode: 1})
	eventually(t, "the end of the run", func() bool { return b.ended(run.ID) })
	if is = states(); is["two-hours"] != "late success due" || is["soon"] != "late end met" || is["limit"] != "slow end met" {
		t.Errorf("deadlines of a failed run %v", is)
	}

	plain := want[api.NextFires](t, b.get("/api/v1/schedules/next?n=1"), 200).Items
	next := want[api.NextFires](t, b.get("/api/v1/schedules/next?n=1&include=deadlines"), 200).Items
	if len(next) != 1 || plain[0].DueAt != nil || next[0].DueAt == nil || next[0].DueAt.Sub(next[0].Time.Time).String() != "1s" {
		t.Errorf("next fires %+v", next)
	}
}
