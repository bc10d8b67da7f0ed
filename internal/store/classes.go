package store

import (
	"context"

	"skein.dev/skein/internal/dag"
)

// Class is a named amount of resources that tasks can require. A version of a workflow contains the amounts
// that its classes had when it was applied.
type Class struct {
	Name     string // stored name, see dag.OwnName
	Need     dag.Need
	User     string // the user of the last change
	Created  dag.Micros
	Modified dag.Micros
}

// ClassesMax bounds the classes of a database, because they are read as one list.
const ClassesMax = 1000

// Classes is the part of a store that keeps resource classes. They are independent of shards.
type Classes interface {
	// PutClass adds or replaces a class. The store sets the times. It returns ErrRefused if there are
	// ClassesMax classes.
	PutClass(ctx context.Context, c Class) (Class, error)
	// DropClass removes a class. It returns ErrNotFound if there is none.
	DropClass(ctx context.Context, name string) error
	// ClassList lists all classes, ordered by name.
	ClassList(ctx context.Context) ([]Class, error)
}

// Needs returns the resources of the classes that a namespace can name: the shared ones, and its own, which
// take precedence.
func Needs(all []Class, namespace string) map[string]dag.Need {
	needs := make(map[string]dag.Need, len(all))
	for i := range all {
		of, name := dag.CutName(all[i].Name)
		if _, taken := needs[name]; of == namespace || of == "" && !taken {
			needs[name] = all[i].Need
		}
	}
	return needs
}
