package suggest

import (
	"slices"
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"same", "same", 0},
		{"kitten", "sitting", 3}, {"needs", "neeeds", 1}, {"needs", "nedes", 1}, {"ab", "ba", 1}, {"abcd", "badc", 2},
	} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"needs", "run", "timeout", "retry"}
	for word, want := range map[string]string{
		"need": "needs", "nedes": "needs", "NEEDS": "needs", "timeuot": "timeout", "rnu": "run", "rty": "",
		"x": "", "": "", "somethingelse": "", strings.Repeat("n", wordMax+1): "",
	} {
		if got := Nearest(word, slices.Values(known)); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
	many := make([]string, triesMax+1)
	for i := range many {
		many[i] = "unlike"
	}
	many[triesMax] = "needs"
	if got := Nearest("needz", slices.Values(many)); got != "" {
		t.Errorf("%d words were compared", len(many))
	}
}
