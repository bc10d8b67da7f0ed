package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Access = (*Store)(nil)

// rights implements store.Access for the store that embeds it. The slices in the field is are never changed
// in place.
type rights struct {
	s         *Store
	is        store.Rights
	passwords map[int64]store.Password // a value is never changed in place
}

// firstRights returns the rights of every new database.
func firstRights() store.Rights {
	return store.Rights{Revision: 1,
		Principals: []store.Principal{{ID: store.FirstService, Kind: store.PrincipalService, Name: store.FirstServiceName,
			State: store.PrincipalActive, By: "skein"}},
		Bindings: []store.Binding{{Subject: store.FirstService, Role: store.FirstServiceRole, Namespace: store.All, By: "skein"}}}
}

// RightsRevision implements store.Access.
func (e *rights) RightsRevision(ctx context.Context) (is int64, err error) {
	return is, e.s.read(ctx, Read, func() error {
		is = e.is.Revision
		return nil
	})
}

// Rights implements store.Access.
func (e *rights) Rights(ctx context.Context) (all store.Rights, err error) {
	return all, e.s.read(ctx, Read, func() error {
		all = clonedRights(&e.is)
		return nil
	})
}

func clonedRights(r *store.Rights) store.Rights {
	return store.Rights{Revision: r.Revision, Principals: slices.Clone(r.Principals), Roles: slices.Clone(r.Roles), Bindings: slices.Clone(r.Bindings),
		Identities: slices.Clone(r.Identities)}
}

// ChangeRights implements store.Access.
func (e *rights) ChangeRights(ctx context.Context, expect int64, c store.RightsChange) (is int64, err error) {
	err = e.s.write(ctx, Op{Kind: RightsBefore}, RightsAfter, e.s.noted(ctx, func() error {
		if e.is.Revision != expect {
			return fmt.Errorf("the rights have changed: %w", store.ErrFenced)
		}
		x := rightsEdit{Rights: clonedRights(&e.is), passwords: maps.Clone(e.passwords), now: e.s.clock()}
		x.Revision++
		if err := x.apply(&c); err != nil {
			return err
		}
		e.is, e.passwords, is = x.Rights, x.passwords, x.Revision
		if p := c.Password; p != nil && !c.SamePassword {
			of := cmp.Or(p.Principal, is)
			e.s.sessions.drop(func(o *store.Session) bool { return o.Principal == of && o.Token == 0 })
		}
		e.s.sessions.drop(func(o *store.Session) bool {
			return c.Drop != 0 && o.Principal == c.Drop || c.Set != nil && c.Set.State != store.PrincipalActive && o.Principal == c.Set.ID
		})
		return nil
	}))
	return is, err
}

// rightsEdit is a change in progress.
type rightsEdit struct {
	store.Rights
	passwords map[int64]store.Password
	now       dag.Micros
}

func (x *rightsEdit) apply(c *store.RightsChange) error {
	if c.Add != nil {
		p := *c.Add
		p.ID, p.Created = x.Revision, x.now
		x.Principals = append(x.Principals, p)
	}
	if c.Set != nil {
		i := slices.IndexFunc(x.Principals, func(p store.Principal) bool { return p.ID == c.Set.ID })
		if i < 0 {
			return errNoRow
		}
		x.Principals[i].Name, x.Principals[i].State = c.Set.Name, c.Set.State
	}
	if c.Drop != 0 {
		n := len(x.Principals)
		x.Principals = slices.DeleteFunc(x.Principals, func(p store.Principal) bool { return p.ID == c.Drop })
		if len(x.Principals) == n {
			return errNoRow
		}
		x.Bindings = slices.DeleteFunc(x.Bindings, func(b store.Binding) bool { return b.Subject == c.Drop })
		x.Identities = slices.DeleteFunc(x.Identities, func(i store.Identity) bool { return i.Principal == c.Drop })
		delete(x.passwords, c.Drop)
	}
	names := map[string]bool{}
	for _, p := range x.Principals {
		if err := checkTexts("principal", p.Name, p.Kind, p.State, p.By); err != nil {
			return err
		}
		if names[p.Name] {
			return refused("there is a principal %s", p.Name)
		}
		names[p.Name] = true
	}
	if err := x.roles(c); err != nil {
		return err
	}
	if err := x.identity(c.Identify); err != nil {
		return err
	}
	if err := x.bindings(c); err != nil {
		return err
	}
	return x.password(c.Password)
}

func (x *rightsEdit) identity(is *store.Identity) error {
	if is == nil {
		return nil
	}
	one := *is
	one.Principal = cmp.Or(one.Principal, x.Revision)
	if err := checkTexts("identity", one.Issuer, one.Subject, one.Source); err != nil {
		return err
	}
	if !slices.ContainsFunc(x.Principals, func(p store.Principal) bool { return p.ID == one.Principal }) {
		return errNoRow
	}
	i, there := slices.BinarySearchFunc(x.Identities, one, func(a, b store.Identity) int {
		return cmp.Or(cmp.Compare(a.Issuer, b.Issuer), cmp.Compare(a.Subject, b.Subject))
	})
	if there {
		x.Identities[i] = one
		return nil
	}
	x.Identities = slices.Insert(x.Identities, i, one)
	return nil
}

func (x *rightsEdit) password(p *store.Password) error {
	if p == nil {
		return nil
	}
	is := store.Password{Principal: cmp.Or(p.Principal, x.Revision), Hash: p.Hash, Changed: x.now}
	if err := checkTexts("password", is.Hash); err != nil {
		return err
	}
	there := slices.ContainsFunc(x.Principals, func(o store.Principal) bool { return o.ID == is.Principal })
	switch {
	case is.Hash == "":
		delete(x.passwords, is.Principal)
	case !there:
		return errNoRow
	case x.passwords == nil:
		x.passwords = map[int64]store.Password{is.Principal: is}
	default:
		x.passwords[is.Principal] = is
	}
	return nil
}

// PasswordOf implements store.Access.
func (e *rights) PasswordOf(ctx context.Context, principal int64) (p store.Password, err error) {
	return p, e.s.read(ctx, Read, func() error {
		found, there := e.passwords[principal]
		if p = found; !there {
			return fmt.Errorf("the password of principal %d: %w", principal, store.ErrNotFound)
		}
		return nil
	})
}

// errNoRow is the error if a row that a change sets or drops does not exist.
var errNoRow = fmt.Errorf("the object of the change does not exist: %w", store.ErrFenced)

func (x *rightsEdit) roles(c *store.RightsChange) error {
	for _, r := range c.PutRoles {
		if err := checkTexts("role", r.Name, r.Verbs, r.By); err != nil {
			return err
		}
		i, there := slices.BinarySearchFunc(x.Roles, r.Name, func(o store.Role, name string) int { return cmp.Compare(o.Name, name) })
		if r.Created = x.now; there {
			r.Created = x.Roles[i].Created
			x.Roles[i] = r
			continue
		}
		x.Roles = slices.Insert(x.Roles, i, r)
	}
	for _, name := range c.DropRoles {
		n := len(x.Roles)
		x.Roles = slices.DeleteFunc(x.Roles, func(r store.Role) bool { return r.Name == name })
		if len(x.Roles) == n {
			return errNoRow
		}
		x.Bindings = slices.DeleteFunc(x.Bindings, func(b store.Binding) bool { return b.Role == name })
	}
	return nil
}

func (x *rightsEdit) bindings(c *store.RightsChange) error {
	order := func(a, b store.Binding) int {
		return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Namespace, b.Namespace))
	}
	for _, b := range c.Unbind {
		i, there := slices.BinarySearchFunc(x.Bindings, b, order)
		if !there {
			return errNoRow
		}
		x.Bindings = slices.Delete(x.Bindings, i, i+1)
	}
	for _, b := range c.Bind {
		if b.Subject == 0 {
			b.Subject = x.Revision
		}
		if err := checkTexts("binding", b.Role, b.Namespace, b.By, b.Source); err != nil {
			return err
		}
		if !slices.ContainsFunc(x.Principals, func(p store.Principal) bool { return p.ID == b.Subject }) {
			return errNoRow
		}
		i, there := slices.BinarySearchFunc(x.Bindings, b, order)
		if b.Created = x.now; there {
			b.Created = x.Bindings[i].Created
			x.Bindings[i] = b
			continue
		}
		x.Bindings = slices.Insert(x.Bindings, i, b)
	}
	return nil
}
