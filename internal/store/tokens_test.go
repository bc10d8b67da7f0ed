package store

import (
	"strings"
	"testing"
)

// TestBoundOf: a row without namespaces allows none.
func TestBoundOf(t *testing.T) {
	for text, want := range map[string]string{All: "", "a b": "a b", "": "~none"} {
		if got := strings.Join((&Token{Namespaces: text}).Bound(), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
