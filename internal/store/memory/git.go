package memory

import (
	"bytes"
	"context"

	"skein.dev/skein/internal/store"
)

var _ store.GitSources = (*Store)(nil)

// gitSources implements store.GitSources for the store that embeds it.
type gitSources struct {
	s   *Store
	all named[store.GitSource]
}

func newGitSources(s *Store) gitSources {
	return gitSources{s, named[store.GitSource]{what: "git source", of: func(g *store.GitSource) (string, string) { return g.Namespace, g.Name }}}
}

func (e *gitSources) change(ctx context.Context, change func() error) error {
	return e.s.write(ctx, Op{Kind: GitBefore}, GitAfter, e.s.noted(ctx, change))
}

// PutGitSource implements store.GitSources.
func (e *gitSources) PutGitSource(ctx context.Context, g store.GitSource) (store.GitSource, error) {
	err := e.change(ctx, func() error {
		if err := checkTexts("git source", g.Namespace, g.Name, g.By); err != nil {
			return err
		}
		old, missing := e.all.get(g.Namespace, g.Name)
		g.Created, g.Modified, g.State, g.Seq = e.s.clock(), e.s.clock(), nil, 0
		if missing == nil {
			g.Created, g.Shard, g.State, g.Seq = old.Created, old.Shard, old.State, old.Seq
		}
		switch {
		case g.Version != old.Version+1:
			return missed("git source %s/%s is at version %d", g.Namespace, g.Name, old.Version)
		case missing != nil && len(e.all.rows) >= store.GitSourcesMax:
			return refused("there are already %d git sources, the limit", store.GitSourcesMax)
		}
		g.Spec = bytes.Clone(g.Spec)
		e.all.put(g)
		return nil
	})
	return g, err
}

// SetGitState implements store.GitSources.
func (e *gitSources) SetGitState(ctx context.Context, g store.GitSource) error {
	return e.s.write(ctx, Op{Kind: GitBefore}, GitAfter, func() error {
		is, err := e.all.get(g.Namespace, g.Name)
		if err != nil || is.Version != g.Version || is.Seq != g.Seq {
			return missed("git source %s/%s is at version %d, state %d", g.Namespace, g.Name, is.Version, is.Seq)
		}
		is.State, is.Seq = bytes.Clone(g.State), is.Seq+1
		e.all.put(is)
		return nil
	})
}

// DropGitSource implements store.GitSources.
func (e *gitSources) DropGitSource(ctx context.Context, namespace, name string) error {
	return e.change(ctx, func() error { return e.all.drop(namespace, name) })
}

// GitSourceOf implements store.GitSources.
func (e *gitSources) GitSourceOf(ctx context.Context, namespace, name string) (g store.GitSource, err error) {
	err = e.s.read(ctx, Read, func() (err error) {
		g, err = e.all.get(namespace, name)
		return err
	})
	return g, err
}

// GitSourceList implements store.GitSources.
func (e *gitSources) GitSourceList(ctx context.Context, namespace, name string, limit int) (some []store.GitSource, err error) {
	err = e.s.read(ctx, Read, func() error {
		some = e.all.after(namespace, name, limit)
		return nil
	})
	return some, err
}
