package config

import (
	"skein.dev/skein/internal/egress"
)

// egressSettings returns the settings of outgoing calls.
func egressSettings() []setting {
	return []setting{
		{name: "egress", def: text(""), set: setEgress},
		{name: "egress_proxy", def: text(""), set: setEgressProxy, shown: withoutPassword},
	}
}

// setEgress checks which addresses requests may reach.
func setEgress(c *Config, v string) error {
	if c.Egress = v; v == "" {
		return nil
	}
	_, err := egress.ParsePolicy(v)
	return err
}

// setEgressProxy checks which proxy requests go through.
func setEgressProxy(c *Config, v string) error {
	if c.EgressProxy = v; v == "" || v == egress.Environment {
		return nil
	}
	_, err := egress.ParseProxy(v)
	return err
}

// EgressPolicy returns the addresses that requests may reach. Without the setting, requests of a node that
// only this machine can reach may reach all addresses.
func (c *Config) EgressPolicy() string {
	switch {
	case c.Egress != "":
		return c.Egress
	case c.Exposed():
		return egress.Public
	}
	return egress.Any
}
