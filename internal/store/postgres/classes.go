package postgres

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/store"
)

var _ store.Classes = (*DB)(nil)

// PutClass implements store.Classes.
func (d *DB) PutClass(ctx context.Context, c store.Class) (store.Class, error) {
	found, err := d.changeClass(ctx, "putClass", args{}.text(c.Name).int8(c.Need.CPU).int8(c.Need.Memory).text(c.User).int8(store.ClassesMax))
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("there are already %d classes, the limit: %w", store.ClassesMax, store.ErrRefused)
	}
	if err != nil {
		return c, fmt.Errorf("class %s: %w", c.Name, err)
	}
	return found[0], nil
}

// DropClass implements store.Classes.
func (d *DB) DropClass(ctx context.Context, name string) error {
	found, err := d.changeClass(ctx, "dropClass", args{}.text(name))
	if err == nil && len(found) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("class %s: %w", name, err)
	}
	return nil
}

// ClassList implements store.Classes.
func (d *DB) ClassList(ctx context.Context) ([]store.Class, error) {
	return list(ctx, d, query{name: "classes"}, scanClass)
}

func (d *DB) changeClass(ctx context.Context, name string, a args) (found []store.Class, err error) {
	if err := ended(ctx, name); err != nil {
		return nil, err
	}
	err = d.change(ctx, nil, notedQuery(ctx, query{name, a, into(&found, scanClass)}))
	return found, err
}

func scanClass(r *row, c *store.Class) error {
	c.Name, c.Need.CPU, c.Need.Memory, c.User, c.Created, c.Modified = r.text(), r.int(), r.int(), r.text(), r.micros(), r.micros()
	return r.damaged("class %s", c.Name)
}
