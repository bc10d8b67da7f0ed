package server_test

import (
	"errors"
	"net/http"
	"testing"

	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
)

// TestStatsAreBounded: an answer of which the days have too many counts of tasks is refused.
func TestStatsAreBounded(t *testing.T) {
	b := &bed{t: t, dir: t.TempDir(), frozen: &frozen{tally: make([]store.TallyRow, 3)}, logs: &logs{}}
	b.start()
	t.Cleanup(func() { b.stop() })
	b.apply("w")
	if is, err := server.Counted(t.Context(), b.srv, "w", 3); err != nil || is.Damaged != 3 {
		t.Errorf("%+v, %v", is, err)
	}
	_, err := server.Counted(t.Context(), b.srv, "w", 2)
	var refused interface{ GetStatus() int }
	if !errors.As(err, &refused) || refused.GetStatus() != http.StatusUnprocessableEntity {
		t.Errorf("%v", err)
	}
}
