package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/store"
)

var _ store.Classes = (*DB)(nil)

// PutClass implements store.Classes.
func (d *DB) PutClass(ctx context.Context, c store.Class) (store.Class, error) {
	err := changeNoted(ctx, d, "change of classes", func() error {
		n, err := d.stmts.putClass.row().text(c.Name).int(c.Need.CPU).int(c.Need.Memory).text(c.User).int(int64(wall())).int(store.ClassesMax).exec(d.conn)
		if err == nil && n == 0 {
			err = fmt.Errorf("there are already %d classes, the limit: %w", store.ClassesMax, store.ErrRefused)
		}
		return err
	})
	if err != nil {
		return c, err
	}
	return first(d, ctx, "class", []any{c.Name}, scanClass)
}

// DropClass implements store.Classes.
func (d *DB) DropClass(ctx context.Context, name string) error {
	return changeNoted(ctx, d, "change of classes", func() error {
		n, err := d.stmts.dropClass.row().text(name).exec(d.conn)
		if err == nil && n == 0 {
			err = fmt.Errorf("class %s: %w", name, store.ErrNotFound)
		}
		return err
	})
}

// ClassList implements store.Classes.
func (d *DB) ClassList(ctx context.Context) ([]store.Class, error) {
	return list(d, ctx, "classes", nil, scanClass)
}

func scanClass(s *sqlite.Stmt, c *store.Class) error {
	r := row{s: s}
	c.Name, c.Need.CPU, c.Need.Memory, c.User, c.Created, c.Modified = r.text(), r.int(), r.int(), r.text(), r.micros(), r.micros()
	return nil
}
