package dag

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"
)

func drawRecord(t *rapid.T) Record {
	r := Record{Kind: RecordKind(rapid.IntRange(1, int(recordKinds)-1).Draw(t, "kind")), Task: TaskID(rapid.Int32Range(-1, math.MaxInt32-1).Draw(t, "task"))}
	r.Token = Token(rapid.Int32Min(0).Draw(t, "token"))
	r.Handler = HandlerID(rapid.Int64Min(0).Draw(t, "handler"))
	r.State = TaskState(rapid.IntRange(0, int(taskStates)-1).Draw(t, "state"))
	if r.Exited = rapid.Bool().Draw(t, "exited"); r.Exited {
		r.ExitCode = rapid.Int32().Draw(t, "code")
	}
	r.Count = rapid.Int32Min(0).Draw(t, "count")
	r.Actor, r.Text, r.Reason = rapid.String().Draw(t, "actor"), rapid.String().Draw(t, "text"), rapid.String().Draw(t, "reason")
	return r
}

func TestPackRecordsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recs := rapid.SliceOfN(rapid.Custom(drawRecord), 0, 5).Draw(t, "records")
		packed := PackRecords(recs)
		back, err := UnpackRecords(packed)
		if err != nil || len(back) != len(recs) {
			t.Fatalf("%v: %v", back, err)
		}
		for i := range recs {
			if back[i] != recs[i] {
				t.Fatalf("%+v came back as %+v", recs[i], back[i])
			}
		}
		for i := range packed { // a shortened list gives an error or fewer records
			if short, err := UnpackRecords(packed[:i]); err == nil && len(short) >= len(recs) {
				t.Fatalf("%d of %d bytes give all records", i, len(packed))
			}
		}
	})
}

func TestPackStatesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		states := rapid.SliceOf(rapid.IntRange(0, int(taskStates)-1)).Draw(t, "states")
		packed := packStates(len(states), func(i TaskID) TaskState { return TaskState(states[i]) })
		next := 0
		err := unpackStates(packed, len(states), func(i TaskID, s TaskState) {
			if int(i) != next || s != TaskState(states[i]) {
				t.Fatalf("task %d: %s", i, s)
			}
			next++
		})
		counts, errCount := CountStates(packed)
		sum := 0
		for _, n := range counts {
			sum += n
		}
		if err != nil || errCount != nil || next != len(states) || sum != len(states) {
			t.Fatalf("%d of %d: %v %v", next, len(states), err, errCount)
		}
	})
}

func FuzzUnpackGraph(f *testing.F) {
	for _, s := range []string{"a", "a; b a; c a b if=always()", "a retry=2 exit=3 delay=1s jitter=0.5; b a if=out(a)=1"} {
		g, err := NewGraph(spec(s))
		must(err)
		f.Add(g.Pack())
	}
	f.Add([]byte{graphFormat, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := UnpackGraph(b, compileCond)
		if err != nil {
			return
		}
		if g.Len() > len(b) || len(g.topo) != g.Len() {
			t.Fatalf("%d tasks, %d in order, of %d bytes", g.Len(), len(g.topo), len(b))
		}
		again, err := UnpackGraph(g.Pack(), compileCond)
		if err != nil || !bytes.Equal(again.Pack(), g.Pack()) {
			t.Fatalf("packed again: %v", err)
		}
		for i := range g.policies {
			g.policies[i].Retry.wait(3, testRun, 1, 1)
		}
	})
}

func FuzzUnpackRecords(f *testing.F) {
	f.Add(PackRecords([]Record{{Kind: RecAssigned, Task: 3, Token: 1, Handler: 9}, {Kind: RecEnded, Exited: true, ExitCode: -1, Text: "exit"}}))
	f.Add([]byte{1, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		recs, err := UnpackRecords(b)
		if err != nil {
			return
		}
		if len(recs) > len(b)/3 {
			t.Fatalf("%d records of %d bytes", len(recs), len(b))
		}
		for _, r := range recs {
			_ = r.Kind.String() + r.State.String()
		}
	})
}

func FuzzUnpackStates(f *testing.F) {
	f.Add([]byte{byte(Succeeded), 100}, uint16(100))
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, uint16(1))
	f.Fuzz(func(t *testing.T, b []byte, n uint16) {
		set := 0
		err := unpackStates(b, int(n), func(id TaskID, s TaskState) {
			if set++; int(id) >= int(n) || s >= taskStates {
				t.Fatalf("task %d: %d", id, s)
			}
		})
		if set > int(n) || err == nil && set != int(n) {
			t.Fatalf("%d of %d set: %v", set, n, err)
		}
		if _, errCount := CountStates(b); err == nil && errCount != nil {
			t.Fatal(errCount)
		}
	})
}

// TestDamagedRows: impossible rows give an error that names the run, and never a panic. So the owner can
// quarantine that run and continue.
func TestDamagedRows(t *testing.T) {
	g, err := NewGraph(spec("a; b a"))
	must(err)
	good := RunRow{Header: Header{ID: testRun}, State: RunRunning, Generation: 1, SplitAt: 1, StartedAt: 1}
	held := AttemptRow{Run: testRun, Task: 0, Token: 1, Generation: 1, Handler: 1, State: AttemptRunning}
	tests := []struct {
		name string
		run  func(*RunRow)
		att  AttemptRow
		g    *Graph
		want string
	}{
		{"no such task", nil, AttemptRow{Task: 2, Token: 1, Generation: 1}, g, "has an attempt of task 2, its graph has 2 tasks"},
		{"negative task", nil, AttemptRow{Task: -7, Token: 1, Generation: 1}, g, "has an attempt of task -7"},
		{"no graph", nil, held, nil, "has no graph"},
		{"final of another graph", func(r *RunRow) { r.State, r.Final = RunFailed, []byte{byte(Failed), 3} }, held, g, "final states of run"},
		{"final not final", func(r *RunRow) { r.State, r.Final = RunFailed, []byte{byte(Assigned), 2} }, held, g, "final states of run"},
		{"kept not final", func(r *RunRow) { r.Base = []byte{byte(Running), 2} }, held, g, "kept states of run"},
		{"kept too few", func(r *RunRow) { r.Base = []byte{byte(Succeeded), 1} }, held, g, "kept states of run"},
		{"priority", func(r *RunRow) { r.Priority = 9 }, held, g, "has priority 9"},
		{"intent", func(r *RunRow) { r.Intent = 9 }, held, g, "intent 9"},
		{"state", func(r *RunRow) { r.State = 99 }, held, g, "state 99"},
		{"generation", func(r *RunRow) { r.Generation = -5 }, held, g, "generation -5"},
		{"attempt of a later generation", nil, AttemptRow{Task: 0, Token: 1, Generation: 2}, g, "has an attempt of generation 2"},
		{"attempt of no generation", nil, AttemptRow{Task: 0, Token: 1}, g, "has an attempt of generation 0"},
		{"Leader work of a running run", nil, AttemptRow{Task: LeaderTask, Token: 1, Generation: 1}, g, "but its Leader work is assigned"},
	}
	for _, tt := range tests {
		row := good
		if tt.run != nil {
			tt.run(&row)
		}
		var fx Effects
		r, err := Load(&row, tt.g, []AttemptRow{tt.att}, Now{Wall: 5}, &fx)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), testRun.String()) {
			t.Errorf("%s: %v, %v", tt.name, r, err)
		}
	}
}

// TestDeriveOfUnsplitRuns: a run that is not split has no tasks yet. A run that ended before its split has
// stopped tasks.
func TestDeriveOfUnsplitRuns(t *testing.T) {
	g, err := NewGraph(spec("a; b a; c if=never()"))
	must(err)
	for state, want := range map[RunState]TaskState{RunSubmitted: Pending, RunSplitting: Pending, RunStopped: Stopped} {
		views, err := Derive(g, &RunRow{State: state}, nil)
		if err != nil || views[0].State != want || views[1].State != want {
			t.Errorf("%s: %v %v", state, views, err)
		}
	}
}

// TestRetryWait: whatever the policy is, the pause before a retry is never negative and never exceeds its
// bound.
func TestRetryWait(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Retry{Delay: time.Duration(rapid.Int64().Draw(t, "delay")), Backoff: rapid.Float64().Draw(t, "backoff"),
			MaxDelay: time.Duration(rapid.Int64Range(-1, 1<<50).Draw(t, "most")), Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter")}
		d := p.wait(rapid.Int32Min(1).Draw(t, "n"), testRun, 1, 1)
		if d < 0 || d > retryWaitMax || p.MaxDelay > 0 && d > p.MaxDelay || d%time.Microsecond != 0 {
			t.Fatalf("%+v waits %s", p, d)
		}
	})
	for _, odd := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, p := range []Retry{{Delay: time.Second, Backoff: odd}, {Delay: time.Second, Jitter: odd}} {
			if d := p.wait(2, testRun, 1, 1); d < 0 || d > retryWaitMax {
				t.Errorf("%+v waits %s", p, d)
			}
		}
	}
}

// TestManyRetries: more retries than 16 bits hold are counted, in memory and after a load.
func TestManyRetries(t *testing.T) {
	g, err := NewGraph(spec("a retry=40000"))
	must(err)
	r := NewRun(Header{ID: testRun})
	now := Now{Wall: 1}
	var fx Effects
	var all []AttemptRow
	r.Step(&Event{Kind: EvSubmit, Graph: g}, now, &fx)
	for !r.State.Terminal() {
		r.Step(&Event{Kind: EvAssign, Task: r.NextReady(), Handler: 1}, now, &fx)
		_, token := r.Task(0)
		r.Step(&Event{Kind: EvReport, Token: token, Handler: 1, Result: Result{State: AttemptFailed}}, now, &fx)
		r.Step(&Event{Kind: EvTimer, Timer: TimerRetry, Token: token}, now, &fx)
		var c Changes
		r.Flush(&c, 1)
		all = append(all, c.AttemptInserts...)
		if token == 35_000 {
			row := r.row()
			back, err := Load(&row, g, all, now, &fx)
			must(err)
			if d := Diff(r, back); d != "" {
				t.Fatal(d)
			}
		}
		if token > 40_001 {
			t.Fatalf("token %d", token)
		}
	}
	if _, token := r.Task(0); token != 40_001 {
		t.Errorf("%d attempts", token)
	}
}

// TestTexts: stored values are read back unchanged.
func TestTexts(t *testing.T) {
	for s := range runStates {
		if back, ok := ParseRunState(s.String()); !ok || back != s {
			t.Errorf("run state %s", s)
		}
	}
	for s := range attemptStates {
		if back, ok := ParseAttemptState(s.String()); !ok || back != s {
			t.Errorf("attempt state %s", s)
		}
	}
	for i := range intents {
		if back, ok := ParseIntent(i.String()); !ok || back != i {
			t.Errorf("intent %s", i)
		}
	}
	for p := range Priority(Levels) {
		if back, ok := ParsePriority(p.String()); !ok || back != p {
			t.Errorf("priority %s", p)
		}
	}
	if id, err := ParseRunID(testRun.String()); err != nil || id != testRun || id.IsZero() {
		t.Errorf("%s: %v", id, err)
	}
	for _, bad := range []string{"", "x", strings.Repeat("-", 36), strings.Repeat("0", 36), testRun.String() + "0"} {
		if _, err := ParseRunID(bad); err == nil {
			t.Errorf("%q is a run id", bad)
		}
	}
	at := time.Date(2026, 2, 3, 4, 5, 6, 7000, time.UTC)
	if !Micro(at).Time().Equal(at) || Micro(time.Time{}) != 0 || !Micros(0).Time().IsZero() {
		t.Error("instants do not come back")
	}
}

// TestTaskViewIsSmall: a TaskView takes little memory, because an explanation copies the view of every task
// of a run.
func TestTaskViewIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(TaskView{}); n > 24 {
		t.Errorf("it has %d bytes", n)
	}
}
