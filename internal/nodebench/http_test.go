package nodebench

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"skein.dev/skein/internal/app"
	"skein.dev/skein/internal/bench"
	"skein.dev/skein/internal/config"
)

// TestMain makes this test binary a keeper when a node starts one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "keeper" {
		os.Exit(app.KeeperMain(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

// TestBenchHTTP measures every kind of call for a moment. The output is complete and consistent.
func TestBenchHTTP(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	cfg, err := config.Load(map[string]string{"data": filepath.Join(t.TempDir(), "data"), "recovery": "off"}, "")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	door, err := HTTP(t.Context(), cfg, HTTPConfig{Config: bench.Config{Runs: 1, Dir: dir, At: bench.InFolder(dir)}, Span: 10 * time.Millisecond})
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
