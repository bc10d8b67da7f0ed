package postgres

import (
	"cmp"
	"context"

	"skein.dev/skein/internal/store"
)

var _ store.Access = (*DB)(nil)

// rights implements store.Access for the database that embeds it.
type rights struct{ d *DB }

// RightsRevision implements store.Access.
func (e rights) RightsRevision(ctx context.Context) (int64, error) {
	return first(ctx, e.d, query{name: "rightsRevision"}, scanRevision)
}

// Rights implements store.Access.
func (e rights) Rights(ctx context.Context) (all store.Rights, err error) {
	var revisions []int64
	err = e.d.queries(ctx, query{"snapshot", nil, nil}, query{"rightsRevision", nil, into(&revisions, scanRevision)},
		query{"principals", nil, into(&all.Principals, scanPrincipal)}, query{"roles", nil, into(&all.Roles, scanRole)},
		query{"bindings", nil, into(&all.Bindings, scanBinding)},
		query{"identities", nil, into(&all.Identities, scanIdentity)}, query{"done", nil, nil})
	if err != nil {
		return store.Rights{}, err
	}
	for _, is := range revisions {
		all.Revision = is
	}
	return all, nil
}

// ChangeRights implements store.Access.
func (e rights) ChangeRights(ctx context.Context, expect int64, c store.RightsChange) (int64, error) {
	is := expect + 1
	all := []query{{name: "moveRights", args: args{}.int8(expect)}}
	do := func(name string, a args) { all = append(all, query{name: name, args: a}) }
	if p := c.Add; p != nil {
		do("insertPrincipal", args{}.int8(is).text(p.Kind).text(p.Name).text(p.State).text(p.By))
	}
	if p := c.Set; p != nil {
		do("setPrincipal", args{}.int8(p.ID).text(p.Name).text(p.State))
		if p.State != store.PrincipalActive {
			do("dropAllSessionsOf", args{}.int8(p.ID))
		}
	}
	if c.Drop != 0 {
		do("dropPrincipal", args{}.int8(c.Drop))
		do("unbindPrincipal", args{}.int8(c.Drop))
		do("dropPassword", args{}.int8(c.Drop))
		do("dropIdentities", args{}.int8(c.Drop))
		do("dropAllSessionsOf", args{}.int8(c.Drop))
	}
	for _, r := range c.PutRoles {
		do("putRole", args{}.text(r.Name).text(r.Verbs).text(r.By))
	}
	for _, name := range c.DropRoles {
		do("dropRole", args{}.text(name))
		do("unbindRole", args{}.text(name))
	}
	if one := c.Identify; one != nil {
		do("identify", args{}.int8(cmp.Or(one.Principal, is)).text(one.Issuer).text(one.Subject).text(one.Source))
	}
	for _, b := range c.Unbind {
		do("unbind", args{}.int8(b.Subject).text(b.Role).text(b.Namespace))
	}
	for _, b := range c.Bind {
		if b.Subject == 0 {
			b.Subject = is
		}
		do("bind", args{}.int8(b.Subject).text(b.Role).text(b.Namespace).int8(int64(b.Expires)).text(b.By).text(b.Source))
	}
	if p := c.Password; p != nil && !c.SamePassword {
		do("dropSessionsOf", args{}.int8(cmp.Or(p.Principal, is)))
	}
	if p := c.Password; p != nil && p.Hash == "" {
		do("dropPassword", args{}.int8(cmp.Or(p.Principal, is)))
	} else if p != nil {
		do("putPassword", args{}.int8(cmp.Or(p.Principal, is)).text(p.Hash))
	}
	if err := e.d.alter(ctx, "change the rights", nil, noted(ctx, all)...); err != nil {
		return 0, err
	}
	return is, nil
}

func scanRevision(r *row, is *int64) error {
	*is = r.int()
	return r.damaged("the revision of the rights")
}

func scanPrincipal(r *row, p *store.Principal) error {
	p.ID, p.Kind, p.Name, p.State, p.Created, p.By = r.int(), r.text(), r.text(), r.text(), r.micros(), r.text()
	return r.damaged("principal %d", p.ID)
}

func scanRole(r *row, one *store.Role) error {
	one.Name, one.Verbs, one.Created, one.By = r.text(), r.text(), r.micros(), r.text()
	return r.damaged("role %s", one.Name)
}

func scanBinding(r *row, b *store.Binding) error {
	b.Subject, b.Role, b.Namespace, b.Expires, b.Created, b.By, b.Source = r.int(), r.text(), r.text(), r.micros(), r.micros(), r.text(), r.text()
	return r.damaged("a binding of principal %d", b.Subject)
}

func scanIdentity(r *row, i *store.Identity) error {
	i.Principal, i.Issuer, i.Subject, i.Source = r.int(), r.text(), r.text(), r.text()
	return r.damaged("an identity of principal %d", i.Principal)
}

// PasswordOf implements store.Access.
func (e rights) PasswordOf(ctx context.Context, principal int64) (store.Password, error) {
	return first(ctx, e.d, query{name: "passwordOf", args: args{}.int8(principal)}, scanPassword)
}

func scanPassword(r *row, p *store.Password) error {
	p.Principal, p.Hash, p.Changed = r.int(), r.text(), r.micros()
	return r.damaged("the password of principal %d", p.Principal)
}
