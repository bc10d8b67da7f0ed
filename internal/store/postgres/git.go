package postgres

import (
	"context"
	"errors"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.GitSources = (*DB)(nil)

// gitSources implements store.GitSources for the database that embeds it.
type gitSources struct{ d *DB }

// PutGitSource implements store.GitSources.
func (e gitSources) PutGitSource(ctx context.Context, g store.GitSource) (store.GitSource, error) {
	found, err := e.change(ctx, "putGitSource", args{}.text(g.Namespace).text(g.Name).int8(g.Version).int8(int64(g.Shard)).blob(whole(g.Spec)).text(g.By).
		int8(store.GitSourcesMax))
	switch {
	case err != nil:
		return g, fmt.Errorf("git source %s/%s: %w", g.Namespace, g.Name, err)
	case len(found) > 0:
		return found[0], nil
	}
	_, err = e.GitSourceOf(ctx, g.Namespace, g.Name)
	switch {
	case errors.Is(err, store.ErrNotFound) && g.Version == 1:
		return g, fmt.Errorf("there are already %d git sources, the limit: %w", store.GitSourcesMax, store.ErrRefused)
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return g, err
	}
	return g, fmt.Errorf("git source %s/%s: %w", g.Namespace, g.Name, store.ErrFenced)
}

// SetGitState implements store.GitSources.
func (e gitSources) SetGitState(ctx context.Context, g store.GitSource) error {
	if err := ended(ctx, "setGitState"); err != nil {
		return err
	}
	var found []store.GitSource
	err := e.d.change(ctx, nil, query{"setGitState", args{}.text(g.Namespace).text(g.Name).int8(g.Version).int8(g.Seq).blob(whole(g.State)), into(&found, scanGitSource)})
	if err == nil && len(found) == 0 {
		err = store.ErrFenced
	}
	if err != nil {
		return fmt.Errorf("git source %s/%s: %w", g.Namespace, g.Name, err)
	}
	return nil
}

// DropGitSource implements store.GitSources.
func (e gitSources) DropGitSource(ctx context.Context, namespace, name string) error {
	found, err := e.change(ctx, "dropGitSource", args{}.text(namespace).text(name))
	if err == nil && len(found) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("git source %s/%s: %w", namespace, name, err)
	}
	return nil
}

func (e gitSources) change(ctx context.Context, name string, a args) (found []store.GitSource, err error) {
	if err := ended(ctx, name); err != nil {
		return nil, err
	}
	err = e.d.change(ctx, nil, notedQuery(ctx, query{name, a, into(&found, scanGitSource)}))
	return found, err
}

// GitSourceOf implements store.GitSources.
func (e gitSources) GitSourceOf(ctx context.Context, namespace, name string) (store.GitSource, error) {
	return first(ctx, e.d, query{name: "gitSourceOf", args: args{}.text(namespace).text(name)}, scanGitSource)
}

// GitSourceList implements store.GitSources.
func (e gitSources) GitSourceList(ctx context.Context, namespace, name string, limit int) ([]store.GitSource, error) {
	return list(ctx, e.d, query{name: "gitSourceList", args: args{}.text(namespace).text(name).int8(int64(limit))}, scanGitSource)
}

func scanGitSource(r *row, g *store.GitSource) error {
	g.Namespace, g.Name, g.Version, g.Shard, g.Spec, g.State = r.text(), r.text(), r.int(), dag.ShardID(r.int()), r.blob(), r.blob()
	g.Seq, g.By, g.Created, g.Modified = r.int(), r.text(), r.micros(), r.micros()
	return r.damaged("git source %s/%s", g.Namespace, g.Name)
}
