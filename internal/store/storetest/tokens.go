package storetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"skein.dev/skein/internal/store"
)

// tokened returns a check that gets the store as store.Tokens. Every engine implements that.
func tokened(run func(b *bed, s store.Tokens)) func(b *bed) {
	return func(b *bed) {
		s, ok := b.s.(store.Tokens)
		if !ok {
			b.Fatal("the store keeps no tokens")
		}
		run(b, s)
	}
}

func tokens() []check {
	return []check{
		{"a token is found by its hash", tokened(tokenFound)},
		{"a token that is revoked stays so", tokened(tokenRevoked)},
		{"names of tokens are unique while they count", tokened(tokenNames)},
		{"there are only so many tokens", tokened(tokensBounded)},
		{"tokens made at once", tokened(tokensAtOnce)},
		{"a token is replaced", tokened(tokenRotated)},
		{"a token that has ended is not replaced", tokened(tokenNotRotated)},
		{"a token replaced at once by several", tokened(tokenRotatedAtOnce)},
		{"tokens that replace each other at once", tokened(tokensRotateEachOther)},
		{"a worker joins by an invitation", tokened(tokenJoined)},
		{"an invitation that cannot be used", tokened(tokenNotJoined)},
		{"an invitation used at once by several", tokened(tokenJoinedAtOnce)},
		{"a certificate is renewed until it ends", tokened(tokenRenewed)},
		{"a node has one row until it is revoked", tokened(nodeEnrolled)},
		{"tokens are revoked together or not at all", tokened(tokensRevoked)},
		{"tokens of a closed store", tokened(tokensClosed)},
	}
}

func hashOf(n int) []byte { return bytes.Repeat([]byte{byte(n), byte(n >> 8)}, 16) }

func (b *bed) token(s store.Tokens, n int, name string) store.Token {
	b.Helper()
	t, err := s.AddToken(b.ctx, store.Token{Kind: store.TokenAPI, Name: name, Hash: hashOf(n), Expires: 4e15, By: "ann", Principal: 3, Verbs: "graph run.read", Namespaces: "web", Maker: 4, Parent: 5})
	b.ok(err)
	return t
}

func tokenFound(b *bed, s store.Tokens) {
	_, err := s.TokenByHash(b.ctx, hashOf(1))
	b.is(err, store.ErrNotFound)
	one, two := b.token(s, 1, "one"), b.token(s, 2, "zwei·")
	if one.ID == 0 || one.ID >= two.ID || one.Created == 0 {
		b.Errorf("numbers %d, %d, made at %d", one.ID, two.ID, one.Created)
	}
	b.same(one, store.Token{ID: one.ID, Kind: store.TokenAPI, Name: "one", Hash: hashOf(1), Created: one.Created, Expires: 4e15, By: "ann", Principal: 3, Verbs: "graph run.read", Namespaces: "web", Maker: 4, Parent: 5}, "the token")
	got, err := s.TokenByHash(b.ctx, hashOf(2))
	b.ok(err)
	b.same(got, two, "by its hash")
	all, err := s.TokenList(b.ctx)
	b.ok(err)
	b.same(all, []store.Token{one, two}, "all")
	_, err = s.AddToken(b.ctx, store.Token{Kind: store.TokenNode, Name: "three", Hash: hashOf(2)})
	b.is(err, store.ErrRefused)
}

func tokenRevoked(b *bed, s store.Tokens) {
	b.is(s.RevokeToken(b.ctx, 1), store.ErrNotFound)
	t := b.token(s, 1, "one")
	b.ok(s.RevokeToken(b.ctx, t.ID))
	was, err := s.TokenByHash(b.ctx, hashOf(1))
	b.ok(err)
	b.same(was.Revoked >= was.Created, true, "revoked")
	b.ok(s.RevokeToken(b.ctx, t.ID))
	is, err := s.TokenByHash(b.ctx, hashOf(1))
	b.ok(err)
	b.same(is, was, "revoked twice")
}

func tokenNames(b *bed, s store.Tokens) {
	t := b.token(s, 1, "one")
	_, err := s.AddToken(b.ctx, store.Token{Kind: store.TokenWorker, Name: "one", Hash: hashOf(2)})
	b.is(err, store.ErrRefused)
	b.ok(s.RevokeToken(b.ctx, t.ID))
	b.token(s, 3, "one")
}

func tokensBounded(b *bed, s store.Tokens) {
	for n := range store.TokensMax {
		b.token(s, n, fmt.Sprint("t", n))
	}
	_, err := s.AddToken(b.ctx, store.Token{Kind: store.TokenAPI, Name: "more", Hash: hashOf(store.TokensMax)})
	b.is(err, store.ErrRefused)
}

// rotated rotates a token. It returns the old and the new row as the store lists them.
func rotated(b *bed, s store.Tokens, r store.Rotation) (was, is store.Token) {
	b.Helper()
	made, err := s.RotateToken(b.ctx, r)
	b.ok(err)
	all, err := s.TokenList(b.ctx)
	b.ok(err)
	for _, t := range all {
		switch t.ID {
		case r.Token:
			was = t
		case made.ID:
			is = t
		}
	}
	b.same(is, made, "the new token in the list")
	return was, is
}

// tokenRotated checks that the new token gets the rights and the name of the old one, and that the old one
// ends after the grace period, but never later than before.
func tokenRotated(b *bed, s store.Tokens) {
	const hour = 3_600_000_000
	one := b.token(s, 1, "one")
	above, err := s.AddToken(b.ctx, store.Token{Kind: store.TokenAPI, Name: "above", Hash: hashOf(7)})
	b.ok(err)
	was, is := rotated(b, s, store.Rotation{Token: one.ID, Grace: hour, Hash: hashOf(2), Expires: 3e15, By: "bob", Maker: 6, Parent: above.ID})
	b.same(is, store.Token{ID: is.ID, Kind: one.Kind, Name: "one", Hash: hashOf(2), Created: is.Created, Expires: 3e15, By: "bob",
		Principal: 3, Verbs: "graph run.read", Namespaces: "web", Maker: 6, Parent: above.ID, Replaces: one.ID}, "the new token")
	one.Replaced, one.Expires = is.Created, is.Created+hour
	b.same(was, one, "the old token")

	was, _ = rotated(b, s, store.Rotation{Token: is.ID, Grace: 4e15, Hash: hashOf(3)})
	b.same(was.Expires, is.Expires, "the end of a token that ends within the grace")
	everlasting, err := s.AddToken(b.ctx, store.Token{Kind: store.TokenNode, Name: "two", Hash: hashOf(4)})
	b.ok(err)
	was, is = rotated(b, s, store.Rotation{Token: everlasting.ID, Hash: hashOf(5)})
	b.same(was.Expires, is.Created, "the end of a token without grace")

	_, err = s.AddToken(b.ctx, store.Token{Kind: store.TokenAPI, Name: "two", Hash: hashOf(6)})
	b.is(err, store.ErrRefused)
	b.ok(s.RevokeToken(b.ctx, is.ID))
	b.token(s, 6, "two")
}

// tokenNotRotated checks that a refused rotation changes nothing.
func tokenNotRotated(b *bed, s store.Tokens) {
	one, two := b.token(s, 1, "one"), b.token(s, 2, "two")
	old, err := s.AddToken(b.ctx, store.Token{Kind: store.TokenAPI, Name: "old", Hash: hashOf(3), Expires: 1})
	b.ok(err)
	rotated(b, s, store.Rotation{Token: two.ID, Grace: 1e9, Hash: hashOf(4)})
	gone := b.token(s, 5, "gone")
	b.ok(s.RevokeToken(b.ctx, gone.ID))
	add := func(n int, parent int64) int64 {
		t, err := s.AddToken(b.ctx, store.Token{Kind: store.TokenAPI, Name: fmt.Sprint("above", n), Hash: hashOf(n), Parent: parent})
		b.ok(err)
		return t.ID
	}
	replaced, revoked := add(20, 0), add(21, 0)
	below := add(22, replaced)
	rotated(b, s, store.Rotation{Token: replaced, Grace: 1e9, Hash: hashOf(23)})
	b.ok(s.RevokeToken(b.ctx, revoked))
	before, err := s.TokenList(b.ctx)
	b.ok(err)
	for _, c := range []struct {
		id     int64
		parent int64
		hash   int
		want   error
	}{
		{999, 0, 9, store.ErrNotFound}, {two.ID, 0, 9, store.ErrFenced}, {old.ID, 0, 9, store.ErrFenced}, {gone.ID, 0, 9, store.ErrFenced},
		{one.ID, replaced, 9, store.ErrFenced}, {one.ID, below, 9, store.ErrFenced}, {one.ID, revoked, 9, store.ErrFenced}, {one.ID, old.ID, 9, store.ErrFenced},
		{one.ID, 999, 9, store.ErrFenced},
		{one.ID, 0, 4, store.ErrRefused}, // another token has this secret
	} {
		_, err := s.RotateToken(b.ctx, store.Rotation{Token: c.id, Parent: c.parent, Grace: 1e9, Hash: hashOf(c.hash)})
		b.is(err, c.want)
	}
	after, err := s.TokenList(b.ctx)
	b.ok(err)
	b.same(after, before, "the tokens")
	for n := len(after); n < store.TokensMax; n++ {
		b.token(s, 100+n, fmt.Sprint("t", n))
	}
	_, err = s.RotateToken(b.ctx, store.Rotation{Token: one.ID, Grace: 1e9, Hash: hashOf(9)})
	b.is(err, store.ErrRefused)
	is, err := s.TokenByHash(b.ctx, one.Hash)
	b.ok(err)
	b.same(is, one, "the token that was not replaced")
}

// tokenRotatedAtOnce makes several callers rotate one token concurrently. Exactly one must succeed.
func tokenRotatedAtOnce(b *bed, s store.Tokens) {
	one := b.token(s, 1, "one")
	var made atomic.Int32
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			if _, err := s.RotateToken(b.ctx, store.Rotation{Token: one.ID, Grace: 1e9, Hash: hashOf(2 + n)}); err == nil {
				made.Add(1)
			}
		})
	}
	wg.Wait()
	all, err := s.TokenList(b.ctx)
	b.ok(err)
	b.same([]int{int(made.Load()), len(all)}, []int{1, 2}, "new tokens, and all")
}

// tokensRotateEachOther makes two tokens, or tokens that they have made, rotate each other concurrently. One
// of them must stay without a successor, so that one token remains that does not end with another.
func tokensRotateEachOther(b *bed, s store.Tokens) {
	for n := range 10 {
		add := func(hash int, parent int64) int64 {
			t, err := s.AddToken(b.ctx, store.Token{Kind: store.TokenAPI, Name: fmt.Sprint("t", hash), Hash: hashOf(hash), Parent: parent})
			b.ok(err)
			return t.ID
		}
		one, two := add(10*n, 0), add(10*n+1, 0)
		byOne, byTwo := one, two
		if n%2 > 0 {
			byOne, byTwo = add(10*n+2, one), add(10*n+3, two)
		}
		var made atomic.Int32
		var wg sync.WaitGroup
		for i, r := range []store.Rotation{{Token: one, Parent: byTwo}, {Token: two, Parent: byOne}} {
			r.Hash, r.Grace = hashOf(10*n+4+i), 1e9
			wg.Go(func() {
				_, err := s.RotateToken(b.ctx, r)
				if err == nil {
					made.Add(1)
				} else {
					b.is(err, store.ErrFenced)
				}
			})
		}
		wg.Wait()
		b.same(made.Load(), int32(1), "successors")
	}
}

// tokensAtOnce makes several callers add a token with the same name concurrently. Exactly one must succeed.
func tokensAtOnce(b *bed, s store.Tokens) {
	var made atomic.Int32
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			if _, err := s.AddToken(b.ctx, store.Token{Kind: store.TokenAPI, Name: "same", Hash: hashOf(n)}); err == nil {
				made.Add(1)
			}
		})
	}
	wg.Wait()
	b.same(made.Load(), int32(1), "tokens of one name")
}

func tokensClosed(b *bed, s store.Tokens) {
	verbs := func(ctx context.Context) []error {
		_, one := s.AddToken(ctx, store.Token{Kind: store.TokenAPI, Name: "x", Hash: hashOf(9)})
		_, two := s.TokenByHash(ctx, hashOf(9))
		_, three := s.TokenList(ctx)
		_, four := s.RotateToken(ctx, store.Rotation{Token: 1, Hash: hashOf(8)})
		return []error{one, two, three, four, s.RevokeToken(ctx, 1)}
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
