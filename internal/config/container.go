package config

import (
	"fmt"
	"slices"

	"skein.dev/skein/internal/kind/container"
)

// containerSettings are the settings of tasks in containers.
func containerSettings() []setting {
	return []setting{
		{name: "container_engine", def: text(container.EngineAuto), set: func(c *Config, v string) error {
			c.Containers.Engine = v
			return oneOf(v, container.Engines()...)
		}},
		{name: "container_mounts", def: text(""), set: setContainerMounts},
	}
}

// containerMountsMax bounds the folders that containers may mount.
const containerMountsMax = 100

// setContainerMounts reads the folders that containers may mount.
func setContainerMounts(c *Config, v string) error {
	c.Containers.Mounts = nil
	for _, part := range commaList(v) {
		m, err := container.ParseMount(part)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(c.Containers.Mounts, func(o container.Mount) bool { return o.Name == m.Name }) {
			return fmt.Errorf("the name %s is there twice", m.Name)
		}
		c.Containers.Mounts = append(c.Containers.Mounts, m)
	}
	if n := len(c.Containers.Mounts); n > containerMountsMax {
		return fmt.Errorf("%d mounts are too many: at most %d", n, containerMountsMax)
	}
	return nil
}
