package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"skein.dev/skein/internal/store"
)

// righted returns a check that gets the store as store.Access. Every engine implements that.
func righted(run func(b *bed, s store.Access)) func(b *bed) {
	return func(b *bed) {
		s, ok := b.s.(store.Access)
		if !ok {
			b.Fatal("the store keeps no rights")
		}
		run(b, s)
	}
}

func rights() []check {
	return []check{
		{"a new store has the first service", righted(rightsFirst)},
		{"rights are what changes made them", righted(rightsChanged)},
		{"a change of other rights writes nothing", righted(rightsFenced)},
		{"a refused change writes nothing", righted(rightsRefused)},
		{"one of the changes at once is made", righted(rightsAtOnce)},
		{"passwords go with their principals", righted(passwordsChange)},
		{"identities go with their principals", righted(identitiesChange)},
		{"rights of a closed store", righted(rightsClosed)},
		{"rights stay", righted(rightsStay)},
	}
}

// rightsOf reads the rights and clears their times. It also checks that the separately read revision is the
// same.
func rightsOf(b *bed, s store.Access) store.Rights {
	b.Helper()
	all, err := s.Rights(b.ctx)
	b.ok(err)
	is, err := s.RightsRevision(b.ctx)
	b.ok(err)
	b.same(all.Revision, is, "the revision")
	for i := range all.Principals {
		all.Principals[i].Created = 0
	}
	for i := range all.Roles {
		all.Roles[i].Created = 0
	}
	for i := range all.Bindings {
		all.Bindings[i].Created = 0
	}
	return all
}

// changeRights makes a change based on the current revision, and returns the new revision.
func changeRights(b *bed, s store.Access, c store.RightsChange) int64 {
	b.Helper()
	was, err := s.RightsRevision(b.ctx)
	b.ok(err)
	is, err := s.ChangeRights(b.ctx, was, c)
	b.ok(err)
	b.same(is, was+1, "the revision that a change makes")
	return is
}

func someone(name string) *store.Principal {
	return &store.Principal{Kind: store.PrincipalUser, Name: name, State: store.PrincipalActive, By: "root"}
}

var (
	firstPrincipal = store.Principal{ID: store.FirstService, Kind: store.PrincipalService, Name: store.FirstServiceName,
		State: store.PrincipalActive, By: "skein"}
	firstBinding = store.Binding{Subject: store.FirstService, Role: store.FirstServiceRole, Namespace: store.All, By: "skein"}
)

func rightsFirst(b *bed, s store.Access) {
	b.same(rightsOf(b, s), store.Rights{Revision: 1, Principals: []store.Principal{firstPrincipal}, Bindings: []store.Binding{firstBinding}}, "the rights")
}

func rightsChanged(b *bed, s store.Access) {
	ann := changeRights(b, s, store.RightsChange{Add: someone("änn"), PutRoles: []store.Role{{Name: "starter", Verbs: "run.start run.read", By: "root"}},
		Bind: []store.Binding{{Role: "starter", Namespace: "web", Expires: 7, By: "root"}, {Role: "viewer", Namespace: store.All, By: "root"}}})
	annIs := *someone("änn")
	annIs.ID = ann
	want := store.Rights{Revision: ann, Principals: []store.Principal{firstPrincipal, annIs},
		Roles: []store.Role{{Name: "starter", Verbs: "run.start run.read", By: "root"}},
		Bindings: []store.Binding{firstBinding, {Subject: ann, Role: "starter", Namespace: "web", Expires: 7, By: "root"},
			{Subject: ann, Role: "viewer", Namespace: store.All, By: "root"}}}
	b.same(rightsOf(b, s), want, "after an addition")

	bob := changeRights(b, s, store.RightsChange{Add: someone("bob"), PutRoles: []store.Role{{Name: "starter", Verbs: "run.start", By: "bob"}},
		Set:    &store.Principal{ID: ann, Name: "ann", State: store.PrincipalDisabled},
		Unbind: []store.Binding{{Subject: ann, Role: "viewer", Namespace: store.All}},
		Bind:   []store.Binding{{Subject: ann, Role: "starter", Namespace: "web", Expires: 9, By: "bob"}, {Role: "starter", Namespace: "api", By: "bob"}}})
	annIs.Name, annIs.State = "ann", store.PrincipalDisabled
	bobIs := *someone("bob")
	bobIs.ID = bob
	want = store.Rights{Revision: bob, Principals: []store.Principal{firstPrincipal, annIs, bobIs},
		Roles: []store.Role{{Name: "starter", Verbs: "run.start", By: "bob"}},
		Bindings: []store.Binding{firstBinding, {Subject: ann, Role: "starter", Namespace: "web", Expires: 9, By: "bob"},
			{Subject: bob, Role: "starter", Namespace: "api", By: "bob"}}}
	b.same(rightsOf(b, s), want, "after an edit")

	want.Revision = changeRights(b, s, store.RightsChange{Drop: ann})
	want.Principals, want.Bindings = []store.Principal{firstPrincipal, bobIs}, []store.Binding{firstBinding, want.Bindings[2]}
	b.same(rightsOf(b, s), want, "after a principal went")
	want.Revision = changeRights(b, s, store.RightsChange{DropRoles: []string{"starter"}})
	want.Roles, want.Bindings = nil, []store.Binding{firstBinding}
	b.same(rightsOf(b, s), want, "after a role went")
}

// rightsFenced checks that a change based on another revision, or about a missing row, is refused as a whole.
func rightsFenced(b *bed, s store.Access) {
	before := rightsOf(b, s)
	for _, c := range []struct {
		expect int64
		store.RightsChange
	}{
		{0, store.RightsChange{Add: someone("ann")}},
		{2, store.RightsChange{Add: someone("ann")}},
		{1, store.RightsChange{Add: someone("ann"), Set: &store.Principal{ID: 99, Name: "x"}}},
		{1, store.RightsChange{Add: someone("ann"), Drop: 99}},
		{1, store.RightsChange{Add: someone("ann"), DropRoles: []string{"none"}}},
		{1, store.RightsChange{Add: someone("ann"), Unbind: []store.Binding{{Subject: 1, Role: "viewer", Namespace: "*"}}}},
		{1, store.RightsChange{Add: someone("ann"), Bind: []store.Binding{{Subject: 99, Role: "viewer", Namespace: "*"}}}},
	} {
		_, err := s.ChangeRights(b.ctx, c.expect, c.RightsChange)
		b.is(err, store.ErrFenced)
		b.same(rightsOf(b, s), before, "after a fenced change")
	}
}

func rightsRefused(b *bed, s store.Access) {
	before := rightsOf(b, s)
	for _, name := range []string{store.FirstServiceName, "a\x00b"} {
		_, err := s.ChangeRights(b.ctx, 1, store.RightsChange{PutRoles: []store.Role{{Name: "r", Verbs: "graph"}}, Add: someone(name)})
		b.is(err, store.ErrRefused)
		b.same(rightsOf(b, s), before, "after a refused change")
	}
	ann := changeRights(b, s, store.RightsChange{Add: someone("ann")})
	_, err := s.ChangeRights(b.ctx, ann, store.RightsChange{Set: &store.Principal{ID: ann, Name: store.FirstServiceName, State: store.PrincipalActive}})
	b.is(err, store.ErrRefused)
}

func passwordsChange(b *bed, s store.Access) {
	is := func(principal int64, want string) {
		b.Helper()
		p, err := s.PasswordOf(b.ctx, principal)
		if want == "" {
			b.is(err, store.ErrNotFound)
			return
		}
		b.ok(err)
		b.same(p.Hash, want, "the hash")
		b.same(p.Principal, principal, "the principal of a password")
		if p.Changed == 0 {
			b.Error("a password has no time")
		}
	}
	ann := changeRights(b, s, store.RightsChange{Add: someone("ann"), Password: &store.Password{Hash: "one"}})
	is(ann, "one")
	is(store.FirstService, "")
	before := rightsOf(b, s)
	_, err := s.ChangeRights(b.ctx, before.Revision, store.RightsChange{Add: someone("bob"), Password: &store.Password{Principal: 99, Hash: "x"}})
	b.is(err, store.ErrFenced)
	_, err = s.ChangeRights(b.ctx, before.Revision-1, store.RightsChange{Password: &store.Password{Principal: ann, Hash: "x"}})
	b.is(err, store.ErrFenced)
	b.same(rightsOf(b, s), before, "after fenced changes")
	is(ann, "one")
	// A new password ends the sessions of its principal. Sessions of tokens and of other principals stay.
	sessions := s.(store.Sessions)
	for i, one := range []store.Session{{Principal: ann}, {Principal: ann, Code: true}, {Principal: ann, Token: 7}, {Principal: store.FirstService}} {
		one.Hash, one.Expires = sessionHash(i), 4e15
		b.ok(second(sessions.AddSession(b.ctx, one, sessionBounds)))
	}
	left := func(want int) {
		b.Helper()
		all, err := sessions.SessionList(b.ctx)
		b.ok(err)
		b.same(len(all), want, "sessions that are left")
	}
	changeRights(b, s, store.RightsChange{Password: &store.Password{Principal: ann, Hash: "one anew"}, SamePassword: true})
	left(4)
	changeRights(b, s, store.RightsChange{Password: &store.Password{Principal: ann, Hash: "two"}})
	is(ann, "two")
	left(2)
	off := store.Principal{ID: ann, Name: "ann", State: store.PrincipalDisabled}
	changeRights(b, s, store.RightsChange{Set: &off})
	left(1)
	changeRights(b, s, store.RightsChange{Password: &store.Password{Principal: ann}})
	is(ann, "")
	changeRights(b, s, store.RightsChange{Password: &store.Password{Principal: ann, Hash: "three"}})
	changeRights(b, s, store.RightsChange{Drop: ann})
	is(ann, "")
}

// identitiesChange checks that an account at a provider belongs to one principal at a time, and that roles
// from the account's groups are kept apart from other roles.
func identitiesChange(b *bed, s store.Access) {
	const provider, other = "https://id.example", "https://id2.example"
	ann := changeRights(b, s, store.RightsChange{Add: someone("ann"), Identify: &store.Identity{Issuer: provider, Subject: "1", Source: "oidc:corp"},
		Bind: []store.Binding{{Role: "viewer", Namespace: "web", By: "oidc:corp", Source: "oidc:corp"}, {Role: "editor", Namespace: "web", By: "root"}}})
	bob := changeRights(b, s, store.RightsChange{Add: someone("bob"), Identify: &store.Identity{Issuer: provider, Subject: "0", Source: "oidc:corp"}})
	changeRights(b, s, store.RightsChange{Identify: &store.Identity{Principal: ann, Issuer: other, Subject: "1", Source: "oidc:two"}})
	is := rightsOf(b, s)
	b.same(is.Identities, []store.Identity{{Principal: bob, Issuer: provider, Subject: "0", Source: "oidc:corp"},
		{Principal: ann, Issuer: provider, Subject: "1", Source: "oidc:corp"}, {Principal: ann, Issuer: other, Subject: "1", Source: "oidc:two"}}, "the identities")
	b.same(is.Bindings[1:], []store.Binding{{Subject: ann, Role: "editor", Namespace: "web", By: "root"},
		{Subject: ann, Role: "viewer", Namespace: "web", By: "oidc:corp", Source: "oidc:corp"}}, "the bindings")
	// A binding that a person makes no longer belongs to a group.
	changeRights(b, s, store.RightsChange{Bind: []store.Binding{{Subject: ann, Role: "viewer", Namespace: "web", By: "root"}}})
	b.same(rightsOf(b, s).Bindings[2].Source, "", "the source of a binding that was given again")

	before := rightsOf(b, s)
	_, err := s.ChangeRights(b.ctx, before.Revision, store.RightsChange{Add: someone("cid"), Identify: &store.Identity{Principal: 99, Issuer: provider, Subject: "2"}})
	b.is(err, store.ErrFenced)
	b.same(rightsOf(b, s), before, "after a fenced identity")
	changeRights(b, s, store.RightsChange{Identify: &store.Identity{Principal: ann, Issuer: provider, Subject: "0", Source: "oidc:new"}})
	changeRights(b, s, store.RightsChange{Drop: bob})
	b.same(rightsOf(b, s).Identities[0], store.Identity{Principal: ann, Issuer: provider, Subject: "0", Source: "oidc:new"}, "an identity that moved")
	changeRights(b, s, store.RightsChange{Drop: ann})
	b.same(len(rightsOf(b, s).Identities), 0, "identities of nobody")
}

func rightsAtOnce(b *bed, s store.Access) {
	var made atomic.Int32
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			if _, err := s.ChangeRights(b.ctx, 1, store.RightsChange{Add: someone(fmt.Sprint("u", n))}); err == nil {
				made.Add(1)
			}
		})
	}
	wg.Wait()
	b.same(made.Load(), int32(1), "changes of one revision")
	b.same(len(rightsOf(b, s).Principals), 2, "principals")
}

func rightsClosed(b *bed, s store.Access) {
	verbs := func(ctx context.Context) []error {
		_, one := s.RightsRevision(ctx)
		_, two := s.Rights(ctx)
		_, three := s.ChangeRights(ctx, 1, store.RightsChange{Add: someone("ann")})
		return []error{one, two, three}
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

// rightsStay checks that an engine that keeps rows also keeps rights.
func rightsStay(b *bed, s store.Access) {
	if b.e.Reopen == nil {
		return
	}
	changeRights(b, s, store.RightsChange{Add: someone("ann"), Bind: []store.Binding{{Role: "viewer", Namespace: "web", By: "root"}}})
	before := rightsOf(b, s)
	b.ok(b.s.Close())
	b.s = b.e.Reopen(b.T, b.s)
	b.same(rightsOf(b, b.s.(store.Access)), before, "rights of a store that was opened again")
}

func second[T any](_ T, err error) error { return err }
