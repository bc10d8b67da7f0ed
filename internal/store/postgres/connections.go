package postgres

import (
	"context"
	"errors"
	"fmt"

	"skein.dev/skein/internal/store"
)

var _ store.Connections = (*DB)(nil)

// connections implements store.Connections for the database that embeds it.
type connections struct{ d *DB }

// PutConnection implements store.Connections.
func (e connections) PutConnection(ctx context.Context, c store.Connection) (store.Connection, error) {
	found, err := e.change(ctx, "putConnection", args{}.text(c.Namespace).text(c.Name).int8(c.Version).blob(whole(c.Data)).text(c.By).int8(store.ConnectionsMax))
	switch {
	case err != nil:
		return c, fmt.Errorf("connection %s/%s: %w", c.Namespace, c.Name, err)
	case len(found) > 0:
		return found[0], nil
	}
	_, err = e.ConnectionOf(ctx, c.Namespace, c.Name)
	switch {
	case errors.Is(err, store.ErrNotFound) && c.Version == 1:
		return c, fmt.Errorf("there are already %d connections, the limit: %w", store.ConnectionsMax, store.ErrRefused)
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return c, err
	}
	return c, fmt.Errorf("connection %s/%s: %w", c.Namespace, c.Name, store.ErrFenced)
}

// DropConnection implements store.Connections.
func (e connections) DropConnection(ctx context.Context, namespace, name string) error {
	found, err := e.change(ctx, "dropConnection", args{}.text(namespace).text(name))
	if err == nil && len(found) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("connection %s/%s: %w", namespace, name, err)
	}
	return nil
}

func (e connections) change(ctx context.Context, name string, a args) (found []store.Connection, err error) {
	if err := ended(ctx, name); err != nil {
		return nil, err
	}
	err = e.d.change(ctx, nil, notedQuery(ctx, query{name, a, into(&found, scanConnection)}))
	return found, err
}

// ConnectionOf implements store.Connections.
func (e connections) ConnectionOf(ctx context.Context, namespace, name string) (store.Connection, error) {
	return first(ctx, e.d, query{name: "connectionOf", args: args{}.text(namespace).text(name)}, scanConnection)
}

// ConnectionList implements store.Connections.
func (e connections) ConnectionList(ctx context.Context, namespace, name string, limit int) ([]store.Connection, error) {
	return list(ctx, e.d, query{name: "connectionList", args: args{}.text(namespace).text(name).int8(int64(limit))}, scanConnection)
}

func scanConnection(r *row, c *store.Connection) error {
	c.Namespace, c.Name, c.Version, c.Data, c.By = r.text(), r.text(), r.int(), r.blob(), r.text()
	c.Created, c.Modified = r.micros(), r.micros()
	return r.damaged("connection %s/%s", c.Namespace, c.Name)
}
