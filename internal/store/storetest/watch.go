package storetest

import (
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

func alertRulesReplaced(b *bed) {
	all, err := b.s.AlertRules(b.ctx)
	b.ok(err)
	b.same(len(all), 0, "no rules at first")
	r := store.AlertRules{Namespace: store.SystemNamespace, Version: 2, Data: []byte{0, 255}, By: "ann·"}
	_, err = b.s.PutAlertRules(b.ctx, r)
	b.is(err, store.ErrFenced)
	r.Version = 1
	first, err := b.s.PutAlertRules(b.ctx, r)
	b.ok(err)
	r.Created, r.Modified = first.Created, first.Modified
	b.same(first, r, "the rules")
	_, err = b.s.PutAlertRules(b.ctx, r)
	b.is(err, store.ErrFenced)
	r.Version, r.Data = 2, []byte("{}")
	second, err := b.s.PutAlertRules(b.ctx, r)
	b.ok(err)
	b.same(second.Created, first.Created, "made")
	all, err = b.s.AlertRules(b.ctx)
	b.ok(err)
	b.same(all, []store.AlertRules{second}, "all rules")
}

// watchedFound checks that a query finds a workflow by the rules of its current version.
func watchedFound(b *bed) {
	const rules = `{"name":"w","alerts":[{"name":"r"}]}`
	def := func(w dag.WorkflowID, n int32, text string) store.Version {
		v := version(w, n)
		v.Def, v.Files = []byte(text), nil
		return v
	}
	var gone store.Workflow
	b.put(func(x *store.Batch) {
		for id, defs := range map[dag.WorkflowID][]string{11: {rules}, 12: {`{"tasks":["\"alerts\":[ in a text"]}`}, 13: {rules, "{}"}, 14: {"{}", rules}, 15: {rules}} {
			w := workflow(id, "w"+string('a'+rune(id)))
			w.Version, w.Latest = int32(len(defs)), int32(len(defs))
			x.WorkflowInserts = append(x.WorkflowInserts, w)
			for i, text := range defs {
				x.Versions = append(x.Versions, def(id, int32(i+1), text))
			}
			if id == 15 {
				gone = w
			}
		}
		slices.SortFunc(x.WorkflowInserts, func(a, b store.Workflow) int { return int(a.ID - b.ID) })
	})
	b.put(func(x *store.Batch) {
		gone.State, gone.Revision = store.WorkflowDeleted, gone.Revision+1
		x.WorkflowUpdates = append(x.WorkflowUpdates, gone)
	})
	all, err := b.s.Watched(b.ctx, []dag.ShardID{0})
	b.ok(err)
	b.same(all, []store.Watched{{Workflow: 11, Version: 1, Def: []byte(rules)}, {Workflow: 14, Version: 2, Def: []byte(rules)}}, "those with rules")
	all, err = b.s.Watched(b.ctx, nil)
	b.ok(err)
	b.same(len(all), 0, "those of no shard")
}

// memberLost checks that a member that was declared dead is listed as lost until a member with its name
// joins.
func memberLost(b *bed, c store.Workers) {
	one, two := lists(b, c, 1, "one"), lists(b, c, 2, "two")
	b.ok(c.Leave(b.ctx, two.Handler))
	b.ok(c.Lose(b.ctx, one.Handler))
	b.ok(c.Lose(b.ctx, 9999))
	all, err := b.s.LostMembers(b.ctx)
	b.ok(err)
	if len(all) != 1 || all[0].Name != "one" || !all[0].Worker || all[0].Handler != one.Handler || all[0].At == 0 {
		b.Fatalf("lost: %+v", all)
	}
	again := lists(b, c, 3, "one")
	all, err = b.s.LostMembers(b.ctx)
	b.ok(err)
	b.same(len(all), 0, "it is back")
	b.ok(c.Lose(b.ctx, again.Handler))
	all, err = b.s.LostMembers(b.ctx)
	b.ok(err)
	if len(all) != 1 || all[0].Handler != again.Handler {
		b.Errorf("lost again: %+v", all)
	}
}

// nodeLost checks that Depose records a lost member only in the call that removes it.
func nodeLost(b *bed, c store.Cluster) {
	m := b.member(c, 1, "n1")
	members, _ := b.look(c)
	won, err := c.Depose(b.ctx, m.Handler, members[m.Handler].Beat+1)
	b.ok(err)
	b.same(won, false, "by another counter")
	all, err := b.s.LostMembers(b.ctx)
	b.ok(err)
	b.same(len(all), 0, "nothing is lost")
	won, err = c.Depose(b.ctx, m.Handler, members[m.Handler].Beat)
	b.ok(err)
	b.same(won, true, "by its counter")
	all, err = b.s.LostMembers(b.ctx)
	b.ok(err)
	if len(all) != 1 || all[0].Name != "n1" || all[0].Worker || all[0].Handler != m.Handler {
		b.Errorf("lost: %+v", all)
	}
	b.member(c, 2, "n1")
	all, err = b.s.LostMembers(b.ctx)
	b.ok(err)
	b.same(len(all), 0, "it is back")
}
