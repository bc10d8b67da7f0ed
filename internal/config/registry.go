package config

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"skein.dev/skein/internal/registry"
)

// registrySettings say where the registry of a cluster is.
func registrySettings() []setting {
	return []setting{
		{name: "registry", def: text(""), set: func(c *Config, v string) error { return setRegistry(c, v) }},
		{name: "registry_password_file", def: text(""), credential: "registry-password", set: func(c *Config, v string) error {
			return setPath(&c.Registry.PasswordFile, v)
		}},
		{name: "registry_away", def: text("database"), set: func(c *Config, v string) error {
			c.StopWithoutRegistry = v == "stop"
			return oneOf(v, "database", "stop")
		}},
	}
}

func setRegistry(c *Config, v string) (err error) {
	c.Registry, err = registry.Parse(v)
	return err
}

// Judge returns the client of the registry in the settings. It returns nil if there is none.
func (c *Config) Judge(log *slog.Logger) *registry.Judge {
	if c.StopWithoutRegistry {
		return c.Registry.Judge(c.Lag, log)
	}
	return c.Registry.Judge(0, log)
}

// Failover returns the shortest silence after which the other nodes may declare this one dead: the lag, or
// less with a registry.
func (c *Config) Failover() time.Duration {
	if c.Registry.Kind == "" {
		return c.Lag
	}
	return min(c.Lag, registry.QuickOf(c.Registry.TTL))
}

// checkRegistry refuses a registry that would never be used.
func (c *Config) checkRegistry() error {
	quick := registry.QuickOf(c.Registry.TTL)
	switch {
	case c.Registry.Kind == "" && c.StopWithoutRegistry:
		return c.Wrong("registry_away", errors.New("there is no registry that could be away: set registry, or remove registry_away"))
	case c.Registry.Kind == "":
		return nil
	case c.Postgres == "":
		return c.Wrong("registry", errors.New("a registry is for the nodes of a cluster on PostgreSQL: set db to the URL of one, or remove the setting registry"))
	case quick >= c.Lag:
		return c.Wrong("registry", fmt.Errorf("with ttl=%v a node counts as dead after %v, and after lag, %v, without the registry: set a shorter ttl, or a longer lag", c.Registry.TTL, quick, c.Lag))
	}
	return nil
}
