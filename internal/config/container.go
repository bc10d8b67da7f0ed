package config

import (
	"fmt"
	"path/filepath"
	"slices"

	"skein.dev/skein/internal/kind/container"
	"skein.dev/skein/internal/protect"
	"skein.dev/skein/internal/workflow"
)

// containerSettings returns the settings of tasks in containers, of tasks with Python environments, and of
// the processes of sources.
func containerSettings() []setting {
	return []setting{
		{name: "container_engine", def: text(container.EngineAuto), set: func(c *Config, v string) error {
			c.Containers.Engine = v
			return container.CheckEngine(v)
		}},
		{name: "container_mounts", def: text(""), set: setContainerMounts},
		{name: "source_memory", def: text("512Mi"), set: setSourceMemory},
		{name: "python_environments", def: text("4Gi"), set: func(c *Config, v string) (err error) {
			c.Environments, err = workflow.ParseSize(v)
			return err
		}},
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
		if slices.ContainsFunc(c.Containers.Mounts, func(o container.Mount) bool { return o.FullName() == m.FullName() }) {
			return fmt.Errorf("the name %s is given twice", m.FullName())
		}
		c.Containers.Mounts = append(c.Containers.Mounts, m)
	}
	if n := len(c.Containers.Mounts); n > containerMountsMax {
		return fmt.Errorf("%d mounts are too many: at most %d", n, containerMountsMax)
	}
	return nil
}

// checkContainerMounts refuses a mount through which a container would reach a protected path, or the folder
// of another namespace.
func (c *Config) checkContainerMounts() error {
	for _, m := range c.Containers.Mounts {
		real := protect.Real(m.Path)
		for _, shut := range c.Unwatched() {
			if touch(m.Path, shut) || touch(real, shut) || touch(real, protect.Real(shut)) {
				return c.Wrong("container_mounts", fmt.Errorf("through %s=%s containers would reach the protected path %s: mount another folder", m.FullName(), m.Path, shut))
			}
		}
		for _, o := range c.Containers.Mounts {
			if o.Namespace != "" && o.Namespace != m.Namespace && o.Path != m.Path && inside(protect.Real(o.Path), real) {
				return c.Wrong("container_mounts", fmt.Errorf("%s=%s contains %s, the folder of %s, so containers of other namespaces than %s would reach it: mount folders that do not contain it, or write %s/%s=%s",
					m.FullName(), m.Path, o.Path, o.FullName(), o.Namespace, o.Namespace, m.Name, m.Path))
			}
			// a container could make a link there, and the next container would mount the target of the link
			if o.Write && o.Path != m.Path && inside(m.Path, o.Path) {
				return c.Wrong("container_mounts", fmt.Errorf("%s=%s is inside the folder of %s, to which containers write, so a container could replace it: mount a folder elsewhere", m.FullName(), m.Path, o.FullName()))
			}
		}
	}
	return nil
}

// touch reports whether two paths are equal, or one is inside the other.
func touch(a, b string) bool { return inside(a, b) || inside(b, a) }

// inside reports whether a path is a folder or inside it.
func inside(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}
