package config

import (
	"fmt"
	"maps"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/worker"
)

// The functions of this file refuse values that nodes would refuse from a worker, so that the error names the
// setting and comes before any work.

func setGroups(c *Config, v string) error {
	c.Groups = commaList(v)
	for _, g := range c.Groups {
		if !home.Plain(g) {
			return fmt.Errorf("%q is not the name of a group: at most 100 printable characters without spaces; write several groups as A,B", g)
		}
	}
	return notMany(len(c.Groups), "groups")
}

func setLabels(c *Config, v string) error {
	c.Labels = map[string]string{}
	for _, part := range commaList(v) {
		name, value, ok := strings.Cut(part, "=")
		if !ok || !home.Plain(name) || value != "" && !home.Plain(value) {
			return fmt.Errorf("%q is not a label such as disk=ssd: at most 100 printable characters without spaces on either side", part)
		}
		if name == dag.LabelIsolation {
			return fmt.Errorf("the label %s is set by itself, to the level of the setting isolation: leave it out", name)
		}
		c.Labels[name] = value
	}
	return notMany(len(c.Labels), "labels")
}

// WorkerLabels returns the labels that tasks may require of this process. A level of isolation is one of
// them.
func (c *Config) WorkerLabels() map[string]string {
	if c.Isolation == "" || c.Isolation == worker.IsolationNone {
		return c.Labels
	}
	all := map[string]string{dag.LabelIsolation: c.Isolation}
	maps.Copy(all, c.Labels)
	return all
}

// WorkerLevels returns the levels of isolation that tasks may require of this process, if there are several.
// The label of WorkerLabels has a single one.
func (c *Config) WorkerLevels() []string {
	if len(c.IsolationLevels) < 2 {
		return nil
	}
	return c.IsolationLevels
}

func notMany(n int, what string) error {
	if n > home.TraitsMax {
		return fmt.Errorf("%d %s are too many: at most %d", n, what, home.TraitsMax)
	}
	return nil
}
