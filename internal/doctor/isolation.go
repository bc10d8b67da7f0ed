package doctor

import (
	"slices"
	"strings"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/worker"
)

// checkIsolation reports the isolation level that tasks get on this machine, and the strictest one that is
// possible.
func checkIsolation(cfg *config.Config) Check {
	c := Check{Name: "isolation", State: Good}
	for _, level := range cfg.IsolationLevels {
		err := worker.Offers(level, cfg.Data, cfg.TaskUIDs)
		if err == nil && level == worker.IsolationBox {
			err = worker.ProbeBox(cfg.TaskUIDs)
		}
		if err != nil {
			c.State, c.Found = Bad, "this machine cannot give the level "+level+" of the setting isolation: "+err.Error()
			c.Remedy = "correct the named cause, or set isolation to another level"
			return c
		}
	}
	c.Found = strings.Join(cfg.IsolationLevels, ", ")
	if highest := cfg.IsolationLevels[len(cfg.IsolationLevels)-1]; highest != worker.IsolationNone {
		has, _ := worker.Fences()
		c.Found += ", enforced by " + has
	}
	if cfg.Isolation == worker.IsolationNone {
		c.Found += "; a task that requires no level has all rights of the node's user"
	}
	for _, level := range worker.Levels {
		if level == worker.IsolationNone || slices.Contains(cfg.IsolationLevels, level) {
			continue
		}
		if err := worker.Offers(level, cfg.Data, cfg.TaskUIDs); err != nil {
			c.Found += "; this machine cannot give the level " + level + ": " + err.Error()
			break
		}
		c.Found += "; this machine can also give " + level
	}
	return c
}
