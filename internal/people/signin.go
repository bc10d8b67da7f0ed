package people

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Arrival is a person whose identity a provider has confirmed.
type Arrival struct {
	Issuer, Subject string   // the person's account at the provider
	Source          string   // the name of the provider in the store, such as oidc:NAME
	Names           []string // candidates for the name of a new user, the best one first
	Grants          []Grant  // the rights from the person's groups
}

var (
	// ErrDisabled means that the person's user is disabled.
	ErrDisabled = errors.New("disabled")
	// ErrName means that there is no free name for a new person.
	ErrName = errors.New("no name")
)

// SourceOf returns the identity provider by which a principal signs in. It returns "" if the principal signs
// in by a password or a token.
func SourceOf(all *store.Rights, principal int64) string {
	for i := range all.Identities {
		if all.Identities[i].Principal == principal {
			return all.Identities[i].Source
		}
	}
	return ""
}

// SignIn returns the user of a person whose identity a provider has just confirmed. On the first sign-in,
// SignIn makes the user. The roles from groups are replaced as a whole. Roles that people have given stay.
// unknown are roles of the settings that do not exist. Only the provider decides about the roles from groups,
// so SignIn may also remove the role of the last administrator.
func (r *Registry) SignIn(ctx context.Context, a Arrival) (who store.Principal, unknown []string, err error) {
	for range decidesMax {
		now, err := r.store.Clock(ctx)
		if err != nil {
			return who, nil, err
		}
		all, err := r.store.Rights(ctx)
		if err != nil {
			return who, nil, err
		}
		var c store.RightsChange
		who, c, unknown, err = a.change(ctx, r, &all, now)
		if err != nil || c.Add == nil && c.Identify == nil && len(c.Bind)+len(c.Unbind) == 0 {
			return who, unknown, err
		}
		if err := all.Fits(&c); err != nil {
			return who, nil, refuse(ErrConflict, "%s", err)
		}
		is, err := r.store.ChangeRights(a.noted(ctx, who.Name, &c), all.Revision, c)
		switch {
		case errors.Is(err, store.ErrFenced):
			continue
		case errors.Is(err, store.ErrRefused):
			return who, nil, refuse(ErrConflict, "the database refuses the change: %s", err)
		case err == nil && c.Add != nil:
			who.ID = is
		}
		return who, unknown, err
	}
	return who, nil, refuse(ErrConflict, "other callers keep changing the rights; try again")
}

// noted describes the change in the audit row of the sign-in. The sign-in has no caller yet.
func (a *Arrival) noted(ctx context.Context, name string, c *store.RightsChange) context.Context {
	row := store.AuditIn(ctx)
	if row == nil {
		return ctx
	}
	is := *row
	is.Principal, is.Kind, is.Detail = name, store.PrincipalUser, a.Source
	if c.Add != nil {
		is.Detail += ", new user"
	}
	for i := range c.Bind {
		is.Detail += ", role " + c.Bind[i].Role + " in " + c.Bind[i].Namespace
	}
	for i := range c.Unbind {
		is.Detail += ", no longer role " + c.Unbind[i].Role + " in " + c.Unbind[i].Namespace
	}
	return store.WithAudit(ctx, &is)
}

// change decides how a sign-in changes the present rights.
func (a *Arrival) change(ctx context.Context, r *Registry, all *store.Rights, now dag.Micros) (who store.Principal, c store.RightsChange, unknown []string, err error) {
	known := slices.IndexFunc(all.Identities, func(i store.Identity) bool { return i.Issuer == a.Issuer && i.Subject == a.Subject })
	is := -1
	if known >= 0 { // a node of an earlier version deletes a user without the identity
		is = slices.IndexFunc(all.Principals, func(p store.Principal) bool { return p.ID == all.Identities[known].Principal })
	}
	switch {
	case is < 0:
		name, err := a.name(ctx, r, all)
		if err != nil {
			return who, c, nil, err
		}
		who = store.Principal{Kind: store.PrincipalUser, Name: name, State: store.PrincipalActive, By: a.Source}
		c.Add = &who
		c.Identify = &store.Identity{Issuer: a.Issuer, Subject: a.Subject, Source: a.Source}
	case all.Principals[is].State != store.PrincipalActive:
		return who, c, nil, refuse(ErrDisabled, "the user %s is disabled; ask an administrator", all.Principals[is].Name)
	default:
		who = all.Principals[is]
		if all.Identities[known].Source != a.Source { // the provider has another name in the settings
			c.Identify = &store.Identity{Principal: who.ID, Issuer: a.Issuer, Subject: a.Subject, Source: a.Source}
		}
	}
	unknown = a.bindings(all, who.ID, now, &c)
	return who, c, unknown, nil
}

// bindings adds changes that give a principal the bindings of its groups. It leaves the bindings that people
// have given.
func (a *Arrival) bindings(all *store.Rights, principal int64, now dag.Micros, c *store.RightsChange) (unknown []string) {
	wanted := map[bindingKey]bool{}
	for _, g := range a.Grants {
		role, err := RoleOf(all, g.Role)
		ns := cmp.Or(g.Namespace, access.Everywhere)
		if err != nil || access.CheckNamespace(ns) != nil {
			unknown = append(unknown, g.Role)
			continue
		}
		b := store.Binding{Subject: principal, Role: role.Name, Namespace: ns, By: a.Source, Source: a.Source}
		if !wanted[key(b)] {
			wanted[key(b)] = true
			c.Bind = append(c.Bind, b)
		}
	}
	for _, b := range all.Bindings {
		if principal == 0 || b.Subject != principal {
			continue
		}
		over := b.Expires != 0 && b.Expires <= now
		switch {
		case b.Source != "" && !wanted[key(b)]:
			c.Unbind = append(c.Unbind, b)
		case wanted[key(b)] && (b.Source == "" && !over || b.Source == a.Source && b.Expires == 0): // the binding exists already
			c.Bind = slices.DeleteFunc(c.Bind, func(o store.Binding) bool { return key(o) == key(b) })
		}
	}
	return unknown
}

// name chooses the name of a new user. A name is not free if a principal has it, or if the audit log uses it
// for calls. In this case the name of the provider is appended. So a new account never gets the name of an
// existing one.
func (a *Arrival) name(ctx context.Context, r *Registry, all *store.Rights) (string, error) {
	taken := ""
	_, provider, _ := strings.Cut(a.Source, ":")
	for _, end := range []string{"", "@" + cmp.Or(provider, a.Source)} {
		for _, text := range a.Names {
			name, err := access.Name(text + end)
			if err != nil {
				continue
			}
			_, err = Find(all, name)
			if err == nil || reserved(name) {
				taken = name
				continue
			}
			err = r.free(ctx, name)
			if errors.Is(err, ErrConflict) {
				taken = name
				continue
			}
			return name, err
		}
	}
	if taken != "" {
		return "", refuse(ErrName, "another user has the name %s; ask an administrator", taken)
	}
	return "", refuse(ErrName, "the identity provider gives no name that can be used here (preferred_username, or email): a name has letters, digits and -_.@+")
}
