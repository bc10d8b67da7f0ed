package storetest

import "skein.dev/skein/internal/store"

// gitSources covers the repositories from which namespaces get workflows.
func gitSources() []check {
	return []check{
		{"a git source is replaced by its next version only, and keeps its state", gitSourceReplaced},
		{"the state of a git source is written once for each version and seq", gitStateGuarded},
		{"git sources are listed in pages", gitSourcesListed},
	}
}

func gitSourceReplaced(b *bed) {
	g := store.GitSource{Namespace: "shop", Name: "flows", Version: 2, Shard: 3, Spec: []byte(`{"url":"x"}`), By: "ann·"}
	_, err := b.s.PutGitSource(b.ctx, g)
	b.is(err, store.ErrFenced)
	_, err = b.s.GitSourceOf(b.ctx, "shop", "flows")
	b.is(err, store.ErrNotFound)
	g.Version = 1
	first, err := b.s.PutGitSource(b.ctx, g)
	b.ok(err)
	g.Created, g.Modified = first.Created, first.Modified
	b.same(first, g, "the source")
	_, err = b.s.PutGitSource(b.ctx, g)
	b.is(err, store.ErrFenced)
	g.State = []byte("{}")
	b.ok(b.s.SetGitState(b.ctx, g))
	g.Version, g.Spec, g.By, g.Shard, g.State = 2, []byte("{}"), "bob", 9, nil
	second, err := b.s.PutGitSource(b.ctx, g)
	b.ok(err)
	b.same([]any{second.Created, second.Shard, second.Seq, string(second.State)}, []any{first.Created, first.Shard, int64(1), "{}"}, "what stays")
	is, err := b.s.GitSourceOf(b.ctx, "shop", "flows")
	b.ok(err)
	b.same(is, second, "the second version")
	b.ok(b.s.DropGitSource(b.ctx, "shop", "flows"))
	b.is(b.s.DropGitSource(b.ctx, "shop", "flows"), store.ErrNotFound)
	_, err = b.s.GitSourceOf(b.ctx, "shop", "flows")
	b.is(err, store.ErrNotFound)
}

func gitStateGuarded(b *bed) {
	g, err := b.s.PutGitSource(b.ctx, store.GitSource{Namespace: "shop", Name: "flows", Version: 1, Spec: []byte("{}")})
	b.ok(err)
	g.State = []byte("a")
	b.ok(b.s.SetGitState(b.ctx, g))
	g.State = []byte("b")
	b.is(b.s.SetGitState(b.ctx, g), store.ErrFenced)
	g.Seq = 1
	b.ok(b.s.SetGitState(b.ctx, g))
	g.Seq, g.Version = 2, 2
	b.is(b.s.SetGitState(b.ctx, g), store.ErrFenced)
	is, err := b.s.GitSourceOf(b.ctx, "shop", "flows")
	b.ok(err)
	b.same([]any{string(is.State), is.Seq}, []any{"b", int64(2)}, "the state")
	g.Name = "none"
	b.is(b.s.SetGitState(b.ctx, g), store.ErrFenced)
}

func gitSourcesListed(b *bed) {
	var want []store.GitSource
	for _, key := range [][2]string{{"a", "z"}, {"b", "a"}, {"b", "b"}} {
		g, err := b.s.PutGitSource(b.ctx, store.GitSource{Namespace: key[0], Name: key[1], Version: 1, Spec: []byte(key[1])})
		b.ok(err)
		want = append(want, g)
	}
	for i := range want {
		ns, name := "", ""
		if i > 0 {
			ns, name = want[i-1].Namespace, want[i-1].Name
		}
		some, err := b.s.GitSourceList(b.ctx, ns, name, 2)
		b.ok(err)
		b.same(some, want[i:min(i+2, len(want))], "a page")
	}
}
