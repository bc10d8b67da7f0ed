package memory

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// PutAlertRules implements store.Alerts.
func (e *alerts) PutAlertRules(ctx context.Context, r store.AlertRules) (store.AlertRules, error) {
	err := e.change(ctx, func() error {
		if err := checkTexts("alert rules", r.Namespace, r.By); err != nil {
			return err
		}
		i, there := slices.BinarySearchFunc(e.rules, r.Namespace, func(o store.AlertRules, ns string) int { return strings.Compare(o.Namespace, ns) })
		was := int64(0)
		r.Created, r.Modified = e.s.clock(), e.s.clock()
		if there {
			was, r.Created = e.rules[i].Version, e.rules[i].Created
		}
		if r.Version != was+1 {
			return missed("the alert rules of namespace %s are at version %d", r.Namespace, was)
		}
		r.Data = bytes.Clone(r.Data)
		if there {
			e.rules[i] = r
		} else {
			e.rules = slices.Insert(e.rules, i, r)
		}
		return nil
	})
	return r, err
}

// AlertRules implements store.Alerts.
func (e *alerts) AlertRules(ctx context.Context) (all []store.AlertRules, err error) {
	err = e.s.read(ctx, Read, func() error {
		all = slices.Clone(e.rules)
		return nil
	})
	return all, err
}

// LostMembers implements store.Alerts.
func (e *alerts) LostMembers(ctx context.Context) (all []store.LostMember, err error) {
	err = e.s.read(ctx, Read, func() error {
		all = slices.Clone(e.lost)
		return nil
	})
	return all, err
}

// lose records that a member was lost. Records are bounded in age and number.
func (e *alerts) lose(m *store.Member) {
	now := e.s.clock()
	e.find(m.Name)
	e.lost = slices.DeleteFunc(e.lost, func(o store.LostMember) bool { return o.At < now-dag.Micros(store.LostMembersKept.Microseconds()) })
	if len(e.lost) < store.LostMembersMax {
		e.lost = append(e.lost, store.LostMember{Name: m.Name, Worker: m.Worker, Handler: m.Handler, At: now})
		slices.SortFunc(e.lost, func(a, b store.LostMember) int { return strings.Compare(a.Name, b.Name) })
	}
}

// find drops the record that a member was lost, because a member with its name has joined.
func (e *alerts) find(name string) {
	e.lost = slices.DeleteFunc(slices.Clone(e.lost), func(o store.LostMember) bool { return o.Name == name })
}

// Lose implements store.Workers.
func (e *alerts) Lose(ctx context.Context, handler dag.HandlerID) error {
	s := e.s
	return s.member(ctx, func() error {
		if m, listed := s.members[handler]; listed {
			e.lose(&m)
		}
		delete(s.members, handler)
		free(s, handler)
		return nil
	})
}

// watchedKey is the key of alert rules in the JSON of a definition.
var watchedKey = []byte(`"alerts":[`)

// Watched implements store.Alerts.
func (e *alerts) Watched(ctx context.Context, shards []dag.ShardID) (all []store.Watched, err error) {
	s := e.s
	err = s.read(ctx, Read, func() error {
		for _, w := range s.workflows {
			if w.State == store.WorkflowDeleted || !slices.Contains(shards, w.Shard) {
				continue
			}
			for i := range s.versions[w.ID] {
				if v := &s.versions[w.ID][i]; v.Version == w.Version && bytes.Contains(v.Def, watchedKey) {
					all = append(all, store.Watched{Workflow: w.ID, Version: v.Version, Def: bytes.Clone(v.Def)})
				}
			}
		}
		return nil
	})
	slices.SortFunc(all, func(a, b store.Watched) int { return int(a.Workflow - b.Workflow) })
	return all, err
}
