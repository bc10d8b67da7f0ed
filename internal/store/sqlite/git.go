package sqlite

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.GitSources = (*DB)(nil)

// gitSources implements store.GitSources for the database that embeds it.
type gitSources struct{ d *DB }

// PutGitSource implements store.GitSources.
func (e gitSources) PutGitSource(ctx context.Context, g store.GitSource) (store.GitSource, error) {
	d := e.d
	err := changeNoted(ctx, d, "change of git sources", func() error {
		n, err := d.stmts.putGitSource.row().text(g.Namespace).text(g.Name).int(g.Version).int(int64(g.Shard)).blob(some(g.Spec)).text(g.By).int(int64(wall())).
			int(store.GitSourcesMax).exec(d.conn)
		if err == nil && n == 0 {
			err = errNoChange
		}
		return err
	})
	if err != nil && !errors.Is(err, errNoChange) {
		return g, err
	}
	is, failed := e.GitSourceOf(ctx, g.Namespace, g.Name)
	switch {
	case err == nil:
		return is, failed
	case errors.Is(failed, store.ErrNotFound) && g.Version == 1:
		return g, fmt.Errorf("there are already %d git sources, the limit: %w", store.GitSourcesMax, store.ErrRefused)
	case failed != nil && !errors.Is(failed, store.ErrNotFound):
		return g, failed
	}
	return g, fmt.Errorf("git source %s/%s: %w", g.Namespace, g.Name, store.ErrFenced)
}

// SetGitState implements store.GitSources.
func (e gitSources) SetGitState(ctx context.Context, g store.GitSource) error {
	return e.d.changeBeside(ctx, "state of a git source", func() error {
		n, err := e.d.stmts.setGitState.row().text(g.Namespace).text(g.Name).int(g.Version).int(g.Seq).blob(some(g.State)).exec(e.d.conn)
		if err == nil && n == 0 {
			err = fmt.Errorf("git source %s/%s: %w", g.Namespace, g.Name, store.ErrFenced)
		}
		return err
	})
}

// DropGitSource implements store.GitSources.
func (e gitSources) DropGitSource(ctx context.Context, namespace, name string) error {
	return changeNoted(ctx, e.d, "change of git sources", func() error {
		n, err := e.d.stmts.dropGitSource.row().text(namespace).text(name).exec(e.d.conn)
		if err == nil && n == 0 {
			err = fmt.Errorf("git source %s/%s: %w", namespace, name, store.ErrNotFound)
		}
		return err
	})
}

// GitSourceOf implements store.GitSources.
func (e gitSources) GitSourceOf(ctx context.Context, namespace, name string) (store.GitSource, error) {
	return first(e.d, ctx, "gitSourceOf", []any{namespace, name}, scanGitSource)
}

// GitSourceList implements store.GitSources.
func (e gitSources) GitSourceList(ctx context.Context, namespace, name string, limit int) ([]store.GitSource, error) {
	return list(e.d, ctx, "gitSourceList", []any{namespace, name, int64(limit)}, scanGitSource)
}

func scanGitSource(s *sqlite.Stmt, g *store.GitSource) error {
	r := row{s: s}
	g.Namespace, g.Name, g.Version, g.Shard, g.Spec, g.State = r.text(), r.text(), r.int(), dag.ShardID(r.int()), r.blob(), r.blob()
	g.Seq, g.By, g.Created, g.Modified = r.int(), r.text(), r.micros(), r.micros()
	return nil
}
