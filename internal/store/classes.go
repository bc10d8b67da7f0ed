package store

import (
	"context"

	"skein.dev/skein/internal/dag"
)

// Class is a resource class of one's own: what a task takes that names it. Versions hold its numbers
// as they were when they were applied.
type Class struct {
	Name     string
	Need     dag.Need
	User     string // who said so last
	Created  dag.Micros
	Modified dag.Micros
}

// ClassesMax bounds the classes of a database: they are read as one list.
const ClassesMax = 1000

// Classes is the part of a store that keeps resource classes. It has nothing to do with shards.
type Classes interface {
	// PutClass writes a class down, in place of the one of its name; the times are the store's.
	// ErrRefused: there are ClassesMax of them.
	PutClass(ctx context.Context, c Class) (Class, error)
	// DropClass removes a class. ErrNotFound: there is none.
	DropClass(ctx context.Context, name string) error
	// ClassList lists all by name.
	ClassList(ctx context.Context) ([]Class, error)
}

// Needs gives what classes take, by name.
func Needs(all []Class) map[string]dag.Need {
	needs := make(map[string]dag.Need, len(all))
	for i := range all {
		needs[all[i].Name] = all[i].Need
	}
	return needs
}
