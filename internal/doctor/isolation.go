package doctor

import (
	"slices"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/worker"
)

// checkIsolation says which level of isolation tasks have on this machine, and which one they could have.
func checkIsolation(cfg *config.Config) Check {
	c := Check{Name: "isolation", State: Good}
	if err := worker.Offers(cfg.Isolation, cfg.Data, cfg.TaskUIDs); err != nil {
		c.State, c.Found = Bad, "the level "+cfg.Isolation+" of the setting isolation cannot be given here: "+err.Error()
		c.Remedy = "change what it names, or set isolation to another level"
		return c
	}
	if cfg.Isolation == worker.IsolationBox {
		if err := worker.ProbeBox(cfg.TaskUIDs); err != nil {
			c.State, c.Found, c.Remedy = Bad, "the level box of the setting isolation cannot be given here: "+err.Error(), "change what it names, or set isolation to another level"
			return c
		}
	}
	if cfg.Isolation == worker.IsolationNone {
		c.Found = "none: a task may do what the user of the node may"
	} else {
		has, _ := worker.Fences()
		c.Found = cfg.Isolation + ", by " + has
	}
	for _, level := range worker.Levels[slices.Index(worker.Levels, cfg.Isolation)+1:] {
		if err := worker.Offers(level, cfg.Data, cfg.TaskUIDs); err != nil {
			c.Found += "; the level " + level + " cannot be given here: " + err.Error()
			break
		}
		c.Found += "; this machine can also give " + level
	}
	return c
}
