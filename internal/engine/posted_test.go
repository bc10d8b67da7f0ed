package engine_test

import (
	"errors"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// TestPosted: verbs arrive while the run has no owner. The next owner executes them once, in the order of
// their arrival. A verb that is no longer possible has no effect.
func TestPosted(t *testing.T) {
	n, peers, give := ownerless(t, nil)
	give(true)
	w := n.apply("w", graph(t, "a; b: a"))
	n.hands.mu.Lock()
	n.hands.held = true
	n.hands.mu.Unlock()
	long, ended := n.submit(w), n.submit(w)
	n.hands.holding(2)
	if err := n.Do(t.Context(), engine.Command{Run: ended, Intent: dag.IntentKill, Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	n.ends(ended, dag.RunStopped)
	give(false)

	verb := engine.Command{Run: long, Intent: dag.IntentPause, Actor: "ada", Reason: "because"}
	var moved *errkind.Elsewhere
	if err := n.Tell(t.Context(), verb); !errors.As(err, &moved) {
		t.Fatalf("told to nobody: %v", err)
	}
	posting := engine.WithPosting(t.Context())
	if err := n.Tell(posting, verb); err != nil {
		t.Fatal(err)
	}
	verb.Intent = dag.IntentStop
	if err := n.Tell(posting, verb); err != nil {
		t.Fatal(err)
	}
	keyed := engine.Command{Run: ended, Recover: true, Actor: "ada", Request: &store.Request{Scope: "s", Key: "k", Hash: []byte("1"), Answer: []byte("{}")}}
	for range 2 {
		if err := n.Tell(posting, keyed); err != nil {
			t.Fatal(err)
		}
	}
	keyed.Request = &store.Request{Scope: "s", Key: "k", Hash: []byte("2"), Answer: []byte("{}")}
	if err := n.Tell(posting, keyed); !errors.Is(err, errkind.ErrConflict) {
		t.Errorf("another request under the same key: %v", err)
	}
	if err := n.Tell(posting, engine.Command{Run: engine.NewRunID(), Intent: dag.IntentStop}); !errors.Is(err, errkind.ErrNotFound) {
		t.Errorf("a run that is not there: %v", err)
	}
	if n.letterbox() != 3 || len(peers.nudged) != 3 {
		t.Errorf("%d messages wait, nudged %v", n.letterbox(), peers.nudged)
	}

	give(true)
	if err := n.Meet(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.ends(long, dag.RunStopped)
	eventually(t, "the attempts of the stopped run are gone", func() bool { return !n.hands.has(long) })
	for range 2 { // a and b of the run that was recovered
		n.hands.end(n.hands.holding(1)[0], success())
	}
	n.ends(ended, dag.RunSucceeded)
	row, err := n.store.Run(t.Context(), ended)
	if err != nil || row.Generation != 2 {
		t.Errorf("generation %d, %v", row.Generation, err)
	}
	if err := n.Post(t.Context(), verb); err != nil { // too late: the run has ended
		t.Fatal(err)
	}
	if err := n.Meet(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.quiet()
	if left := n.letterbox(); left != 0 {
		t.Errorf("%d messages wait", left)
	}
}
