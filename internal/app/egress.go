package app

import (
	"fmt"

	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/store/postgres"
)

// egressSettings are the settings of outgoing calls.
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

// egressPolicy returns the addresses that requests may reach: all of them on a node that only this machine
// can reach, unless the setting says otherwise.
func (c *Config) egressPolicy() string {
	switch {
	case c.Egress != "":
		return c.Egress
	case c.open():
		return egress.Public
	}
	return egress.Any
}

// ownDatabase are the addresses of the database.
func ownDatabase(c *Config) ([]egress.Own, error) {
	if c.Postgres == "" {
		return nil, nil
	}
	o, err := postgres.ParseAddress(c.Postgres)
	if err != nil {
		return nil, err
	}
	addresses, err := o.Addresses()
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", c.dbName(), err)
	}
	var all []egress.Own
	for _, a := range addresses {
		all = append(all, egress.Own{What: "database", Address: a})
	}
	return all, nil
}

// egressRules returns the rules for the requests of tasks on every machine, from the nodes that are known
// now.
func (n *Node) egressRules(database []egress.Own) egress.Rules {
	rules := egress.Rules{Policies: []string{n.cfg.egressPolicy()}, Own: append([]egress.Own(nil), database...)}
	add := func(address string) {
		if own, ok := egress.OwnURL("node", address); ok {
			rules.Own = append(rules.Own, own)
		}
	}
	add(n.cfg.Advertise)
	if n.member != nil && n.member.node != nil {
		members, _ := n.member.node.View()
		for i := range members {
			add(members[i].Address) // that of a worker is empty
		}
	}
	return rules
}

// egressHere adds the rules for requests that this node sends itself.
func (n *Node) egressHere(rules egress.Rules) egress.Rules {
	rules.Own = append(rules.Own, egress.Own{What: "node", Address: n.listener.Addr().String()})
	rules.Proxy = n.cfg.EgressProxy
	return rules
}
