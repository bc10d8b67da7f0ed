package bench

import (
	"encoding/json"
	"testing"
)

// TestRun runs every shape once, with a small size, and checks that the output of the benchmark is complete
// and consistent.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	limits, err := Measure(t.Context(), dir, InFolder(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"single", "dag9", "fan:5", "wide:20", "chain:7"} {
		t.Run(name, func(t *testing.T) {
			s, err := ParseShape(name)
			if err != nil {
				t.Fatal(err)
			}
			r, err := load(t.Context(), Config{Shape: s, Runs: 6, Workflows: 4, Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			r = limits.Complete(r)
			if r.WarmUpTasks != r.Tasks {
				t.Errorf("warmed up with %d tasks, want as many as were measured: %d", r.WarmUpTasks, r.Tasks)
			}
			if want := 6 * len(s.Tasks()); r.Tasks != want || r.Runs != 6 {
				t.Errorf("%d tasks of %d runs, want %d of 6", r.Tasks, r.Runs, want)
			}
			// The least number is one insert and one update for each run and each attempt.
			if least := 2 * float64(r.Tasks+r.Runs) / float64(r.Tasks); r.RowsPerTask > 3*least {
				t.Errorf("%.2f rows per task, %.2f would do", r.RowsPerTask, least)
			}
			for what, v := range map[string]float64{"tasks_per_s": r.TasksPerS, "hop_p50_us": r.HopP50US, "hop_p99_us": r.HopP99US,
				"fdatasync_p50_us": r.FdatasyncP50, "raw_rows_per_s": r.RawRowsPerS, "limit_tasks_per_s": r.LimitPerS, "ratio": r.Ratio} {
				if v <= 0 {
					t.Errorf("%s = %v", what, v)
				}
			}
		})
	}
}

// TestWarmUp: the number of tasks that run before the measurement is bounded. With Cold there are none.
func TestWarmUp(t *testing.T) {
	s, err := ParseShape("dag9")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		runs int
		cold bool
		want int
	}{{3, false, 27}, {3, true, 0}, {3000, false, warmUpTasks / 9 * 9}} {
		r, err := load(t.Context(), Config{Shape: s, Runs: c.runs, Cold: c.cold, Dir: t.TempDir()})
		if err != nil || r.WarmUpTasks != c.want || r.Tasks != 9*c.runs {
			t.Errorf("%d runs, cold %v: %d tasks after %d to warm up, %v; want %d after %d",
				c.runs, c.cold, r.Tasks, r.WarmUpTasks, err, 9*c.runs, c.want)
		}
	}
}

// TestResultKeys checks the keys of the JSON object, because programs rely on them.
func TestResultKeys(t *testing.T) {
	line, err := json.Marshal(Result{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"store":"","shape":"","runs":0,"tasks":0,"seconds":0,"tasks_per_s":0,"hop_p50_us":0,"hop_p99_us":0,` +
		`"fdatasync_p50_us":0,"raw_rows_per_s":0,"rows_per_task":0,"limit_tasks_per_s":0,"ratio":0}`
	if string(line) != want {
		t.Errorf("got  %s\nwant %s", line, want)
	}
}

func TestParseShape(t *testing.T) {
	for _, bad := range []string{"", "star", "fan:0", "fan:x", "wide:-1", "single:2", "chain:1000000000"} {
		if s, err := ParseShape(bad); err == nil {
			t.Errorf("%q gave %+v", bad, s)
		}
	}
	for name, want := range map[string]int{"single": 1, "dag9": 9, "fan:100": 102, "fan": 102, "wide:3": 3, "chain:4": 4} {
		s, err := ParseShape(name)
		if err != nil || len(s.Tasks()) != want {
			t.Errorf("%s: %d tasks, %v; want %d", name, len(s.Tasks()), err, want)
		}
	}
}

func TestFloor(t *testing.T) {
	if v, err := Floor(t.Context(), 5, 2, []string{"sh", "-c", "true"}); err != nil || v <= 0 {
		t.Errorf("%v, %v", v, err)
	}
}

// TestAlerts: each group of failures has one message, however many runs of it fail.
func TestAlerts(t *testing.T) {
	s, err := ParseShape("single")
	if err != nil {
		t.Fatal(err)
	}
	r, err := alerting(t.Context(), AlertsConfig{Config: Config{Shape: s, Runs: 40, Workflows: 2, Dir: t.TempDir()}, Failures: 30})
	if err != nil {
		t.Fatal(err)
	}
	if r.Groups != 20 || r.Messages != 20 {
		t.Errorf("%d messages of %d groups, want one of each of 20", r.Messages, r.Groups)
	}
	if r.OffPerS <= 0 || r.OnPerS <= 0 || r.FailuresPerMin <= 0 || r.OnCPUUS <= 0 {
		t.Errorf("%+v", r)
	}
}
