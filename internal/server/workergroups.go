package server

import (
	"context"
	"maps"
	"slices"

	api "skein.dev/skein/sdk/api/v1"
)

// listWorkerGroups lists the groups that tasks may name. A group exists as long as it has a member.
func (s *Server) listWorkerGroups(ctx context.Context, _ *struct{}) (*jsonOut[api.List[api.WorkerGroup]], error) {
	nodes, err := s.nodes(ctx)
	if err != nil {
		return nil, err
	}
	groups := map[string]api.WorkerGroup{}
	for i := range nodes {
		n := &nodes[i]
		if n.Slots.Total == 0 {
			continue
		}
		for _, name := range slices.Compact(slices.Sorted(slices.Values(n.Groups))) {
			g := groups[name]
			g.Name, g.Workers = name, append(g.Workers, n.Name)
			g.Slots.Total += n.Slots.Total
			g.Slots.Busy += n.Slots.Busy
			groups[name] = g
		}
	}
	all := make([]api.WorkerGroup, 0, len(groups))
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, groups[name])
	}
	return list(all, ""), nil
}
