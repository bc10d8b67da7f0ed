// Package suggest finds the known word that a writer most likely meant.
package suggest

import (
	"iter"
	"strings"
)

const (
	wordMax  = 100    // bytes; longer words get no suggestion
	triesMax = 10_000 // known words that are compared; a hint is not worth more
)

// Nearest returns the known word that is nearest to word, or "" if none is near. A word is near if it
// differs in case only, or by at most one edit for each three bytes of word (see [Distance]).
func Nearest(word string, known iter.Seq[string]) string {
	if len(word) > wordMax {
		return ""
	}
	best, least := "", min(max(len(word)/3, 1), len(word)-1)+1
	tries := 0
	for k := range known {
		if tries++; tries > triesMax {
			break
		}
		if strings.EqualFold(k, word) {
			return k
		}
		if d := len(k) - len(word); d >= least || -d >= least {
			continue
		}
		if d := Distance(word, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// Distance returns the number of edits that turn a into b. An edit inserts, removes or replaces one byte,
// or swaps two neighbours.
func Distance(a, b string) int {
	before := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	next := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
