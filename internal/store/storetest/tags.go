package storetest

import (
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// runTags checks that queries find runs by their tags, also together with other conditions, until the runs
// are deleted.
func runTags(b *bed) {
	b.put(func(x *store.Batch) { x.WorkflowInserts = []store.Workflow{workflow(1, "alpha"), workflow(2, "beta")} })
	var rows []dag.RunRow
	for i := range 60 {
		r := b.run([]dag.RunState{dag.RunSucceeded, dag.RunFailed, dag.RunRunning, dag.RunStopped}[i%4])
		if r.Workflow = dag.WorkflowID(1 + i%2); i%3 > 0 {
			r.User = "bob"
		}
		if i%5 > 0 {
			tags := dag.Tags(fmt.Sprintf("order=%d\nteam=%s\nwhere=Zürich", i, []string{"data", "ops"}[i/2%2]))
			r.Fire = &dag.Fire{Tags: tags, Trigger: []string{"", "nightly"}[i%2]}
		}
		rows = append(rows, r)
	}
	b.add(rows[:20]...)
	for i := 20; i < len(rows); i++ {
		b.add(rows[i])
	}
	look := func() {
		for _, q := range []store.RunQuery{
			{Tags: "team=data"}, {Tags: "team=data\nwhere=Zürich"}, {Tags: "order=17"}, {Tags: "order=17\nteam=data"}, {Tags: "order=1"}, {Tags: "team=dat"},
			{Tags: "team=ops", Workflow: 2}, {Tags: "team=ops", User: "bob"}, {Tags: "team=ops", States: []string{"failed"}},
			{Tags: "team=ops", States: []string{"active"}}, {Tags: "team=data", States: []string{"failed", "active"}, Workflow: 1},
			{Tags: "team=data", Trigger: "nightly"}, {Tags: "team=data", Not: 1}, {Tags: "team=data", Since: rows[30].Created},
		} {
			fits := func(r *dag.RunRow) bool { return q.Fits(r, q.Expanded(), &store.Names{}) && r.Workflow != q.Not }
			b.wantRuns(rows, q, fits)
			n := int64(0)
			for i := range rows {
				if fits(&rows[i]) {
					n++
				}
			}
			q.Count, q.Limit = true, 2
			page, err := b.s.Runs(b.ctx, q)
			b.ok(err)
			b.same(page.Total, store.Total{N: n, Exact: true}, "the number of runs with "+string(q.Tags))
		}
		b.sound()
	}
	look()
	got, err := b.s.Run(b.ctx, rows[17].ID)
	b.ok(err)
	b.same(got.Tags(), rows[17].Tags(), "the tags of a run")
	did, err := b.s.(store.Retention).Expire(b.ctx, b.owner, store.Expiry{Workflow: 1, Before: 1 << 62, Limit: 7})
	b.ok(err)
	b.same(len(did.Runs), 7, "deleted runs")
	rows = slices.DeleteFunc(rows, func(r dag.RunRow) bool { return slices.Contains(did.Runs, r.ID) })
	look()
}

// workflowTags checks that queries find workflows by their tags.
func workflowTags(b *bed) {
	one, two, three := workflow(1, "alpha"), workflow(2, "beta"), workflow(3, "gamma")
	one.Tags, two.Tags = "team=data", "a=1\nteam=data\nz=2"
	b.put(func(x *store.Batch) { x.WorkflowInserts = []store.Workflow{one, two, three} })
	for tags, want := range map[dag.Tags][]string{
		"team=data": {"default/alpha", "default/beta"}, "a=1\nz=2": {"default/beta"}, "team=dat": nil, "eam=data": nil, "a=1\nteam=ops": nil,
		"": {"default/alpha", "default/beta", "default/gamma"},
	} {
		b.same(b.listed(store.WorkflowQuery{Tags: tags}), want, "workflows with "+string(tags))
	}
	b.same(b.listed(store.WorkflowQuery{Tags: "team=data", Limit: 1, After: "default/alpha"}), []string{"default/beta"}, "the next page")
	next := revised(one)
	next.Tags = "team=ops"
	b.put(func(x *store.Batch) { x.WorkflowUpdates = []store.Workflow{next} })
	got, err := b.s.WorkflowByID(b.ctx, 1)
	b.ok(err)
	b.same(got, next, "after a change")
	b.same(b.listed(store.WorkflowQuery{Tags: "team=data"}), []string{"default/beta"}, "workflows after a change")
}
