package worker

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
)

// benchSlots is the concurrency of both benchmarks: two for each core of the machine whose figures are in
// docs/performance.md.
const benchSlots = 4

// BenchmarkBare runs the same command with os/exec, as a lower bound.
func BenchmarkBare(b *testing.B) {
	tokens := make(chan struct{}, benchSlots)
	for range b.N {
		tokens <- struct{}{}
		go func() {
			if err := exec.Command("true").Run(); err != nil {
				b.Error(err)
			}
			<-tokens
		}()
	}
	for range benchSlots {
		tokens <- struct{}{}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

func BenchmarkAttempt(b *testing.B) {
	for _, mode := range []struct {
		name       string
		groupsOnly bool
		isolation  string
		argv       []string
	}{
		{"contained", false, IsolationNone, []string{"true"}},
		{"fenced", false, IsolationFence, []string{"true"}},
		{"user", false, IsolationUser, []string{"true"}},
		{"boxed", false, IsolationBox, []string{"true"}},
		{"groups", true, IsolationNone, []string{"true"}},
		{"contained_output", false, IsolationNone, []string{"echo", "hello"}},
	} {
		b.Run(mode.name, func(b *testing.B) {
			tokens := make(chan struct{}, benchSlots)
			cfg := Config{DataDir: b.TempDir(), Slots: benchSlots, GroupsOnly: mode.groupsOnly, Report: func(rs ...Result) {
				if r := rs[0]; r.State != Succeeded {
					b.Error(r)
				}
				<-tokens
			}}
			walled(b, mode.isolation)(&cfg)
			w, err := New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			b.Log(w.Containment())
			b.ResetTimer()
			for i := range b.N {
				tokens <- struct{}{}
				w.Start(Job{Key: Key{Namespace: "default", Workflow: "bench", RunID: fmt.Sprintf("run-%d", i/100), Task: "t", Attempt: i + 1}, Argv: mode.argv})
			}
			for range benchSlots {
				tokens <- struct{}{}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			b.StopTimer()
			if err := w.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
		})
	}
}
