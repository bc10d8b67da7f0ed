package app

import (
	"errors"
	"strings"
	"testing"
	"time"

	api "skein.dev/skein/api/v1"
)

// TestStuckNodeEnds: a shutdown ends although the writer never completes its turn again.
func TestStuckNodeEnds(t *testing.T) {
	n, k, stop := startNode(t, testConfig(t, nil))
	n.stopMax = 100 * time.Millisecond
	if _, err := k.Apply(t.Context(), "flow", api.ApplyRequest{Source: "name: flow\ntasks:\n  a: {run: \"true\"}\n"}); err != nil {
		t.Fatal(err)
	}
	n.executor.mu.Lock() // the writer waits for it when it hands the task over
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_, _, _ = k.Start(t.Context(), api.RunRequest{Workflow: "flow"}) // it is answered when the writer goes on, if ever
	}()
	for n.engine.StuckFor() < time.Second {
		time.Sleep(time.Millisecond)
	}
	if err := stop(); !errors.Is(err, ErrOverdue) || !strings.Contains(err.Error(), "cause: ") {
		t.Errorf("the node ended with %v, want %v", err, ErrOverdue)
	}
	n.executor.mu.Unlock()
	<-asked
	for { // what was stuck ends, too
		l, err := takeLock(n.cfg.Data)
		if err == nil {
			if err = l.release(); err != nil {
				t.Fatal(err)
			}
			return
		}
		time.Sleep(time.Millisecond)
	}
}
