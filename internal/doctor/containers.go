package doctor

import (
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/kind"
	"skein.dev/skein/internal/kind/container"
	"skein.dev/skein/internal/kind/python"
)

// checkPython reports whether tasks with python can run on this machine.
func checkPython() Check {
	c := Check{Name: "python", State: Good}
	found, err := python.Found()
	if c.Found = found; err != nil {
		c.Found = "none: tasks with python run on other machines; " + err.Error()
	}
	return c
}

// checkProgram reports whether tasks of a kind that needs a program can run on this machine.
func checkProgram(k kind.Needy) Check {
	c := Check{Name: k.Name(), State: Good, Found: "its program is there"}
	if err := k.Missing(nil); err != nil {
		c.Found = "none: tasks with " + k.Name() + " run on other machines; " + err.Error()
	}
	return c
}

// checkContainers reports whether tasks in containers can run on this machine.
func checkContainers(cfg *config.Config) Check {
	c := Check{Name: "containers", State: Good}
	has, err := container.Engine(cfg.Containers)
	switch {
	case err == nil:
		c.Found = has
	case cfg.Containers.Engine != container.EngineAuto && cfg.Containers.Engine != container.EngineNone:
		c.State, c.Found = Bad, "the setting container_engine is "+cfg.Containers.Engine+", and "+err.Error()
		c.Remedy = "repair it, or set container_engine to none"
	default:
		c.Found = "none: tasks with container run on other machines; " + err.Error()
	}
	return c
}
