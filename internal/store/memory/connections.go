package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"skein.dev/skein/internal/store"
)

var _ store.Connections = (*Store)(nil)

// connections implements store.Connections for the store that embeds it.
type connections struct {
	s   *Store
	all []store.Connection // sorted by namespace and name
}

func (e *connections) at(namespace, name string) (int, bool) {
	return slices.BinarySearchFunc(e.all, store.Connection{Namespace: namespace, Name: name}, func(a, b store.Connection) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
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
		i, there := e.at(c.Namespace, c.Name)
		was := int64(0)
		c.Created, c.Modified = e.s.clock(), e.s.clock()
		if there {
			was, c.Created = e.all[i].Version, e.all[i].Created
		}
		switch {
		case c.Version != was+1:
			return missed("connection %s/%s is at version %d", c.Namespace, c.Name, was)
		case !there && len(e.all) >= store.ConnectionsMax:
			return refused("there are already %d connections, the limit", store.ConnectionsMax)
		}
		c.Data = bytes.Clone(c.Data)
		if there {
			e.all[i] = c
			return nil
		}
		e.all = slices.Insert(e.all, i, c)
		return nil
	})
	return c, err
}

// DropConnection implements store.Connections.
func (e *connections) DropConnection(ctx context.Context, namespace, name string) error {
	return e.change(ctx, func() error {
		i, there := e.at(namespace, name)
		if !there {
			return fmt.Errorf("connection %s/%s: %w", namespace, name, store.ErrNotFound)
		}
		e.all = slices.Delete(e.all, i, i+1)
		return nil
	})
}

// ConnectionOf implements store.Connections.
func (e *connections) ConnectionOf(ctx context.Context, namespace, name string) (c store.Connection, err error) {
	err = e.s.read(ctx, Read, func() error {
		i, there := e.at(namespace, name)
		if !there {
			return fmt.Errorf("connection %s/%s: %w", namespace, name, store.ErrNotFound)
		}
		c = e.all[i]
		return nil
	})
	return c, err
}

// ConnectionList implements store.Connections.
func (e *connections) ConnectionList(ctx context.Context, namespace, name string, limit int) (some []store.Connection, err error) {
	err = e.s.read(ctx, Read, func() error {
		i, there := e.at(namespace, name)
		if there {
			i++
		}
		some = slices.Clone(e.all[i:min(len(e.all), i+limit)])
		return nil
	})
	return some, err
}
