package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

const anHour = dag.Micros(3_600_000_000)

// invitation adds an invitation.
func invitation(b *bed, s store.Tokens, n int, uses int32, parent int64) store.Token {
	b.Helper()
	t, err := s.AddToken(b.ctx, store.Token{Kind: store.TokenInvite, Name: fmt.Sprint("invitation", n), Hash: hashOf(n), Expires: 4e15, By: "ann", Namespaces: "web shop",
		Verbs: store.All, Maker: 4, Parent: parent, Groups: "etl big", Slots: 16, Uses: uses})
	b.ok(err)
	return t
}

// tokenOf returns the token with an ID, as the store lists it.
func tokenOf(b *bed, s store.Tokens, id int64) store.Token {
	b.Helper()
	all, err := s.TokenList(b.ctx)
	b.ok(err)
	for i := range all {
		if all[i].ID == id {
			return all[i]
		}
	}
	b.Fatalf("no token %d", id)
	return store.Token{}
}

// tokenJoined checks that the row of a certificate gets the bounds of the invitation. A repeated use with the
// same key returns the same row, and does not count again.
func tokenJoined(b *bed, s store.Tokens) {
	above, err := s.AddToken(b.ctx, store.Token{Kind: store.TokenAPI, Name: "above", Hash: hashOf(7)})
	b.ok(err)
	inv := invitation(b, s, 1, 2, above.ID)
	b.same(tokenOf(b, s, inv.ID), inv, "the invitation")
	one, err := s.JoinToken(b.ctx, store.Joining{Invite: inv.ID, Name: "worker w1", Hash: hashOf(2), Life: anHour})
	b.ok(err)
	b.same(one, store.Token{ID: one.ID, Kind: store.TokenCertificate, Name: "worker w1", Hash: hashOf(2), Created: one.Created, Expires: one.Created + anHour, By: "ann",
		Namespaces: "web shop", Verbs: store.All, Maker: 4, Parent: above.ID, Groups: "etl big", Slots: 16, Invite: inv.ID}, "the row")
	b.same(tokenOf(b, s, one.ID), one, "the row in the list")
	again, err := s.JoinToken(b.ctx, store.Joining{Invite: inv.ID, Name: "worker w1", Hash: hashOf(2), Life: 2 * anHour})
	b.ok(err)
	b.same(again.ID, one.ID, "the same key again")
	b.same(again.Expires > one.Expires, true, "its end moves")
	b.same(tokenOf(b, s, inv.ID).Used, int32(1), "uses")
	_, err = s.JoinToken(b.ctx, store.Joining{Invite: inv.ID, Name: "worker w2", Hash: hashOf(2), Life: anHour})
	b.is(err, store.ErrRefused)
	_, err = s.JoinToken(b.ctx, store.Joining{Invite: inv.ID, Name: "worker w2", Hash: hashOf(3), Life: anHour})
	b.ok(err)
	_, err = s.JoinToken(b.ctx, store.Joining{Invite: inv.ID, Name: "worker w3", Hash: hashOf(4), Life: anHour})
	b.is(err, store.ErrFenced)
	b.same(tokenOf(b, s, inv.ID).Used, int32(2), "uses at the end")
}

// tokenNotJoined checks that a refused use changes nothing.
func tokenNotJoined(b *bed, s store.Tokens) {
	above, err := s.AddToken(b.ctx, store.Token{Kind: store.TokenAPI, Name: "above", Hash: hashOf(7)})
	b.ok(err)
	inv, gone := invitation(b, s, 1, 9, 0), invitation(b, s, 2, 9, 0)
	below := invitation(b, s, 3, 9, above.ID)
	late, err := s.AddToken(b.ctx, store.Token{Kind: store.TokenInvite, Name: "late", Hash: hashOf(4), Expires: 1, Uses: 9})
	b.ok(err)
	b.ok(s.RevokeToken(b.ctx, gone.ID))
	b.ok(s.RevokeToken(b.ctx, above.ID))
	held, err := s.JoinToken(b.ctx, store.Joining{Invite: inv.ID, Name: "worker held", Hash: hashOf(5), Life: anHour})
	b.ok(err)
	old, err := s.JoinToken(b.ctx, store.Joining{Invite: inv.ID, Name: "worker old", Hash: hashOf(6), Life: -anHour})
	b.ok(err)
	was, err := s.TokenList(b.ctx)
	b.ok(err)
	for _, bad := range []struct {
		j    store.Joining
		want error
	}{
		{store.Joining{Invite: gone.ID, Name: "worker a", Hash: hashOf(8), Life: anHour}, store.ErrFenced},
		{store.Joining{Invite: below.ID, Name: "worker a", Hash: hashOf(8), Life: anHour}, store.ErrFenced},
		{store.Joining{Invite: late.ID, Name: "worker a", Hash: hashOf(8), Life: anHour}, store.ErrFenced},
		{store.Joining{Invite: held.ID, Name: "worker a", Hash: hashOf(8), Life: anHour}, store.ErrFenced},
		{store.Joining{Invite: 99999, Name: "worker a", Hash: hashOf(8), Life: anHour}, store.ErrFenced},
		{store.Joining{Invite: inv.ID, Name: "worker held", Hash: hashOf(8), Life: anHour}, store.ErrRefused},
		{store.Joining{Invite: inv.ID, Name: "worker a", Hash: hashOf(7), Life: anHour}, store.ErrRefused},
	} {
		_, err := s.JoinToken(b.ctx, bad.j)
		b.is(err, bad.want)
	}
	all, err := s.TokenList(b.ctx)
	b.ok(err)
	b.same(all, was, "the tokens after refused uses")
	_, err = s.JoinToken(b.ctx, store.Joining{Invite: inv.ID, Name: "worker old", Hash: hashOf(9), Life: anHour})
	b.ok(err)
	b.same(tokenOf(b, s, old.ID).Revoked > 0, true, "the expired row gave its name up")
}

// tokenJoinedAtOnce makes several workers use an invitation concurrently. No more may join than the
// invitation allows.
func tokenJoinedAtOnce(b *bed, s store.Tokens) {
	inv := invitation(b, s, 1, 3, 0)
	var wg sync.WaitGroup
	var joined, refused atomic.Int32
	for n := range 8 {
		wg.Go(func() {
			switch _, err := s.JoinToken(b.ctx, store.Joining{Invite: inv.ID, Name: fmt.Sprint("worker ", n), Hash: hashOf(10 + n), Life: anHour}); {
			case err == nil:
				joined.Add(1)
			case errors.Is(err, store.ErrFenced):
				refused.Add(1)
			default:
				b.Errorf("worker %d: %v", n, err)
			}
		})
	}
	wg.Wait()
	b.same([]int32{joined.Load(), refused.Load(), tokenOf(b, s, inv.ID).Used}, []int32{3, 5, 3}, "joined, refused, used")
}

func tokenRenewed(b *bed, s store.Tokens) {
	inv := invitation(b, s, 1, 3, 0)
	one, err := s.JoinToken(b.ctx, store.Joining{Invite: inv.ID, Name: "worker w1", Hash: hashOf(2), Life: anHour})
	b.ok(err)
	is, err := s.RenewToken(b.ctx, one.ID, 2*anHour)
	b.ok(err)
	b.same(is.Expires > one.Expires && is.Expires >= one.Created+2*anHour, true, "a later end")
	b.same(tokenOf(b, s, one.ID), is, "the renewed row")
	_, err = s.RenewToken(b.ctx, inv.ID, anHour)
	b.is(err, store.ErrFenced)
	b.ok(s.RevokeToken(b.ctx, one.ID))
	_, err = s.RenewToken(b.ctx, one.ID, anHour)
	b.is(err, store.ErrFenced)
	old, err := s.JoinToken(b.ctx, store.Joining{Invite: inv.ID, Name: "worker w2", Hash: hashOf(3), Life: -anHour})
	b.ok(err)
	_, err = s.RenewToken(b.ctx, old.ID, anHour)
	b.is(err, store.ErrFenced)
}

func nodeEnrolled(b *bed, s store.Tokens) {
	enroll := func(hash int, life dag.Micros) (store.Token, error) {
		return s.EnrollNode(b.ctx, store.Enrolling{Name: "node n1", Hash: hashOf(hash), Life: life})
	}
	one, err := enroll(1, anHour)
	b.ok(err)
	b.same(one, store.Token{ID: one.ID, Kind: store.TokenCertificate, Name: "node n1", Hash: hashOf(1), Created: one.Created, Expires: one.Created + anHour, By: "node n1"}, "the row")
	again, err := enroll(1, 2*anHour)
	b.ok(err)
	b.same(again.ID == one.ID && again.Expires > one.Expires, true, "the same row with a later end")
	// The certificate has expired. The next key may still use its row.
	next, err := enroll(2, -anHour)
	b.ok(err)
	b.same(next.ID, one.ID, "the row after another key")
	next, err = enroll(3, anHour)
	b.ok(err)
	b.same(next.ID, one.ID, "the row after a key that had expired")
	_, err = s.TokenByHash(b.ctx, hashOf(2))
	b.is(err, store.ErrNotFound)
	b.ok(s.RevokeToken(b.ctx, one.ID))
	_, err = enroll(3, anHour)
	b.is(err, store.ErrFenced)
	other, err := enroll(4, anHour)
	b.ok(err)
	b.same(other.ID != one.ID, true, "a revoked row stays")
	b.same(tokenOf(b, s, one.ID).Revoked != 0, true, "it is revoked")
}

func tokensRevoked(b *bed, s store.Tokens) {
	one, two, three := b.token(s, 1, "one"), b.token(s, 2, "two"), b.token(s, 3, "three")
	b.is(s.RevokeToken(b.ctx, one.ID, 999), store.ErrNotFound)
	b.same(tokenOf(b, s, one.ID).Revoked, dag.Micros(0), "a token that was to end with one that is not there")
	b.ok(s.RevokeToken(auditing(b, "revoke-token"), one.ID, two.ID, two.ID))
	for _, id := range []int64{one.ID, two.ID} {
		b.same(tokenOf(b, s, id).Revoked != 0, true, "revoked")
	}
	b.same(tokenOf(b, s, three.ID).Revoked, dag.Micros(0), "another token")
	b.same(len(freshAudits(b)), 1, "audit rows")
}
