package workflow

import (
	"strings"

	"skein.dev/skein/internal/suggest"
)

// elsewhere maps words of other schedulers to words of workflow files. The hint names the first of these
// words that is allowed at the position.
var elsewhere = map[string][]string{
	"retries": {"retry", "max"}, "max_retries": {"retry", "max"}, "attempts": {"retry", "max"},
	"depends_on": {"needs"}, "depends": {"needs"}, "dependencies": {"needs"}, "after": {"needs"},
	"command": {"run"}, "cmd": {"run"}, "script": {"run"}, "when": {"if"}, "condition": {"if"},
	"environment": {"env"}, "schedule": {"triggers", "cron"}, "cwd": {"dir"}, "steps": {"tasks"}, "jobs": {"tasks"},
}

// meant returns the hint for an unknown word.
func meant(word string, known func(yield func(string) bool), kind string) string {
	if k := suggest.Nearest(word, known); k != "" {
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
