package storetest

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// classes covers resource classes.
func classes() []check {
	return []check{
		{"a class takes the place of the one of its name", classReplaced},
		{"there are only so many classes", classesBounded},
		{"classes of a closed store", classesClosed},
	}
}

func (b *bed) class(name string, cpu, memory int64) store.Class {
	b.Helper()
	want := store.Class{Name: name, Need: dag.Need{CPU: cpu, Memory: memory}, User: "ann·"}
	c, err := b.s.PutClass(b.ctx, want)
	b.ok(err)
	if c.Created == 0 || c.Modified < c.Created {
		b.Errorf("class %s of %d, changed %d", name, c.Created, c.Modified)
	}
	want.Created, want.Modified = c.Created, c.Modified
	b.same(c, want, "the class")
	return c
}

func classReplaced(b *bed) {
	all, err := b.s.ClassList(b.ctx)
	b.ok(err)
	b.same(len(all), 0, "classes")
	z, a := b.class("z", 500, 1<<40), b.class("a-1", 0, 1)
	again := b.class("z", 1<<40, 0)
	b.same(again.Created, z.Created, "made")
	all, err = b.s.ClassList(b.ctx)
	b.ok(err)
	b.same(all, []store.Class{a, again}, "all")
	b.is(b.s.DropClass(b.ctx, "b"), store.ErrNotFound)
	b.ok(b.s.DropClass(b.ctx, "a-1"))
	b.is(b.s.DropClass(b.ctx, "a-1"), store.ErrNotFound)
	all, err = b.s.ClassList(b.ctx)
	b.ok(err)
	b.same(all, []store.Class{again}, "what is left")
}

func classesBounded(b *bed) {
	for n := range store.ClassesMax {
		_, err := b.s.PutClass(b.ctx, store.Class{Name: fmt.Sprint("c", n), Need: dag.Need{CPU: 1}})
		b.ok(err)
	}
	_, err := b.s.PutClass(b.ctx, store.Class{Name: "more", Need: dag.Need{CPU: 1}})
	b.is(err, store.ErrRefused)
	b.class("c7", 2, 2) // the limit does not apply to a change of an existing class
}

func classesClosed(b *bed) {
	verbs := func(ctx context.Context) []error {
		_, one := b.s.PutClass(ctx, store.Class{Name: "x"})
		_, two := b.s.ClassList(ctx)
		return []error{one, two, b.s.DropClass(ctx, "x")}
	}
	over, cancel := context.WithCancel(b.ctx)
	cancel()
	for _, err := range verbs(over) {
		b.is(err, store.ErrUnavailable)
	}
	b.ok(b.s.Close())
	for _, err := range verbs(b.ctx) {
		b.is(err, store.ErrUnavailable)
	}
}
