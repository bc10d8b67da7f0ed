package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/datadir"
	api "skein.dev/skein/sdk/api/v1"
)

// TestStuckNodeEnds: a shutdown ends although the writer never completes its turn again.
func TestStuckNodeEnds(t *testing.T) {
	n, k, stop := startNode(t, testConfig(t, nil))
	n.stopMax = 100 * time.Millisecond
	free, asked := make(chan struct{}), make(chan struct{})
	n.declared = func() { <-free } // the writer calls it
	go func() {
		defer close(asked)
		source := "name: flow\ntriggers: [{name: t, every: 1h}]\ntasks:\n  a: {run: \"true\"}\n"
		_, _ = k.Apply(t.Context(), "flow", api.ApplyRequest{Source: source})
		_, _, _ = k.Start(t.Context(), api.RunRequest{Workflow: "flow"}) // it is answered when the writer goes on
	}()
	eventually(t, "the writer is stuck for a second", func() bool { return n.engine.StuckFor() >= time.Second })
	if err := stop(); !errors.Is(err, ErrOverdue) {
		t.Errorf("the node ended with %v, want %v", err, ErrOverdue)
	}
	close(free)
	<-asked
	eventually(t, "the stuck part of the node ends, too", func() bool {
		l, err := datadir.Take(n.cfg.Data)
		return err == nil && l.Release() == nil
	})
}

// TestOverdueTime: the error of a shutdown that is stuck says how long it took, also after a second signal.
func TestOverdueTime(t *testing.T) {
	for _, c := range []struct {
		hurryAfter time.Duration // 0: never
		says       string
	}{{0, "1m10s after the signal"}, {5 * time.Second, "15s after the signal"}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			hurry, free := make(chan struct{}), make(chan struct{})
			if c.hurryAfter > 0 {
				time.AfterFunc(c.hurryAfter, func() { close(hurry) })
			}
			d := deadline{drain: time.Minute, most: 10 * time.Second, hurry: hurry, log: slog.New(slog.DiscardHandler)}
			err := d.run(ctx, func() error { <-free; return nil })
			if !errors.Is(err, ErrOverdue) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("hurry after %v: %v, want %s", c.hurryAfter, err, c.says)
			}
			close(free)
		})
	}
}
