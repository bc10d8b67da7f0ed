package storetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"skein.dev/skein/internal/store"
)

// tokened is a check of a store that keeps tokens, as all do.
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
		{"tokens of a closed store", tokened(tokensClosed)},
	}
}

func hashOf(n int) []byte { return bytes.Repeat([]byte{byte(n), byte(n >> 8)}, 16) }

func (b *bed) token(s store.Tokens, n int, name string) store.Token {
	b.Helper()
	t, err := s.AddToken(b.ctx, store.Token{Kind: store.TokenAPI, Name: name, Hash: hashOf(n), Expires: 4e15, By: "ann", Principal: 3, Verbs: "graph run.read", Namespaces: "web", Maker: 4})
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
	b.same(one, store.Token{ID: one.ID, Kind: store.TokenAPI, Name: "one", Hash: hashOf(1), Created: one.Created, Expires: 4e15, By: "ann", Principal: 3, Verbs: "graph run.read", Namespaces: "web", Maker: 4}, "the token")
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

// tokensAtOnce: of several with one name, one is made.
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
		return []error{one, two, three, s.RevokeToken(ctx, 1)}
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
