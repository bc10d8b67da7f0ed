package workflow

import (
	"testing"
	"time"
)

// TestReleaseTimeout: tasks of a kind have the key release_timeout, too. Other tasks without a process have
// none.
func TestReleaseTimeout(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"run: 'true', release: 'true', release_timeout: 3m": 3 * time.Minute,
		"kind: slurm, release_timeout: 2m":                  2 * time.Minute,
		"kind: slurm":                                       0,
		"spark: {master: yarn, main: a.jar, resource_manager: 'http://rm:8088'}, release_timeout: 1h": time.Hour,
		"wait: 1m, release_timeout: 1m":     -1,
		"run: 'true', release_timeout: 1m":  -1,
		"kind: slurm, release: 'true'":      -1,
		"kind: slurm, release_timeout: now": -1,
	} {
		all, errs := Parse([]byte("name: w\ntasks: {a: {"+text+"}}\n"), Options{})
		if (len(errs) > 0) != (want < 0) {
			t.Errorf("%s: %v", text, errs)
		}
		if len(errs) > 0 {
			continue
		}
		if got := all[0].Policy(0).ReleaseTimeout; got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
