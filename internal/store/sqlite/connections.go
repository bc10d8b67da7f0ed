package sqlite

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/store"
)

var _ store.Connections = (*DB)(nil)

// connections implements store.Connections for the database that embeds it.
type connections struct{ d *DB }

// PutConnection implements store.Connections.
func (e connections) PutConnection(ctx context.Context, c store.Connection) (store.Connection, error) {
	d := e.d
	err := changeNoted(ctx, d, "change of connections", func() error {
		n, err := d.stmts.putConnection.row().text(c.Namespace).text(c.Name).int(c.Version).blob(some(c.Data)).text(c.By).int(int64(wall())).
			int(store.ConnectionsMax).exec(d.conn)
		if err == nil && n == 0 {
			err = errNoChange
		}
		return err
	})
	if err != nil && !errors.Is(err, errNoChange) {
		return c, err
	}
	is, failed := e.ConnectionOf(ctx, c.Namespace, c.Name)
	switch {
	case err == nil:
		return is, failed
	case errors.Is(failed, store.ErrNotFound) && c.Version == 1:
		return c, fmt.Errorf("there are already %d connections, the limit: %w", store.ConnectionsMax, store.ErrRefused)
	case failed != nil && !errors.Is(failed, store.ErrNotFound):
		return c, failed
	}
	return c, fmt.Errorf("connection %s/%s: %w", c.Namespace, c.Name, store.ErrFenced)
}

// DropConnection implements store.Connections.
func (e connections) DropConnection(ctx context.Context, namespace, name string) error {
	return changeNoted(ctx, e.d, "change of connections", func() error {
		n, err := e.d.stmts.dropConnection.row().text(namespace).text(name).exec(e.d.conn)
		if err == nil && n == 0 {
			err = fmt.Errorf("connection %s/%s: %w", namespace, name, store.ErrNotFound)
		}
		return err
	})
}

// ConnectionOf implements store.Connections.
func (e connections) ConnectionOf(ctx context.Context, namespace, name string) (store.Connection, error) {
	return first(e.d, ctx, "connectionOf", []any{namespace, name}, scanConnection)
}

// ConnectionList implements store.Connections.
func (e connections) ConnectionList(ctx context.Context, namespace, name string, limit int) ([]store.Connection, error) {
	return list(e.d, ctx, "connectionList", []any{namespace, name, int64(limit)}, scanConnection)
}

func scanConnection(s *sqlite.Stmt, c *store.Connection) error {
	r := row{s: s}
	c.Namespace, c.Name, c.Version, c.Data, c.By, c.Created, c.Modified = r.text(), r.text(), r.int(), r.blob(), r.text(), r.micros(), r.micros()
	return nil
}
