package app

import (
	"errors"
	"testing"
	"time"

	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/shutdown"
	api "skein.dev/skein/sdk/api/v1"
)

// TestStuckNodeEnds checks that a shutdown ends although the writer is stuck.
func TestStuckNodeEnds(t *testing.T) {
	n, k, stop := startNode(t, testConfig(t, nil))
	n.stopMax = 100 * time.Millisecond
	free, asked := make(chan struct{}), make(chan struct{})
	n.declared = func() { <-free } // the writer calls it
	go func() {
		defer close(asked)
		source := "name: flow\ntriggers: [{name: t, every: 1h}]\ntasks:\n  a: {run: \"true\"}\n"
		_, _ = k.Apply(t.Context(), "flow", api.ApplyRequest{Source: source})
		_, _, _ = k.Start(t.Context(), api.RunRequest{Workflow: "flow"}) // the answer comes when the writer continues
	}()
	eventually(t, "the writer is stuck for a second", func() bool { return n.engine.StuckFor() >= time.Second })
	if err := stop(); !errors.Is(err, shutdown.ErrOverdue) {
		t.Errorf("the node ended with %v, want %v", err, shutdown.ErrOverdue)
	}
	close(free)
	<-asked
	eventually(t, "the stuck part of the node ends, too", func() bool {
		l, err := datadir.Take(n.cfg.Data)
		return err == nil && l.Release() == nil
	})
}
