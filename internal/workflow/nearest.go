package workflow

import "strings"

// nearest is the known word that somebody who wrote word most likely meant, "" if none is
// near: at most one change for each three letters.
func nearest(word string, known func(yield func(string) bool)) string {
	if len(word) > 100 {
		return ""
	}
	best, distance := "", min(max(len(word)/3, 1), len(word)-1)+1
	tries := 0
	for k := range known {
		if tries++; tries > 10_000 { // a hint is not worth more
			break
		}
		if strings.EqualFold(k, word) {
			return k
		}
		if d := len(k) - len(word); d >= distance || -d >= distance {
			continue
		}
		if d := editDistance(word, k); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// editDistance counts the changes from a to b, a swap of neighbours being one.
func editDistance(a, b string) int {
	old := make([]int, len(b)+1)
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
				next[j] = min(next[j], old[j-2]+1)
			}
		}
		old, row, next = row, next, old
	}
	return row[len(b)]
}

// elsewhere are words that other schedulers have for what is called otherwise here; the first that is known
// where the word stands is meant.
var elsewhere = map[string][]string{
	"retries": {"retry", "max"}, "max_retries": {"retry", "max"}, "attempts": {"retry", "max"},
	"depends_on": {"needs"}, "depends": {"needs"}, "dependencies": {"needs"}, "after": {"needs"},
	"command": {"run"}, "cmd": {"run"}, "script": {"run"}, "when": {"if"}, "condition": {"if"},
	"environment": {"env"}, "schedule": {"triggers", "cron"}, "cwd": {"dir"}, "steps": {"tasks"}, "jobs": {"tasks"},
}

// meant is the hint for an unknown word.
func meant(word string, known func(yield func(string) bool), kind string) string {
	if k := nearest(word, known); k != "" {
		return "did you mean " + k + "?"
	}
	for _, other := range elsewhere[word] {
		for k := range known {
			if k == other {
				return "did you mean " + k + "?"
			}
		}
	}
	var all []string
	for k := range known {
		if len(all) == 30 {
			all = append(all, "…")
			break
		}
		all = append(all, k)
	}
	if len(all) == 0 {
		return ""
	}
	return kind + ": " + strings.Join(all, ", ")
}
