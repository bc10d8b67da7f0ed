package storetest

import (
	"math"
	"slices"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

func workflows() []check {
	return []check{
		{"by name and by id", func(b *bed) {
			w := store.Workflow{ID: 3, Shard: 0, Namespace: "équipe", Name: "night/ly", State: store.WorkflowPaused,
				Version: 5, Latest: 6, MaxRuns: math.MaxInt32, Revision: 7, Created: 8, Modified: 9}
			b.put(func(x *store.Batch) { x.WorkflowInserts = []store.Workflow{w} })
			got, err := b.s.Workflow(b.ctx, w.Namespace, w.Name)
			b.ok(err)
			b.same(got, w, "by name")
			got, err = b.s.WorkflowByID(b.ctx, 3)
			b.ok(err)
			b.same(got, w, "by id")
		}},
		{"not found", func(b *bed) {
			b.world()
			for _, name := range [][2]string{{"default", "other"}, {"other", "first"}, {"", "first"}, {"default", ""}, {"default", "First"}} {
				_, err := b.s.Workflow(b.ctx, name[0], name[1])
				b.is(err, store.ErrNotFound)
			}
			_, err := b.s.WorkflowByID(b.ctx, 99)
			b.is(err, store.ErrNotFound)
		}},
		{"update", updateWorkflow},
		{"a deleted one is hidden and its name is free", deletedWorkflow},
		{"a name is unique in its namespace", func(b *bed) {
			one, two := workflow(1, "same"), workflow(2, "same")
			two.Namespace = "other"
			b.put(func(x *store.Batch) { x.WorkflowInserts = []store.Workflow{one, two} })
			b.same(b.listed(store.WorkflowQuery{}), []string{"default/same", "other/same"}, "listed")
		}},
		{"listed by namespace, then name", listWorkflows},
		{"found by their tags", workflowTags},
	}
}

func updateWorkflow(b *bed) {
	w := b.world().flow
	for range 3 {
		w = revised(w)
		w.Latest++
		w.MaxRuns = int32(w.Revision % 3)
		w.Modified++
		lie := w
		lie.Name, lie.Namespace, lie.Created, lie.Shard = "renamed", "moved", 999, 5
		b.put(func(x *store.Batch) { x.WorkflowUpdates = []store.Workflow{lie} })
		got, err := b.s.Workflow(b.ctx, w.Namespace, w.Name)
		b.ok(err)
		b.same(got, w, "the workflow")
	}
	next, second := revised(w), revised(revised(w))
	b.put(func(x *store.Batch) { x.WorkflowUpdates = []store.Workflow{next, second} })
	got, err := b.s.WorkflowByID(b.ctx, w.ID)
	b.ok(err)
	b.same(got, second, "after two revisions in one batch")
}

func deletedWorkflow(b *bed) {
	old := b.world().flow
	gone := revised(old)
	gone.State = store.WorkflowDeleted
	b.put(func(x *store.Batch) { x.WorkflowUpdates = []store.Workflow{gone} })
	_, err := b.s.Workflow(b.ctx, old.Namespace, old.Name)
	b.is(err, store.ErrNotFound)
	b.same(b.listed(store.WorkflowQuery{}), []string(nil), "listed")
	got, err := b.s.WorkflowByID(b.ctx, old.ID)
	b.ok(err)
	b.same(got, gone, "by id")
	_, err = b.s.Version(b.ctx, old.ID, 1)
	b.ok(err)

	again := workflow(2, old.Name)
	b.put(func(x *store.Batch) { x.WorkflowInserts = []store.Workflow{again} })
	got, err = b.s.Workflow(b.ctx, old.Namespace, old.Name)
	b.ok(err)
	b.same(got, again, "the new one")
	back := revised(gone)
	x := b.batch()
	x.WorkflowUpdates = []store.Workflow{back}
	b.fails(x, store.ErrRefused) // another workflow has this name
	away := revised(again)
	away.State = store.WorkflowDeleted
	b.put(func(x *store.Batch) { x.WorkflowUpdates = []store.Workflow{away, back} })
	got, err = b.s.Workflow(b.ctx, old.Namespace, old.Name)
	b.ok(err)
	b.same(got, back, "the old one, back")
}

func (b *bed) listed(q store.WorkflowQuery) []string {
	b.Helper()
	list, err := b.s.Workflows(b.ctx, q)
	b.ok(err)
	var names []string
	for _, w := range list {
		names = append(names, w.Namespace+"/"+w.Name)
	}
	return names
}

// listWorkflows checks that lists and cursors are ordered by namespace and then by name, not by the joined
// text. In the joined text, "a-b" sorts before "a/".
func listWorkflows(b *bed) {
	names := [][2]string{{"B", "z"}, {"a", "b"}, {"a", "b/c"}, {"a", "c"}, {"a-b", "a"}, {"a-b", "é"}, {"b", "A"}, {"b", "a"}}
	var all []string
	b.put(func(x *store.Batch) {
		for i, n := range names {
			w := workflow(dag.WorkflowID(i*3%8+1), n[1])
			w.Namespace = n[0]
			x.WorkflowInserts = append(x.WorkflowInserts, w)
			all = append(all, n[0]+"/"+n[1])
		}
	})
	b.same(b.listed(store.WorkflowQuery{}), all, "all")
	for _, limit := range []int{1, 3, 8, 1000} {
		var paged []string
		for after := ""; ; {
			page := b.listed(store.WorkflowQuery{After: after, Limit: limit})
			if len(page) == 0 {
				break
			}
			paged = append(paged, page...)
			after = page[len(page)-1]
		}
		b.same(paged, all, "by pages")
	}
	b.same(b.listed(store.WorkflowQuery{Namespace: "a", Limit: 10}), all[1:4], "of a namespace")
	b.same(b.listed(store.WorkflowQuery{Namespace: "a", After: "a/b", Limit: 1}), all[2:3], "of a namespace, after")
	b.same(b.listed(store.WorkflowQuery{Namespace: "none", Limit: 10}), []string(nil), "of no namespace")
	others := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return strings.HasPrefix(name, "a/") })
	b.same(b.listed(store.WorkflowQuery{Not: "a", Limit: 10}), others, "of other namespaces")
	b.same(b.listed(store.WorkflowQuery{Not: "a", After: all[0], Limit: 1}), others[1:2], "of other namespaces, after")
}

func versions() []check {
	return []check{
		{"one", func(b *bed) {
			v := version(1, 1)
			b.put(func(x *store.Batch) { x.Versions = []store.Version{v} })
			got, err := b.s.Version(b.ctx, 1, 1)
			b.ok(err)
			v.Files = nil
			b.same(got, v, "the version")
		}},
		{"not found", func(b *bed) {
			b.world()
			for _, miss := range []struct {
				w dag.WorkflowID
				n int32
			}{{1, 2}, {1, 0}, {2, 1}} {
				_, err := b.s.Version(b.ctx, miss.w, miss.n)
				b.is(err, store.ErrNotFound)
				files, err := b.s.Files(b.ctx, store.FileQuery{Workflow: miss.w, Version: miss.n})
				b.ok(err)
				b.same(len(files), 0, "files")
			}
			list, err := b.s.Versions(b.ctx, 2, 0, 10)
			b.ok(err)
			b.same(len(list), 0, "versions")
		}},
		{"newest first, without contents", listVersions},
		{"files by name", func(b *bed) {
			v := version(1, 1)
			v.Files = []store.File{{Name: "z", Mode: 0o777, Data: []byte{0}}, {Name: "a/é", Mode: 0, Data: []byte("x")},
				{Name: "a", Mode: 0o4755, Data: []byte("y")}, {Name: "B", Mode: 1<<32 - 1}}
			other := version(1, 2)
			b.put(func(x *store.Batch) { x.Versions = []store.Version{v, other} })
			got, err := b.s.Files(b.ctx, store.FileQuery{Workflow: 1, Version: 1})
			b.ok(err)
			b.same(got, []store.File{v.Files[3], v.Files[2], v.Files[1], v.Files[0]}, "files")
			for i := range got {
				got[i].Data, got[i].Size = nil, int64(len(got[i].Data))
			}
			heads, err := b.s.Files(b.ctx, store.FileQuery{Workflow: 1, Version: 1, Heads: true})
			b.ok(err)
			b.same(heads, got, "heads of files")
			got, err = b.s.Files(b.ctx, store.FileQuery{Workflow: 1, Version: 2})
			b.ok(err)
			b.same(got, other.Files, "files of the other")
		}},
		{"many files", func(b *bed) {
			v := version(1, 1)
			v.Files = nil
			for n := range 1200 {
				v.Files = append(v.Files, store.File{Name: runID(uint32(n)).String(), Mode: uint32(n), Data: []byte{byte(n)}})
			}
			b.put(func(x *store.Batch) { x.Versions = []store.Version{v} })
			got, err := b.s.Files(b.ctx, store.FileQuery{Workflow: 1, Version: 1})
			b.ok(err)
			b.same(got, v.Files, "files")
		}},
	}
}

func listVersions(b *bed) {
	var want []store.Version
	for _, n := range []int32{2, 10, 1, 9, 3} {
		v := version(1, n)
		b.put(func(x *store.Batch) { x.Versions = []store.Version{v, version(2, n)} })
		v.Source, v.Def, v.Graph, v.Files = nil, nil, nil, nil
		want = append(want, v)
	}
	slices.SortFunc(want, func(x, y store.Version) int { return int(y.Version - x.Version) })
	list := func(before int32, limit int, want []store.Version) {
		b.Helper()
		got, err := b.s.Versions(b.ctx, 1, before, limit)
		b.ok(err)
		b.same(got, want, "versions")
	}
	list(0, 10, want)
	list(0, 0, want)
	list(0, 2, want[:2])
	list(9, 2, want[2:4])
	list(8, 1, want[2:3])
	list(1, 5, nil)
}

func requests() []check {
	return []check{
		{"found by scope and key", func(b *bed) {
			one := store.Request{Scope: "apply default/x", Key: "k", Hash: []byte{0, 1}, Answer: []byte(`{"é":1}`), Created: 5}
			two := store.Request{Scope: "other", Key: "k", Hash: []byte{2}, Answer: []byte("x"), Created: 6}
			b.put(func(x *store.Batch) { x.Requests = []store.Request{one, two} })
			for _, r := range []store.Request{one, two} {
				got, err := b.s.Request(b.ctx, r.Scope, r.Key)
				b.ok(err)
				b.same(got, r, "the request")
			}
		}},
		{"not found", func(b *bed) {
			b.world()
			for _, miss := range [][2]string{{"scope", "other"}, {"other", key(0)}, {key(0), "scope"}, {"", ""}} {
				_, err := b.s.Request(b.ctx, miss[0], miss[1])
				b.is(err, store.ErrNotFound)
			}
		}},
		{"the first answer stays", func(b *bed) {
			b.world()
			x := &store.Batch{Requests: []store.Request{request(0)}}
			x.Requests[0].Answer = []byte("another")
			b.fails(x, store.ErrRefused)
		}},
	}
}

func messages() []check {
	return []check{
		{"oldest first", func(b *bed) {
			for n := range byte(9) {
				b.put(func(x *store.Batch) {
					x.Messages = []store.Message{{ID: 5, Payload: []byte{n, 0}, Created: dag.Micros(n)}, {Payload: []byte{n, 1}, Created: 3}}
				})
			}
			b.wantMessages(100, 18)
			b.wantMessages(0, 18)
			b.wantMessages(5, 5)
			b.wantMessages(1, 1)
		}},
		{"consumed are gone", func(b *bed) {
			b.put(func(x *store.Batch) {
				for n := range byte(6) {
					x.Messages = append(x.Messages, store.Message{Payload: []byte{n / 2, n % 2}, Created: dag.Micros(n)})
				}
			})
			first := b.wantMessages(2, 2)
			b.put(func(x *store.Batch) { x.Consumed = []int64{first[1].ID, first[0].ID} })
			rest, err := b.s.Messages(b.ctx, 0, 10)
			b.ok(err)
			b.same(len(rest), 4, "messages that are left")
			b.same(rest[0].Payload, []byte{1, 0}, "the first that is left")
		}},
		{"ids are never used again", func(b *bed) {
			var last int64
			for range 4 {
				b.put(func(x *store.Batch) { x.Messages = []store.Message{{Payload: []byte{0, 0}}} })
				got := b.wantMessages(5, 1)
				if got[0].ID <= last {
					b.Fatalf("id %d after %d", got[0].ID, last)
				}
				last = got[0].ID
				b.put(func(x *store.Batch) { x.Consumed = []int64{last} })
			}
		}},
		{"to their shard", func(b *bed) {
			for _, f := range b.fences {
				m := store.Message{From: 0, To: f.Shard, Payload: []byte{0, 0}, Created: 7}
				b.put(func(x *store.Batch) { x.Messages = []store.Message{m} })
				got, err := b.s.Messages(b.ctx, f.Shard, 10)
				b.ok(err)
				b.same(len(got), 1, "messages")
				m.ID = got[0].ID
				b.same(got[0], m, "the message")
			}
		}},
		{"only the receiver consumes", func(b *bed) {
			if len(b.fences) < 2 {
				return
			}
			b.put(func(x *store.Batch) { x.Messages = []store.Message{{To: 1, Payload: []byte("x")}} })
			got, err := b.s.Messages(b.ctx, 1, 10)
			b.ok(err)
			x := b.batch()
			x.Fences = x.Fences[:1]
			x.Consumed = []int64{got[0].ID}
			b.fails(x, store.ErrFenced)
		}},
	}
}

// wantMessages reads messages, and checks that their ids and payloads rise.
func (b *bed) wantMessages(limit, want int) []store.Message {
	b.Helper()
	got, err := b.s.Messages(b.ctx, 0, limit)
	b.ok(err)
	b.same(len(got), want, "messages")
	for i := 1; i < len(got); i++ {
		if got[i].ID <= got[i-1].ID || slices.Compare(got[i].Payload, got[i-1].Payload) <= 0 {
			b.Fatalf("out of order: %+v, %+v", got[i-1], got[i])
		}
	}
	return got
}

func handlers() []check {
	return []check{
		{"numbered and found", func(b *bed) {
			var want []store.Handler
			for n := 2; n < 6; n++ {
				h, err := b.s.Register(b.ctx, uuid(n), "nœud")
				b.ok(err)
				if h.ID <= b.owner || h.UUID != uuid(n) || h.Node != "nœud" || h.Started <= 0 {
					b.Fatalf("registered %+v", h)
				}
				want = append(want, h)
			}
			got, err := b.s.Handlers(b.ctx, []dag.HandlerID{want[0].ID, 9999, want[1].ID, want[2].ID, want[3].ID})
			b.ok(err)
			slices.SortFunc(got, func(x, y store.Handler) int { return int(x.ID - y.ID) })
			b.same(got, want, "handlers")
			got, err = b.s.Handlers(b.ctx, nil)
			b.ok(err)
			b.same(len(got), 0, "handlers of no ids")
		}},
		{"one life registers once", func(b *bed) {
			_, err := b.s.Register(b.ctx, uuid(1), "node-1")
			b.is(err, store.ErrRefused)
			h, err := b.s.Register(b.ctx, uuid(2), "node-1")
			b.ok(err)
			b.same(h.Node, "node-1", "the node of a second life")
		}},
		{"bad text", func(b *bed) {
			_, err := b.s.Register(b.ctx, uuid(2), "no\x00de")
			b.is(err, store.ErrRefused)
			_, err = b.s.Register(b.ctx, uuid(2), "node")
			b.ok(err)
		}},
	}
}
