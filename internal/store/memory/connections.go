package memory

import (
	"bytes"
	"context"

	"skein.dev/skein/internal/store"
)

var _ store.Connections = (*Store)(nil)

// connections implements store.Connections for the store that embeds it.
type connections struct {
	s   *Store
	all named[store.Connection]
}

func newConnections(s *Store) connections {
	return connections{s, named[store.Connection]{what: "connection", of: func(c *store.Connection) (string, string) { return c.Namespace, c.Name }}}
}

func (e *connections) change(ctx context.Context, change func() error) error {
	return e.s.write(ctx, Op{Kind: ConnectionsBefore}, ConnectionsAfter, e.s.noted(ctx, change))
}

// PutConnection implements store.Connections.
func (e *connections) PutConnection(ctx context.Context, c store.Connection) (store.Connection, error) {
	err := e.change(ctx, func() error {
		if err := checkTexts("connection", c.Namespace, c.Name, c.By); err != nil {
			return err
		}
		old, missing := e.all.get(c.Namespace, c.Name)
		c.Created, c.Modified = e.s.clock(), e.s.clock()
		if missing == nil {
			c.Created = old.Created
		}
		switch {
		case c.Version != old.Version+1:
			return missed("connection %s/%s is at version %d", c.Namespace, c.Name, old.Version)
		case missing != nil && len(e.all.rows) >= store.ConnectionsMax:
			return refused("there are already %d connections, the limit", store.ConnectionsMax)
		}
		c.Data = bytes.Clone(c.Data)
		e.all.put(c)
		return nil
	})
	return c, err
}

// DropConnection implements store.Connections.
func (e *connections) DropConnection(ctx context.Context, namespace, name string) error {
	return e.change(ctx, func() error { return e.all.drop(namespace, name) })
}

// ConnectionOf implements store.Connections.
func (e *connections) ConnectionOf(ctx context.Context, namespace, name string) (c store.Connection, err error) {
	err = e.s.read(ctx, Read, func() (err error) {
		c, err = e.all.get(namespace, name)
		return err
	})
	return c, err
}

// ConnectionList implements store.Connections.
func (e *connections) ConnectionList(ctx context.Context, namespace, name string, limit int) (some []store.Connection, err error) {
	err = e.s.read(ctx, Read, func() error {
		some = e.all.after(namespace, name, limit)
		return nil
	})
	return some, err
}
