package logscan

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestFinder compares a finder with bytes.Index at each index. Some texts match nearly everywhere.
func TestFinder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	letters := []byte("abABzZ@[`{é \n")
	random := func(n, kinds int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[rnd.IntN(kinds)]
		}
		return b
	}
	for range 2000 {
		kinds := 1 + rnd.IntN(len(letters))
		log := random(rnd.IntN(3*missesMin), kinds)
		text := random(1+rnd.IntN(4), kinds)
		if len(log) > 20 && rnd.IntN(2) == 0 { // search for a long piece of the log
			at := rnd.IntN(len(log) - 10)
			text = bytes.Clone(log[at : at+10])
		}
		exact := rnd.IntN(2) == 0
		plain, want := log, text
		if !exact {
			plain, want = folded(bytes.Clone(log)), folded(bytes.Clone(text))
		}
		f := newFinder(text, exact)
		c := f.in(log)
		for at := 0; at <= len(log); at += 1 + rnd.IntN(3) {
			i := bytes.Index(plain[at:], want)
			if i >= 0 {
				i += at
			}
			if got := c.next(at); got != i {
				t.Fatalf("%q in %q from %d (exact %v): %d, want %d", text, log, at, exact, got, i)
			}
		}
	}
}

// TestFinderGivesUp checks that a finder uses bytes.Index for a text that nearly matches everywhere, because
// the time of bytes.Index is bounded.
func TestFinderGivesUp(t *testing.T) {
	f := newFinder([]byte(strings.Repeat("a", 200)+"b"), false)
	log := bytes.Repeat([]byte("A"), block)
	log = append(log, bytes.Repeat([]byte("B"), 300)...) // both bytes of the text are frequent
	copy(log, bytes.Repeat([]byte("b"), sampleMax))      // the sample suggests that the other byte is rare
	c := f.in(log)
	if i := c.next(0); i != block-200 || c.plain == nil {
		t.Errorf("found at %d, given up: %v", i, c.plain != nil)
	}
}
