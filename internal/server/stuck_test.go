package server_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	api "skein.dev/skein/sdk/api/v1"
)

// TestReadyzOfAStuckNode: a node is not ready while its writer or its slot broker completes no cycle although
// work waits. A node that has nothing to do is ready, however long ago its last cycle was.
func TestReadyzOfAStuckNode(t *testing.T) {
	b := newBed(t, true)
	b.apply("w")
	const stuck = `skein_turn_stuck_seconds{part="writer"} `
	b.clock.ahead.Add(int64(time.Hour))
	if a := b.get("/readyz"); a.status != http.StatusOK {
		t.Errorf("of an idle node: %d %s", a.status, a.body)
	}
	// Because the clock has jumped, the writer may be in a cycle.
	eventually(t, "the idle writer is not stuck", func() bool {
		return strings.Contains(b.get("/metrics").body, stuck+"0\n")
	})
	b.slotsStuck.Store(int64(6 * time.Second))
	wantProblem(t, b.get("/readyz"), http.StatusServiceUnavailable, api.ProblemUnavailable)
	if m := b.get("/metrics").body; !strings.Contains(m, `skein_turn_stuck_seconds{part="slots"} 6`+"\n") {
		t.Error(m)
	}
	b.slotsStuck.Store(int64(time.Second))

	b.exec.mu.Lock() // the writer waits for this mutex when it dispatches a task
	b.exec.auto = false
	// Also called if the test ends early, because the node could not end otherwise.
	release := sync.OnceFunc(b.exec.mu.Unlock)
	defer release()
	answered := make(chan answer, 1)
	before := b.engine.Stats().Commits.Load()
	go func() { answered <- b.post("/api/v1/runs", `{"workflow":"w"}`) }()
	eventually(t, "the run is committed", func() bool { return b.engine.Stats().Commits.Load() > before })
	var ready answer
	eventually(t, "the writer is stuck", func() bool { // between the commit and the dispatch it is not stuck
		b.clock.ahead.Add(int64(6 * time.Second))
		ready = b.get("/readyz")
		return ready.status != http.StatusOK
	})
	p := wantProblem(t, ready, http.StatusServiceUnavailable, api.ProblemUnavailable)
	if m := b.get("/metrics").body; strings.Contains(m, stuck+"0\n") {
		t.Errorf("%+v\n%s", p, m)
	}
	release()
	if a := <-answered; a.status != http.StatusAccepted {
		t.Errorf("%d %s", a.status, a.body)
	}
	eventually(t, "the node is ready again", func() bool { return b.get("/readyz").status == http.StatusOK })
}
