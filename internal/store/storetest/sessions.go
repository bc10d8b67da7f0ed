package storetest

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"skein.dev/skein/internal/store"
)

// sessioned returns a check that gets the store as store.Sessions. Every engine implements that.
func sessioned(run func(b *bed, s store.Sessions)) func(b *bed) {
	return func(b *bed) {
		s, ok := b.s.(store.Sessions)
		if !ok {
			b.Fatal("the store keeps no sessions")
		}
		run(b, s)
	}
}

func sessions() []check {
	return []check{
		{"a session is what was added", sessioned(sessionAdded)},
		{"a session that is used is used later", sessioned(sessionUsed)},
		{"one of those who end a session ends it", sessioned(sessionEnded)},
		{"a session ends with the one that made its code", sessioned(sessionParents)},
		{"sessions that are over are deleted", sessioned(sessionsOver)},
		{"one principal and one token have only so many sessions", sessioned(sessionsOfOne)},
		{"there are only so many sessions", sessioned(sessionsBounded)},
		{"sessions of a closed store", sessioned(sessionsClosed)},
	}
}

var sessionBounds = store.SessionBounds{OfOne: 3, All: 12}

func sessionHash(n int) []byte {
	hash := make([]byte, 32)
	binary.BigEndian.PutUint64(hash, uint64(n))
	return hash
}

// signIn adds a session that ends in the year 2096.
func signIn(b *bed, s store.Sessions, one store.Session) store.Session {
	b.Helper()
	if one.Expires == 0 {
		one.Expires = 4e15
	}
	added, err := s.AddSession(b.ctx, one, sessionBounds)
	b.ok(err)
	return added
}

func signedIn(b *bed, s store.Sessions) []store.Session {
	b.Helper()
	all, err := s.SessionList(b.ctx)
	b.ok(err)
	return all
}

func sessionAdded(b *bed, s store.Sessions) {
	b.same(len(signedIn(b, s)), 0, "sessions of a new store")
	one := signIn(b, s, store.Session{Hash: sessionHash(1), Principal: 3, Token: 4, Address: "127.0.0.1", Agent: "Firefox", Origin: "of-corp"})
	code := signIn(b, s, store.Session{Hash: sessionHash(2), Code: true, Principal: 3})
	if one.ID == 0 || one.ID >= code.ID || one.Created == 0 || one.Used != one.Created {
		b.Errorf("%+v, %+v", one, code)
	}
	b.same(one, store.Session{ID: one.ID, Hash: sessionHash(1), Principal: 3, Token: 4, Created: one.Created, Used: one.Used, Expires: 4e15,
		Address: "127.0.0.1", Agent: "Firefox", Origin: "of-corp"}, "the session")
	b.same(signedIn(b, s), []store.Session{one, code}, "all")
	_, err := s.AddSession(b.ctx, store.Session{Hash: sessionHash(2), Expires: 4e15}, sessionBounds)
	b.is(err, store.ErrRefused)
}

func sessionUsed(b *bed, s store.Sessions) {
	one := signIn(b, s, store.Session{Hash: sessionHash(1)})
	b.ok(s.UseSession(b.ctx, one.ID))
	b.ok(s.UseSession(b.ctx, one.ID+1))
	all := signedIn(b, s)
	if len(all) != 1 || all[0].Used < one.Used {
		b.Errorf("%+v after %+v", all, one)
	}
}

func sessionEnded(b *bed, s store.Sessions) {
	b.is(s.EndSession(b.ctx, 1), store.ErrNotFound)
	one := signIn(b, s, store.Session{Hash: sessionHash(1), Code: true})
	var ended atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if s.EndSession(b.ctx, one.ID) == nil {
				ended.Add(1)
			}
		})
	}
	wg.Wait()
	b.same(ended.Load(), int32(1), "those who ended it")
	if next := signIn(b, s, store.Session{Hash: sessionHash(2)}); next.ID <= one.ID {
		b.Errorf("the number %d comes after %d", next.ID, one.ID)
	}
}

func sessionParents(b *bed, s store.Sessions) {
	parent := signIn(b, s, store.Session{Hash: sessionHash(1), Principal: 3})
	child := func(n int) store.Session {
		return store.Session{Hash: sessionHash(n), Principal: 3, Parent: parent.ID, Expires: 4e15}
	}
	code := child(2)
	code.Code = true
	code = signIn(b, s, code)
	opened := signIn(b, s, child(3))
	b.same(signedIn(b, s), []store.Session{parent, code, opened}, "all")
	b.ok(s.EndSession(b.ctx, opened.ID))
	b.same(signedIn(b, s), []store.Session{parent, code}, "after the end of the child")
	b.ok(s.EndSession(b.ctx, parent.ID))
	b.same(len(signedIn(b, s)), 0, "sessions after the end of the parent")
	_, err := s.AddSession(b.ctx, child(4), sessionBounds)
	b.is(err, store.ErrRefused)

	parent = signIn(b, s, store.Session{Hash: sessionHash(5), Principal: 3})
	signIn(b, s, child(6))
	for n := range sessionBounds.OfOne { // the oldest sessions of a principal are deleted
		signIn(b, s, store.Session{Hash: sessionHash(7 + n), Principal: 3})
	}
	for _, is := range signedIn(b, s) {
		if is.Parent != 0 {
			b.Errorf("the child %d is left without its parent", is.ID)
		}
	}
}

func sessionsOver(b *bed, s store.Sessions) {
	signIn(b, s, store.Session{Hash: sessionHash(1), Expires: 1})
	signIn(b, s, store.Session{Hash: sessionHash(2), Expires: 1, Code: true})
	left := signIn(b, s, store.Session{Hash: sessionHash(3)})
	b.same(signedIn(b, s), []store.Session{left}, "those that are left")
}

func sessionsOfOne(b *bed, s store.Sessions) {
	other := signIn(b, s, store.Session{Hash: sessionHash(0), Principal: 3, Token: 5})
	code := signIn(b, s, store.Session{Hash: sessionHash(1), Principal: 3, Token: 4, Code: true})
	first := signIn(b, s, store.Session{Hash: sessionHash(2), Principal: 3, Token: 4})
	for n := range sessionBounds.OfOne {
		signIn(b, s, store.Session{Hash: sessionHash(3 + n), Principal: 3, Token: 4})
	}
	all := signedIn(b, s)
	b.same(len(all), sessionBounds.OfOne+2, "sessions")
	b.same(all[0].ID, other.ID, "that of another token")
	b.same(all[1].ID, code.ID, "the code")
	if all[2].ID <= first.ID {
		b.Error("the oldest is left")
	}
}

func sessionsBounded(b *bed, s store.Sessions) {
	for n := range sessionBounds.All {
		signIn(b, s, store.Session{Hash: sessionHash(n), Principal: int64(n)})
	}
	_, err := s.AddSession(b.ctx, store.Session{Hash: sessionHash(sessionBounds.All), Expires: 4e15}, sessionBounds)
	b.is(err, store.ErrRefused)
}

func sessionsClosed(b *bed, s store.Sessions) {
	verbs := func(ctx context.Context) []error {
		_, one := s.AddSession(ctx, store.Session{Hash: sessionHash(9), Expires: 4e15}, sessionBounds)
		_, two := s.SessionList(ctx)
		return []error{one, two, s.UseSession(ctx, 1), s.EndSession(ctx, 1)}
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
