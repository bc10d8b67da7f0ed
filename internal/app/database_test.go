package app

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/store"
)

// TestPatiently: a temporary error of the database is tried again. A permanent error is returned at once. A
// command gets any error at once.
func TestPatiently(t *testing.T) {
	t.Parallel()
	gone, wrong := fmt.Errorf("register: %w: connection refused", store.ErrUnavailable), errors.New("a setting is wrong")
	for _, c := range []struct {
		name   string
		cfg    config.Config
		says   []error // one after the other
		asked  int
		wanted error
	}{
		{"it comes back", config.Config{Postgres: "postgres://x"}, []error{gone, gone, nil}, 3, nil},
		{"it will not pass", config.Config{Postgres: "postgres://x"}, []error{gone, wrong, nil}, 2, wrong},
		{"a command", config.Config{Postgres: "postgres://x", ByHand: true}, []error{gone, nil}, 1, gone},
		{"a file", config.Config{}, []error{gone, nil}, 1, gone},
	} {
		asked := 0
		n := &Node{cfg: &c.cfg, log: slog.New(slog.DiscardHandler)}
		err := n.patiently(t.Context(), func() error {
			asked++
			return c.says[asked-1]
		})
		if !errors.Is(err, c.wanted) || asked != c.asked {
			t.Errorf("%s: asked %d times, then %v", c.name, asked, err)
		}
	}
}
