package storetest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	gouuid "github.com/google/uuid"

	"skein.dev/skein/internal/store"
)

func audits() []check {
	return []check{
		{"a change and its audit row are one transaction", auditedChanges},
		{"a change that fails has no audit row", failedUnaudited},
		{"a batch writes audit rows, each once", auditedBatch},
		{"orders to nodes and moves of shards are audited", clustered(auditedOrders)},
		{"rows get their index in one order", auditGrows},
		{"one of several sequencers gives the indexes", auditAtOnce},
		{"the oldest audit rows are deleted with the state of the tree", auditForgets},
		{"audit rows for people", auditListed},
	}
}

// auditing returns a context whose changes are audited.
func auditing(b *bed, action string) context.Context {
	return store.WithAudit(b.ctx, &store.Audit{Principal: "ada", Kind: "user", Token: 4, Session: 5, Address: "10.0.0.7", Verb: "token.all", Action: action,
		Object: "/o\x00\xff", Namespace: "web", Request: "r-1", Detail: "d"})
}

func freshAudits(b *bed) []store.Audit {
	b.Helper()
	all, err := b.s.AuditFresh(b.ctx, 1000)
	b.ok(err)
	return all
}

// auditedChanges makes each kind of change that is audited. Some of these calls write no row, such as the use
// of a session.
func auditedChanges(b *bed) {
	s, bounds := b.s, store.SessionBounds{OfOne: 5, All: 50}
	var session store.Session
	for _, one := range []struct {
		name   string
		change func(ctx context.Context) error
		rows   int
	}{
		{"add-token", func(ctx context.Context) error {
			_, err := s.AddToken(ctx, store.WholeToken(store.TokenAPI, "one", hashOf(1)))
			return err
		}, 1},
		{"rotate-token", func(ctx context.Context) error {
			_, err := s.RotateToken(ctx, store.Rotation{Token: 1, Hash: hashOf(3), Grace: 1})
			return err
		}, 1},
		{"revoke-token", func(ctx context.Context) error { return s.RevokeToken(ctx, 1) }, 1},
		{"put-class", func(ctx context.Context) error {
			_, err := s.PutClass(ctx, store.Class{Name: "big"})
			return err
		}, 1},
		{"drop-class", func(ctx context.Context) error { return s.DropClass(ctx, "big") }, 1},
		{"add-session", func(ctx context.Context) (err error) {
			session, err = s.AddSession(ctx, store.Session{Hash: hashOf(1), Principal: 1, Expires: 4e15}, bounds)
			return err
		}, 1},
		{"use-session", func(ctx context.Context) error { return s.UseSession(ctx, session.ID) }, 0},
		{"end-session", func(ctx context.Context) error { return s.EndSession(ctx, session.ID) }, 1},
		{"set-key", func(ctx context.Context) error { return s.SetSecretKey(ctx, "k1", "") }, 1},
		{"put-secret", func(ctx context.Context) error {
			_, err := s.PutSecret(ctx, store.Secret{Namespace: "web", Name: "s", Version: 1, Key: "k1", Wrapped: []byte{1}, Data: []byte{2}})
			return err
		}, 1},
		{"rewrap-secret", func(ctx context.Context) error {
			return s.RewrapSecret(ctx, store.Secret{Namespace: "web", Name: "s", Version: 1, Key: "k1", Wrapped: []byte{3}}, "k1")
		}, 0},
		{"drop-secret", func(ctx context.Context) error { return s.DropSecret(ctx, "web", "s") }, 1},
		{"change-rights", func(ctx context.Context) error {
			_, err := s.ChangeRights(ctx, 1, store.RightsChange{Add: &store.Principal{Kind: store.PrincipalUser, Name: "ada", State: store.PrincipalActive}})
			return err
		}, 1},
	} {
		before := len(freshAudits(b))
		b.ok(one.change(auditing(b, one.name)))
		rows := freshAudits(b)[before:]
		if len(rows) != one.rows {
			b.Errorf("%s: %d rows, want %d", one.name, len(rows), one.rows)
			continue
		}
		for _, r := range rows {
			if r.ID == 0 || r.At == 0 || r.Key == (gouuid.UUID{}) {
				b.Errorf("%s: row %+v", one.name, r)
			}
			b.same(r, store.Audit{ID: r.ID, Key: r.Key, Index: -1, At: r.At, Last: r.At, Count: 1, Principal: "ada", Kind: "user", Token: 4, Session: 5,
				Address: "10.0.0.7", Verb: "token.all", Action: one.name, Object: "/o��", Namespace: "web", Outcome: store.AuditDone, Request: "r-1", Detail: "d"}, one.name)
		}
	}
	before := len(freshAudits(b))
	_, err := s.AddToken(b.ctx, store.WholeToken(store.TokenAPI, "two", hashOf(2)))
	b.ok(err)
	b.same(len(freshAudits(b)), before, "rows after a change that is not audited")
}

func failedUnaudited(b *bed) {
	ctx, s := auditing(b, "x"), b.s
	b.is(s.RevokeToken(ctx, 99), store.ErrNotFound)
	b.is(s.DropClass(ctx, "none"), store.ErrNotFound)
	b.is(s.EndSession(ctx, 99), store.ErrNotFound)
	b.is(s.DropSecret(ctx, "web", "none"), store.ErrNotFound)
	b.is(s.SetSecretKey(ctx, "k2", "another"), store.ErrFenced)
	_, err := s.PutSecret(ctx, store.Secret{Namespace: "web", Name: "s", Version: 7, Key: "k1", Wrapped: []byte{1}, Data: []byte{2}})
	b.is(err, store.ErrFenced)
	_, err = s.ChangeRights(ctx, 99, store.RightsChange{PutRoles: []store.Role{{Name: "r", Verbs: "graph"}}})
	b.is(err, store.ErrFenced)
	_, err = s.AddSession(ctx, store.Session{Hash: hashOf(1), Principal: 1, Expires: 4e15}, store.SessionBounds{OfOne: 1, All: 0})
	b.is(err, store.ErrRefused)
	b.same(len(freshAudits(b)), 0, "rows")
}

func auditedOrders(b *bed, s store.Cluster) {
	order := store.Order{Node: "node-1", What: store.OrderCordon, Actor: "ada"}
	for n, want := range []int{1, 1, 2, 2} {
		_, err := s.Order(auditing(b, "cordon-node"), order, n < 2)
		b.ok(err)
		b.same(len(freshAudits(b)), want, "rows of orders, of which every second one changes nothing")
	}
	b.ok(s.Move(auditing(b, "move-shard"), 0, b.owner))
	b.same(len(freshAudits(b)), 3, "rows after a move")
}

// auditRow returns an audit row as an engine writes it.
func auditRow(b *bed, n byte) store.Audit {
	return store.Audit{Key: gouuid.UUID{n, 1}, Index: -1, At: 100, Last: 100, Count: 1, Principal: "ann", Verb: "run.control", Action: "stop-run", Namespace: "web", Outcome: store.AuditDone}
}

func auditedBatch(b *bed) {
	one, two := auditRow(b, 1), auditRow(b, 2)
	two.At, two.Last = 0, 0
	for range 2 { // the second time, as after an unknown outcome
		b.put(func(x *store.Batch) {
			x.Requests = append(x.Requests, store.Request{Scope: "s", Key: string(rune('a' + b.sent)), Hash: []byte{1}, Answer: []byte{2}, Created: 1})
			x.Audit = append(x.Audit, one, two)
		})
	}
	rows := freshAudits(b)
	b.same(len(rows), 2, "rows")
	one.ID, two.ID = rows[0].ID, rows[1].ID
	b.same(rows[0], one, "the row with a time")
	if two.At, two.Last = rows[1].At, rows[1].Last; two.At <= 100 || two.At != two.Last {
		b.Errorf("the store's time is %d, %d", two.At, two.Last)
	}
	b.same(rows[1], two, "the row without a time")
	x := b.batch()
	x.Audit = append(x.Audit, auditRow(b, 3))
	x.Fences[0].Epoch++
	b.fails(x, store.ErrFenced)
	b.same(len(freshAudits(b)), 2, "rows after a batch that failed")
	only := b.batch()
	only.Audit = append(only.Audit, auditRow(b, 4))
	b.ok(b.commit(only))
	b.same(len(freshAudits(b)), 3, "rows after a batch of one row")
	guest := &store.Batch{Audit: []store.Audit{auditRow(b, 5)}, Requests: []store.Request{{Scope: "s", Key: "guest", Hash: []byte{1}, Answer: []byte{2}, Created: 1}}}
	_, err := b.send(guest)
	b.ok(err)
	b.same(len(freshAudits(b)), 4, "rows after a batch without fences")
	if b.e.Reopen != nil {
		b.ok(b.s.Close())
		b.s = b.e.Reopen(b.T, b.s)
		b.same(len(freshAudits(b)), 4, "rows after a restart")
	}
}

// grownAudit adds rows and gives them indexes. Its hashes have the right size but no meaning.
func grownAudit(b *bed, n int) store.AuditTree {
	b.Helper()
	for i := range n {
		b.ok(b.s.AddAudit(b.ctx, auditRow(b, byte(10+i))))
	}
	t, err := b.s.AuditTree(b.ctx)
	b.ok(err)
	to := t
	var leaves []store.AuditLeaf
	for _, r := range freshAudits(b) {
		leaves = append(leaves, store.AuditLeaf{ID: r.ID, Hash: bytes.Repeat([]byte{byte(r.ID)}, store.AuditHashBytes)})
	}
	to.Size, to.Edge, to.Era, to.Base = t.Size+int64(len(leaves)), bytes.Repeat([]byte{7}, 2*store.AuditHashBytes), 3, 1
	b.ok(b.s.GrowAudit(b.ctx, t.Size, to, leaves))
	return to
}

func auditGrows(b *bed) {
	none, err := b.s.AuditTree(b.ctx)
	b.ok(err)
	b.same(none, store.AuditTree{}, "the tree of an empty log")
	to := grownAudit(b, 5)
	is, err := b.s.AuditTree(b.ctx)
	b.ok(err)
	to.Head = is.Head // an empty head may come back as nil
	b.same(is, to, "the tree")
	b.same(len(freshAudits(b)), 0, "rows without an index")
	all, err := b.s.AuditLeaves(b.ctx, 1, 3)
	b.ok(err)
	b.same(len(all), 3, "rows of a page")
	for i, r := range all {
		if r.Index != int64(i+1) || !bytes.Equal(r.Hash, bytes.Repeat([]byte{byte(r.ID)}, store.AuditHashBytes)) {
			b.Errorf("row %d: %+v", i, r)
		}
	}
	b.ok(b.s.AddAudit(b.ctx, auditRow(b, 1)))
	next, more := freshAudits(b)[0].ID, to
	more.Size++
	leaf := []store.AuditLeaf{{ID: next, Hash: hashOf(1)}}
	b.is(b.s.GrowAudit(b.ctx, 4, more, leaf), store.ErrFenced)
	b.is(b.s.GrowAudit(b.ctx, 5, more, []store.AuditLeaf{{ID: all[0].ID, Hash: hashOf(1)}}), store.ErrFenced)
	b.is(b.s.GrowAudit(b.ctx, 5, more, []store.AuditLeaf{{ID: 9999, Hash: hashOf(1)}}), store.ErrFenced)
	is, err = b.s.AuditTree(b.ctx)
	b.ok(err)
	b.same(is.Size, int64(5), "the size after steps that failed")
	b.ok(b.s.GrowAudit(b.ctx, 5, more, leaf))
	b.ok(b.s.GrowAudit(b.ctx, 6, more, nil))
}

func auditAtOnce(b *bed) {
	b.ok(b.s.AddAudit(b.ctx, auditRow(b, 1), auditRow(b, 2), auditRow(b, 1)))
	rows := freshAudits(b)
	b.same(len(rows), 2, "rows")
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			leaves := []store.AuditLeaf{{ID: rows[0].ID, Hash: hashOf(1)}, {ID: rows[1].ID, Hash: hashOf(2)}}
			if b.s.GrowAudit(b.ctx, 0, store.AuditTree{Size: 2, Edge: hashOf(3)}, leaves) == nil {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	b.same(won.Load(), int32(1), "sequencers that gave indexes")
}

func auditForgets(b *bed) {
	from := grownAudit(b, 6)
	b.ok(b.s.AddAudit(b.ctx, auditRow(b, 1)))
	to := from
	to.First, to.Head = 4, hashOf(9)
	wrong := from
	wrong.First = 1
	b.is(b.s.ForgetAudit(b.ctx, wrong, to), store.ErrFenced)
	b.ok(b.s.ForgetAudit(b.ctx, from, to))
	b.is(b.s.ForgetAudit(b.ctx, from, to), store.ErrFenced)
	all, err := b.s.AuditLeaves(b.ctx, 0, 100)
	b.ok(err)
	b.same(len(all), 2, "rows")
	b.same(all[0].Index, int64(4), "the first row")
	b.same(len(freshAudits(b)), 1, "a row without an index stays")
	is, err := b.s.AuditTree(b.ctx)
	b.ok(err)
	b.same(is, to, "the tree")
}

func auditListed(b *bed) {
	for n := range byte(6) {
		r := auditRow(b, n)
		if r.Namespace = "web"; n%2 == 0 {
			r.Principal, r.Namespace, r.Verb = "bob", "shop", "run.start"
		}
		if n == 5 {
			r.Namespace, r.At = "", 500
		}
		b.ok(b.s.AddAudit(b.ctx, r))
	}
	ids := func(q store.AuditQuery) (keys []byte) {
		b.Helper()
		if q.Limit == 0 {
			q.Limit = 100
		}
		all, err := b.s.AuditList(b.ctx, q)
		b.ok(err)
		for _, r := range all {
			keys = append(keys, r.Key[0])
		}
		return keys
	}
	b.same(ids(store.AuditQuery{}), []byte{5, 4, 3, 2, 1, 0}, "all")
	b.same(ids(store.AuditQuery{Limit: 2}), []byte{5, 4}, "a page")
	all, err := b.s.AuditList(b.ctx, store.AuditQuery{Limit: 100})
	b.ok(err)
	b.same(ids(store.AuditQuery{Before: all[1].ID, BeforeAt: all[1].At}), []byte{3, 2, 1, 0}, "the next page")
	b.same(ids(store.AuditQuery{Since: 500}), []byte{5}, "since")
	b.same(ids(store.AuditQuery{Principal: "bob"}), []byte{4, 2, 0}, "by principal")
	b.same(ids(store.AuditQuery{Verb: "run.control"}), []byte{5, 3, 1}, "by verb")
	b.same(ids(store.AuditQuery{Namespaces: []string{"shop"}}), []byte{4, 2, 0}, "of one namespace")
	b.same(ids(store.AuditQuery{Namespaces: []string{"web", "shop"}}), []byte{4, 3, 2, 1, 0}, "of two namespaces")
	b.same(ids(store.AuditQuery{Namespaces: []string{}}), []byte(nil), "of no namespace")
	// The row about the refused calls of a minute is written at the end of the minute, with the time of the
	// first call.
	late := auditRow(b, 6)
	late.At, late.Outcome = 50, store.AuditRefused
	b.ok(b.s.AddAudit(b.ctx, late))
	b.same(ids(store.AuditQuery{}), []byte{5, 4, 3, 2, 1, 0, 6}, "all, by time")
	b.same(ids(store.AuditQuery{Since: 100}), []byte{5, 4, 3, 2, 1, 0}, "since, without an older row that was written later")
	b.same(ids(store.AuditQuery{Before: all[5].ID, BeforeAt: all[5].At}), []byte{6}, "the page after the last row with the same time")
	b.ok(b.s.AddAudit(b.ctx, auditRow(b, 7)))
	b.same(ids(store.AuditQuery{Since: 100, Limit: 2}), []byte{5, 7}, "a page of rows that were added since")
	b.same(ids(store.AuditQuery{Before: all[1].ID, BeforeAt: all[1].At, Limit: 2}), []byte{3, 2}, "a page in the middle")
}

// BenchAudited measures the cost of an audit row: a change without one, a change with one, and adding rows to
// the tree, 100 in a step.
func BenchAudited(b *testing.B, s store.Store) {
	change := func(b *testing.B, ctx context.Context) {
		b.Helper()
		if _, err := s.PutClass(ctx, store.Class{Name: "big"}); err != nil {
			b.Fatal(err)
		}
	}
	audited := func(b *testing.B) context.Context {
		return store.WithAudit(b.Context(), &store.Audit{Principal: "ada", Kind: "user", Token: 4, Address: "10.0.0.7", Verb: "class.write", Action: "set-class", Object: "/classes/big"})
	}
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			change(b, b.Context())
		}
	})
	b.Run("audited", func(b *testing.B) {
		ctx := audited(b)
		for b.Loop() {
			change(b, ctx)
		}
	})
	b.Run("place", func(b *testing.B) {
		const step = 100
		for n := 0; b.Loop(); n++ {
			if n%step > 0 {
				continue
			}
			b.StopTimer()
			for range step {
				change(b, audited(b))
			}
			rows, err := s.AuditFresh(b.Context(), step)
			t, err2 := s.AuditTree(b.Context())
			if err = errors.Join(err, err2); err != nil || len(rows) != step {
				b.Fatal(len(rows), err)
			}
			leaves := make([]store.AuditLeaf, len(rows))
			for i := range rows {
				leaves[i] = store.AuditLeaf{ID: rows[i].ID, Hash: bytes.Repeat([]byte{1}, store.AuditHashBytes)}
			}
			b.StartTimer()
			to := t
			to.Size += step
			if err := s.GrowAudit(b.Context(), t.Size, to, leaves); err != nil {
				b.Fatal(err)
			}
		}
	})
}
