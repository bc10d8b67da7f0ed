package server

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// kindMembersMax bounds the names of members that one row of the list of kinds contains.
const kindMembersMax = 50

// listKinds lists the kinds of tasks that nodes and workers have. A kind exists as long as it has a member.
// Each declaration of a kind has its own row.
func listKinds(ctx context.Context, s *Server) (*jsonOut[api.List[api.Kind]], error) {
	members, err := traitsOf(ctx, s)
	if err != nil {
		return nil, err
	}
	rows := map[dag.Extension]*api.Kind{}
	add := func(x dag.Extension, origin, member string) {
		row := rows[x]
		if row == nil {
			row = &api.Kind{Kind: strings.TrimPrefix(x.Kind, dag.HousePrefix), Origin: origin, Version: textOrNull(x.Version), Digest: textOrNull(x.Digest),
				Connections: []string{}, Members: []string{}}
			if x.Connection != "" {
				row.Connections = strings.Split(x.Connection, ",")
			}
			rows[x] = row
		}
		if row.Total++; len(row.Members) < kindMembersMax {
			row.Members = append(row.Members, member)
		}
	}
	for _, m := range members {
		for _, name := range m.Traits.Kinds {
			add(dag.Extension{Kind: name}, "worker", m.Name)
		}
		for _, x := range m.Traits.Extensions {
			origin := "extension"
			if strings.HasPrefix(x.Kind, dag.HousePrefix) {
				origin = "skein"
			}
			add(x, origin, m.Name)
		}
	}
	all := make([]api.Kind, 0, len(rows))
	for _, row := range rows {
		all = append(all, *row)
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Origin, b.Origin), comparePointers(b.Version, a.Version), comparePointers(a.Digest, b.Digest)) < 0
	})
	return list(all, ""), nil
}

// listRefused lists the folders of extensions that nodes and workers do not use. Equal folders with the same
// reason are one row.
func listRefused(ctx context.Context, s *Server) (*jsonOut[api.List[api.RefusedExtension]], error) {
	members, err := traitsOf(ctx, s)
	if err != nil {
		return nil, err
	}
	rows := map[dag.Refusal]*api.RefusedExtension{}
	for _, m := range members {
		for _, x := range m.Traits.Refused {
			row := rows[x]
			if row == nil {
				row = &api.RefusedExtension{Folder: x.Folder, Why: x.Why, Members: []string{}}
				rows[x] = row
			}
			if row.Total++; len(row.Members) < kindMembersMax {
				row.Members = append(row.Members, m.Name)
			}
		}
	}
	all := make([]api.RefusedExtension, 0, len(rows))
	for _, row := range rows {
		all = append(all, *row)
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(cmp.Compare(a.Folder, b.Folder), cmp.Compare(a.Why, b.Why)) < 0
	})
	return list(all, ""), nil
}

// comparePointers orders texts. nil is equal to "".
func comparePointers(a, b *string) int {
	var x, y string
	if a != nil {
		x = *a
	}
	if b != nil {
		y = *b
	}
	return cmp.Compare(x, y)
}

// traitsOf returns the members by name, with the kinds that they can run.
func traitsOf(ctx context.Context, s *Server) (members []store.Member, err error) {
	if s.cfg.Cluster == nil {
		if s.cfg.Workers != nil {
			members = slices.Clone(s.cfg.Workers())
		}
		// The row of this node has the extensions of the last reload. The traits of the engine are those of the
		// start.
		if !slices.ContainsFunc(members, func(m store.Member) bool { return !m.Worker }) {
			members = append(members, store.Member{Name: s.cfg.Node.Name, Slots: 1, Traits: s.engine.Traits()})
		}
	} else {
		r, err := s.roll(ctx)
		if err != nil {
			return nil, err
		}
		members = r.members
	}
	sort.Slice(members, func(i, j int) bool { return members[i].Name < members[j].Name })
	return members, nil
}
