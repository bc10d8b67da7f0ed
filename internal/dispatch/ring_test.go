package dispatch

import (
	"testing"

	"skein.dev/skein/internal/engine"
)

// TestRing: the ring remembers the attempts that were added last, as many as it has room for.
func TestRing(t *testing.T) {
	r := newRing(3)
	for i := range 5 {
		r.add(engine.AttemptID{Task: 1, Token: 1, Run: [16]byte{byte(i)}})
	}
	for i := range 5 {
		if got, want := r.has(engine.AttemptID{Task: 1, Token: 1, Run: [16]byte{byte(i)}}), i >= 2; got != want {
			t.Errorf("%d: %v", i, got)
		}
	}
}
