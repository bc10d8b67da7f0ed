package server_test

import (
	"testing"

	api "skein.dev/skein/api/v1"
	"skein.dev/skein/internal/store"
)

// TestKeyOnce: what clients begin such keys with is what retention looks for. The two packages do not know
// each other.
func TestKeyOnce(t *testing.T) {
	if api.KeyOnce != store.KeyOnce {
		t.Errorf("clients say %q, retention looks for %q", api.KeyOnce, store.KeyOnce)
	}
}
