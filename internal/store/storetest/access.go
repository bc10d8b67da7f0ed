package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"skein.dev/skein/internal/store"
)

// righted is a check of a store that keeps principals, roles and bindings, as all do.
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
		{"rights of a closed store", righted(rightsClosed)},
		{"rights stay", righted(rightsStay)},
	}
}

// rightsOf reads the rights without times, and checks the revision that is read alone.
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

// change makes a change on the present rights and returns the revision.
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

// rightsFenced: neither another revision nor a missing row lets a change through, whatever else it holds.
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

// rightsStay: an engine that keeps rows keeps rights.
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
