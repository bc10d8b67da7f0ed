package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"skein.dev/skein/internal/store"
)

var _ store.Classes = (*Store)(nil)

// PutClass writes a class.
func (s *Store) PutClass(ctx context.Context, c store.Class) (store.Class, error) {
	err := s.write(ctx, Op{Kind: ClassesBefore}, ClassesAfter, s.noted(ctx, func() error {
		was, there := s.classes[c.Name]
		if !there && len(s.classes) >= store.ClassesMax {
			return fmt.Errorf("there are already %d classes, the limit: %w", store.ClassesMax, store.ErrRefused)
		}
		c.Modified = s.clock()
		if c.Created = c.Modified; there {
			c.Created = was.Created
		}
		s.classes[c.Name] = c
		return nil
	}))
	return c, err
}

// DropClass removes a class.
func (s *Store) DropClass(ctx context.Context, name string) error {
	return s.write(ctx, Op{Kind: ClassesBefore}, ClassesAfter, s.noted(ctx, func() error {
		if _, ok := s.classes[name]; !ok {
			return fmt.Errorf("class %s: %w", name, store.ErrNotFound)
		}
		delete(s.classes, name)
		return nil
	}))
}

// ClassList lists all classes.
func (s *Store) ClassList(ctx context.Context) (all []store.Class, err error) {
	err = s.read(ctx, Read, func() error {
		for _, name := range slices.Sorted(maps.Keys(s.classes)) {
			all = append(all, s.classes[name])
		}
		return nil
	})
	return all, err
}
