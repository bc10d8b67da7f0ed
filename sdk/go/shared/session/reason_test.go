package session

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"connectrpc.com/connect"
)

// TestComeAgain checks that a worker waits as long as a busy node asks, within bounds, and ignores an invalid
// time.
func TestComeAgain(t *testing.T) {
	t.Parallel()
	busy := func(after string) error {
		err := connect.NewError(connect.CodeUnavailable, errors.New("BUSY: come again"))
		err.Meta().Set("Retry-After", after)
		return errors.Join(errors.New("http://a: refused"), fmt.Errorf("http://b: %w", err))
	}
	for after, want := range map[string]time.Duration{"2": 2 * time.Second, "3600": comeAgainMax, "-1": 0, "soon": 0, "": 0} {
		if got := comeAgain(busy(after)); got != want {
			t.Errorf("Retry-After %q: %v, want %v", after, got, want)
		}
	}
	if got := comeAgain(errors.New("no answer")); got != 0 {
		t.Errorf("without an answer: %v", got)
	}
}
