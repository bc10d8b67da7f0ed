package memory

import (
	"cmp"
	"fmt"
	"slices"

	"skein.dev/skein/internal/store"
)

// named holds rows that are known by their namespace and name: secrets, connections, channels.
type named[T any] struct {
	what string // the kind of row, for errors
	of   func(*T) (namespace, name string)
	rows []T // sorted by namespace and name
}

// at finds a row, or the position that it would have.
func (n *named[T]) at(namespace, name string) (i int, there bool) {
	return slices.BinarySearchFunc(n.rows, 0, func(row T, _ int) int {
		ns, is := n.of(&row)
		return cmp.Or(cmp.Compare(ns, namespace), cmp.Compare(is, name))
	})
}

// get returns a row, or store.ErrNotFound.
func (n *named[T]) get(namespace, name string) (row T, err error) {
	i, there := n.at(namespace, name)
	if !there {
		return row, fmt.Errorf("%s %s/%s: %w", n.what, namespace, name, store.ErrNotFound)
	}
	return n.rows[i], nil
}

// put adds a row, or replaces the row with its name.
func (n *named[T]) put(row T) {
	if i, there := n.at(n.of(&row)); there {
		n.rows[i] = row
	} else {
		n.rows = slices.Insert(n.rows, i, row)
	}
}

// drop removes a row. It returns store.ErrNotFound if there is none.
func (n *named[T]) drop(namespace, name string) error {
	i, there := n.at(namespace, name)
	if !there {
		return fmt.Errorf("%s %s/%s: %w", n.what, namespace, name, store.ErrNotFound)
	}
	n.rows = slices.Delete(n.rows, i, i+1)
	return nil
}

// after returns the rows that follow a name, at most limit.
func (n *named[T]) after(namespace, name string, limit int) []T {
	i, there := n.at(namespace, name)
	if there {
		i++
	}
	return slices.Clone(n.rows[i:min(len(n.rows), i+limit)])
}

// clone returns a copy. The copy and the original share the bytes behind rows, which are never changed in
// place.
func (n *named[T]) clone() named[T] { return named[T]{n.what, n.of, slices.Clone(n.rows)} }
