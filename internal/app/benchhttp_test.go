package app

import (
	"testing"
	"time"

	"skein.dev/skein/internal/bench"
)

// TestBenchHTTP measures every kind of call for a moment. The output is complete and consistent.
func TestBenchHTTP(t *testing.T) {
	dir := t.TempDir()
	door, err := BenchHTTP(t.Context(), testConfig(t, nil), DoorConfig{Config: bench.Config{Runs: 1, Dir: dir, At: bench.InFolder(dir)}, Span: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, l := range door.Lines {
		names[l.Name()] = true
		for what, v := range map[string]float64{"per_s": l.PerS, "bare_per_s": l.BarePerS, "ratio": l.Ratio,
			"node_cpu_us": l.NodeUS, "bare_node_cpu_us": l.BareNodeUS, "generator_share": l.Generator} {
			if v <= 0 {
				t.Errorf("%s: %s = %v", l.Name(), what, v)
			}
		}
	}
	for _, want := range []string{"start:1", "start:64", "batch:4", "list:4"} {
		if !names[want] {
			t.Errorf("%s was not measured", want)
		}
	}
}
