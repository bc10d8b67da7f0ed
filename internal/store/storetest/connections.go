package storetest

import "skein.dev/skein/internal/store"

// connections covers the connections by which tasks reach other systems.
func connections() []check {
	return []check{
		{"a connection is replaced by its next version only", connectionReplaced},
		{"connections are listed in pages", connectionsListed},
	}
}

func connectionReplaced(b *bed) {
	c := store.Connection{Namespace: "shop", Name: "crm", Version: 2, Data: []byte(`{"http":{}}`), By: "ann·"}
	_, err := b.s.PutConnection(b.ctx, c)
	b.is(err, store.ErrFenced)
	_, err = b.s.ConnectionOf(b.ctx, "shop", "crm")
	b.is(err, store.ErrNotFound)
	c.Version = 1
	first, err := b.s.PutConnection(b.ctx, c)
	b.ok(err)
	c.Created, c.Modified = first.Created, first.Modified
	b.same(first, c, "the connection")
	_, err = b.s.PutConnection(b.ctx, c)
	b.is(err, store.ErrFenced)
	c.Version, c.Data, c.By = 2, []byte("{}"), "bob"
	second, err := b.s.PutConnection(b.ctx, c)
	b.ok(err)
	b.same(second.Created, first.Created, "made")
	is, err := b.s.ConnectionOf(b.ctx, "shop", "crm")
	b.ok(err)
	b.same(is, second, "the second version")
	b.ok(b.s.DropConnection(b.ctx, "shop", "crm"))
	b.is(b.s.DropConnection(b.ctx, "shop", "crm"), store.ErrNotFound)
	_, err = b.s.ConnectionOf(b.ctx, "shop", "crm")
	b.is(err, store.ErrNotFound)
}

func connectionsListed(b *bed) {
	var want []store.Connection
	for _, key := range [][2]string{{"a", "z"}, {"b", "a"}, {"b", "b"}} {
		c, err := b.s.PutConnection(b.ctx, store.Connection{Namespace: key[0], Name: key[1], Version: 1, Data: []byte(key[1])})
		b.ok(err)
		want = append(want, c)
	}
	for i := range want {
		ns, name := "", ""
		if i > 0 {
			ns, name = want[i-1].Namespace, want[i-1].Name
		}
		some, err := b.s.ConnectionList(b.ctx, ns, name, 2)
		b.ok(err)
		b.same(some, want[i:min(i+2, len(want))], "a page")
	}
	some, err := b.s.ConnectionList(b.ctx, "a", "zz", 10)
	b.ok(err)
	b.same(some, want[1:], "after a name that is not there")
}
