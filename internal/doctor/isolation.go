package doctor

import (
	"slices"
	"strings"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/worker"
)

// checkIsolation reports the isolation level that tasks get on this machine, and the strictest one that is
// possible. ofDatabase is store.Info.Isolation.
func checkIsolation(cfg *config.Config, ofDatabase string) Check {
	c := Check{Name: "isolation", State: Good}
	if cfg.IsolationAuto {
		return checkAuto(cfg, ofDatabase)
	}
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
	if err := worker.OffersUsers(cfg.IsolationLevels, cfg.TaskUsers, cfg.TaskUIDs); err != nil {
		c.State, c.Found, c.Remedy = Bad, err.Error(), "change the setting task_users"
		return c
	}
	c.Found = strings.Join(cfg.IsolationLevels, ", ")
	if highest := cfg.IsolationLevels[len(cfg.IsolationLevels)-1]; highest != worker.IsolationNone {
		has, _ := worker.Fences()
		c.Found += ", enforced by " + has
	}
	if cfg.Isolation == worker.IsolationNone {
		c.Found += "; a task that requires no level has all rights of the node's user"
	}
	return higher(cfg, c)
}

// checkAuto reports the level that tasks get if the setting leaves it to the database.
func checkAuto(cfg *config.Config, ofDatabase string) Check {
	c := Check{Name: "isolation", State: Good}
	has, err := worker.Fences()
	switch {
	case err != nil && ofDatabase != "":
		c.State, c.Found = Warning, "none: tasks have all rights of the node's user, because "+err.Error()
		c.Remedy = "use a kernel that can isolate tasks, or set isolation: none to accept it"
	case err != nil:
		c.Found = "none: a task has all rights of the node's user; " + err.Error()
	case ofDatabase == "":
		c.State, c.Found = Warning, "none, as before the upgrade: a task that requires no level has all rights of the node's user"
		c.Remedy = "give the tasks the access that they need, then set isolation: fence on each node and worker"
	default:
		return higher(cfg, Check{Name: c.Name, State: Good, Found: ofDatabase + ", enforced by " + has})
	}
	return c
}

// higher adds the levels that this machine can also give.
func higher(cfg *config.Config, c Check) Check {
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
