package storetest

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/store"
)

// secrets covers the sealed values of namespaces, and their key.
func secrets() []check {
	return []check{
		{"a secret is replaced by its next version only", secretReplaced},
		{"a secret is sealed with the present key only", secretKeyed},
		{"secrets are listed by namespace and name", secretsListed},
		{"there are only so many secrets", secretsBounded},
		{"secrets of a closed store", secretsClosed},
	}
}

func secretFor(namespace, name string, version int64, key string) store.Secret {
	return store.Secret{Namespace: namespace, Name: name, Version: version, Key: key, Wrapped: []byte{0, byte(version)}, Data: []byte(name + "\x00\xff"), By: "ann·"}
}

func putSecret(b *bed, s store.Secret) store.Secret {
	b.Helper()
	is, err := b.s.PutSecret(b.ctx, s)
	b.ok(err)
	if is.Created == 0 || is.Modified < is.Created {
		b.Errorf("secret %s of %d, changed %d", s.Name, is.Created, is.Modified)
	}
	s.Created, s.Modified = is.Created, is.Modified
	b.same(is, s, "the secret")
	return is
}

func putFails(b *bed, s store.Secret, kind error) {
	b.Helper()
	_, err := b.s.PutSecret(b.ctx, s)
	b.is(err, kind)
}

func secretReplaced(b *bed) {
	putFails(b, secretFor("a", "x", 1, "k1"), store.ErrFenced) // there is no key yet
	b.ok(b.s.SetSecretKey(b.ctx, "k1", ""))
	putFails(b, secretFor("a", "x", 2, "k1"), store.ErrFenced)
	first := putSecret(b, secretFor("a", "x", 1, "k1"))
	putFails(b, secretFor("a", "x", 1, "k1"), store.ErrFenced)
	putFails(b, secretFor("a", "x", 3, "k1"), store.ErrFenced)
	second := putSecret(b, secretFor("a", "x", 2, "k1"))
	b.same(second.Created, first.Created, "made")
	is, err := b.s.SecretOf(b.ctx, "a", "x")
	b.ok(err)
	b.same(is, second, "read again")
	_, err = b.s.SecretOf(b.ctx, "b", "x")
	b.is(err, store.ErrNotFound)
	b.ok(b.s.DropSecret(b.ctx, "a", "x"))
	b.is(b.s.DropSecret(b.ctx, "a", "x"), store.ErrNotFound)
	_, err = b.s.SecretOf(b.ctx, "a", "x")
	b.is(err, store.ErrNotFound)
	putSecret(b, secretFor("a", "x", 1, "k1"))
}

func secretKeyed(b *bed) {
	key, err := b.s.SecretKey(b.ctx)
	b.ok(err)
	b.same(key, store.SecretKey{}, "no key")
	b.is(b.s.SetSecretKey(b.ctx, "k1", "k0"), store.ErrFenced)
	b.ok(b.s.SetSecretKey(b.ctx, "k1", ""))
	b.is(b.s.SetSecretKey(b.ctx, "k2", ""), store.ErrFenced)
	old := putSecret(b, secretFor("a", "x", 1, "k1"))
	b.ok(b.s.SetSecretKey(b.ctx, "k2", "k1"))
	if key, err = b.s.SecretKey(b.ctx); err != nil || key.ID != "k2" || key.Since == 0 {
		b.Errorf("the key is %+v, %v", key, err)
	}
	putFails(b, secretFor("a", "y", 1, "k1"), store.ErrFenced)
	putFails(b, secretFor("a", "x", 2, "k1"), store.ErrFenced)
	next := old
	next.Key, next.Wrapped = "k2", []byte("again")
	b.is(b.s.RewrapSecret(b.ctx, next, "k0"), store.ErrFenced)
	next.Version = 2
	b.is(b.s.RewrapSecret(b.ctx, next, "k1"), store.ErrFenced)
	next.Version = 1
	b.ok(b.s.RewrapSecret(b.ctx, next, "k1"))
	b.is(b.s.RewrapSecret(b.ctx, next, "k1"), store.ErrFenced)
	is, err := b.s.SecretOf(b.ctx, "a", "x")
	b.ok(err)
	b.same(is, next, "wrapped again")
	putSecret(b, secretFor("a", "x", 2, "k2"))
}

func secretsListed(b *bed) {
	b.ok(b.s.SetSecretKey(b.ctx, "k", ""))
	c, a2, a1 := putSecret(b, secretFor("c", "a", 1, "k")), putSecret(b, secretFor("a", "z", 1, "k")), putSecret(b, secretFor("a", "Z", 1, "k"))
	for _, want := range []struct {
		namespace, name string
		limit           int
		all             []store.Secret
	}{
		{"", "", 10, []store.Secret{a1, a2, c}}, {"", "", 2, []store.Secret{a1, a2}}, {"a", "Z", 10, []store.Secret{a2, c}},
		{"a", "z", 1, []store.Secret{c}}, {"b", "", 9, []store.Secret{c}},
	} {
		all, err := b.s.SecretList(b.ctx, want.namespace, want.name, want.limit)
		b.ok(err)
		b.same(all, want.all, fmt.Sprintf("%d after %s/%s", want.limit, want.namespace, want.name))
	}
	all, err := b.s.SecretList(b.ctx, "c", "a", 10)
	b.ok(err)
	b.same(len(all), 0, "after the last")
}

func secretsBounded(b *bed) {
	b.ok(b.s.SetSecretKey(b.ctx, "k", ""))
	for n := range store.SecretsMax {
		_, err := b.s.PutSecret(b.ctx, secretFor("a", fmt.Sprintf("c%05d", n), 1, "k"))
		b.ok(err)
	}
	putFails(b, secretFor("a", "more", 1, "k"), store.ErrRefused)
	putSecret(b, secretFor("a", "c00007", 2, "k")) // the limit does not apply to a change of an existing secret
}

func secretsClosed(b *bed) {
	verbs := func(ctx context.Context) []error {
		_, one := b.s.PutSecret(ctx, secretFor("a", "x", 1, "k"))
		_, two := b.s.SecretOf(ctx, "a", "x")
		_, three := b.s.SecretList(ctx, "", "", 1)
		_, four := b.s.SecretKey(ctx)
		return []error{one, two, three, four, b.s.DropSecret(ctx, "a", "x"), b.s.RewrapSecret(ctx, secretFor("a", "x", 1, "k"), "k"),
			b.s.SetSecretKey(ctx, "k", "")}
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
