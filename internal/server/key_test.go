package server_test

import (
	"testing"

	api "skein.dev/skein/api/v1"
	"skein.dev/skein/internal/store"
)

// TestKeyOnce: the prefix of such keys in clients is the prefix that retention looks for. The two packages
// do not import each other.
func TestKeyOnce(t *testing.T) {
	if api.KeyOnce != store.KeyOnce {
		t.Errorf("clients say %q, retention looks for %q", api.KeyOnce, store.KeyOnce)
	}
}
