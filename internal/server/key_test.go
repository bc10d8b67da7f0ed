package server_test

import (
	"testing"

	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// TestKeyOnce: the prefix of such keys in clients is the prefix that retention looks for. The two packages
// do not import each other.
func TestKeyOnce(t *testing.T) {
	if api.KeyOnce != store.KeyOnce {
		t.Errorf("clients say %q, retention looks for %q", api.KeyOnce, store.KeyOnce)
	}
}
