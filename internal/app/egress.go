package app

import (
	"fmt"
	"slices"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/store/postgres"
)

// ownDatabase returns the addresses of the database.
func ownDatabase(c *config.Config) ([]egress.Own, error) {
	if c.Postgres == "" {
		return nil, nil
	}
	o, err := postgres.ParseAddress(c.Postgres)
	if err != nil {
		return nil, err
	}
	addresses, err := o.Addresses()
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", c.DBName(), err)
	}
	var all []egress.Own
	for _, a := range addresses {
		all = append(all, egress.Own{What: "database", Address: a})
	}
	return all, nil
}

// egressRules returns the rules for the requests of tasks on every machine, computed from the nodes that are
// known now.
func (n *Node) egressRules() egress.Rules {
	rules := egress.Rules{Policies: []string{n.cfg.EgressPolicy()}, Own: slices.Clone(n.connector.database)}
	add := func(address string) {
		if own, ok := egress.OwnURL("node", address); ok {
			rules.Own = append(rules.Own, own)
		}
	}
	add(n.cfg.Advertise)
	members, _ := n.members.list()
	for i := range members {
		add(members[i].Address) // the address of a worker is empty
	}
	return rules
}

// egressHere adds the rules for requests that this node sends itself.
func (n *Node) egressHere(rules egress.Rules) egress.Rules {
	rules.Own = append(rules.Own, egress.Own{What: "node", Address: n.listener.Addr().String()})
	rules.Proxy = n.cfg.EgressProxy
	return rules
}
