package doctor

import (
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/worker"
)

// checkIsolation says which level of isolation tasks have on this machine.
func checkIsolation(cfg *config.Config) Check {
	c := Check{Name: "isolation", State: Good}
	has, err := worker.Fences()
	switch {
	case cfg.Isolation == worker.IsolationFence && err != nil:
		c.State, c.Found = Bad, "the setting isolation is fence, and "+err.Error()
		c.Remedy = "run the node on another kernel, or set isolation to none"
	case cfg.Isolation == worker.IsolationFence:
		c.Found = "fence, by " + has
	case err != nil:
		c.Found = "none: a task may do what the user of the node may; " + err.Error()
	default:
		c.Found = "none: a task may do what the user of the node may; this machine can isolate tasks by " + has + ": set isolation to fence"
	}
	return c
}
