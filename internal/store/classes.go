package store

import (
	"context"

	"skein.dev/skein/internal/dag"
)

// Class is a named amount of resources that tasks can ask for. A version of a workflow holds the amounts that
// its classes had when it was applied.
type Class struct {
	Name     string
	Need     dag.Need
	User     string // the user of the last change
	Created  dag.Micros
	Modified dag.Micros
}

// ClassesMax bounds the classes of a database: they are read as one list.
const ClassesMax = 1000

// Classes is the part of a store that keeps resource classes. It has nothing to do with shards.
type Classes interface {
	// PutClass adds or replaces the class of a name; the store sets the times. It returns ErrRefused if there
	// are ClassesMax classes.
	PutClass(ctx context.Context, c Class) (Class, error)
	// DropClass removes a class. It returns ErrNotFound if there is none.
	DropClass(ctx context.Context, name string) error
	// ClassList lists all by name.
	ClassList(ctx context.Context) ([]Class, error)
}

// Needs returns the resources of classes by name.
func Needs(all []Class) map[string]dag.Need {
	needs := make(map[string]dag.Need, len(all))
	for i := range all {
		needs[all[i].Name] = all[i].Need
	}
	return needs
}
