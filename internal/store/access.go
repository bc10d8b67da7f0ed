package store

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
)

// The kinds of principals.
const (
	PrincipalUser    = "user"    // a person
	PrincipalService = "service" // a program, which calls with tokens
	PrincipalWorker  = "worker"
	PrincipalNode    = "node"
	PrincipalSystem  = "system"
)

// The states of principals.
const (
	PrincipalActive   = "active"
	PrincipalDisabled = "disabled" // the principal has no rights until it is enabled
)

const (
	// FirstService is the principal that every database begins with. API tokens that name no other principal
	// belong to this service, among them all tokens of earlier versions.
	FirstService = 1
	// FirstServiceName is the name of FirstService.
	FirstServiceName = "api"
	// FirstServiceRole is the role of FirstService in all namespaces.
	FirstServiceRole = "cluster"
	// All means every verb in a list of verbs, and every namespace in a list of namespaces.
	All = "*"
)

// Principal is a caller that can have roles.
type Principal struct {
	ID      int64
	Kind    string
	Name    string // unique; in the form of access.Name
	State   string
	Created dag.Micros
	By      string // the person who made it
}

// Role is a named set of verbs.
type Role struct {
	Name    string
	Verbs   string // separated by spaces
	Created dag.Micros
	By      string
}

// Binding gives a role to a principal. Its key is the subject, the role and the namespace.
type Binding struct {
	Subject   int64 // a principal
	Role      string
	Namespace string     // All: in all namespaces and for the cluster
	Expires   dag.Micros // 0 means never
	Created   dag.Micros
	By        string
	// Source is the origin of a binding that each sign-in replaces, in the form of Identity.Source, or "" if
	// a person gave the binding.
	Source string
}

// Identity connects a principal with an account at an identity provider. Its key is the issuer and the
// subject.
type Identity struct {
	Principal       int64
	Issuer, Subject string
	Source          string // the provider's name in the settings, as oidc:NAME
}

// Password is the stored form of a principal's password.
type Password struct {
	Principal int64
	Hash      string     // in the format of package people
	Changed   dag.Micros // the time at which it was set or hashed again
}

// Rights are all principals, roles and bindings at one revision.
type Rights struct {
	Revision   int64
	Principals []Principal // sorted by ID
	Roles      []Role      // sorted by name
	Bindings   []Binding   // sorted by subject, role and namespace
	Identities []Identity  // sorted by issuer and subject
}

// RightsChange is one transaction. The parts are written in the order of the fields. The store sets Created.
type RightsChange struct {
	// Add is a new principal. Its ID becomes the revision that the change makes, and the given ID is
	// ignored.
	Add *Principal
	// Set changes the name or state of a principal. A state that is not active deletes its sessions.
	Set *Principal
	// Drop is a principal to remove, with its bindings, its password, its identities and its sessions. It is
	// 0 if there is none.
	Drop int64
	// PutRoles adds roles or changes their verbs. DropRoles removes roles with their bindings.
	PutRoles  []Role
	DropRoles []string
	// Identify adds an identity, or changes its principal and source. If its Principal is 0, it belongs to
	// the principal that Add adds.
	Identify *Identity
	// Unbind removes bindings, by their keys. Bind adds bindings, or changes their end and source. If the
	// Subject of a binding in Bind is 0, the binding belongs to the principal that Add adds.
	Unbind []Binding
	Bind   []Binding
	// Password sets the password of a principal; 0 means the principal that Add adds. An empty hash removes
	// the password. Both delete the principal's sessions and codes that were opened without a token, unless
	// SamePassword is set: then the password is the same, and only its hash was computed again.
	Password     *Password
	SamePassword bool
}

// The bounds of rights. A node reads all rights at once.
const (
	PrincipalsMax = 10_000
	RolesMax      = 200
	BindingsMax   = 20_000
	// BindingsOfOneMax bounds the bindings of one principal. A principal with more would have no rights.
	BindingsOfOneMax = 1000
)

// Fits returns an error for a change that would make the rights larger than their bounds. If the change
// expects the revision of these rights and Fits returns nil, the change cannot exceed the bounds.
func (r *Rights) Fits(c *RightsChange) error {
	added := 0
	if c.Add != nil {
		added = 1
	}
	left := r.left(c)
	for _, one := range [...]struct {
		what   string
		n, max int
	}{
		{"principals", len(r.Principals) + added, PrincipalsMax},
		{"roles", len(r.Roles) + len(c.PutRoles), RolesMax},
		{"bindings", len(left) + len(c.Bind), BindingsMax},
	} {
		if one.n > one.max {
			return fmt.Errorf("there would be %d %s; the bound is %d: %w", one.n, one.what, one.max, ErrRefused)
		}
	}
	return left.fits(c)
}

// bound is a set of keys of bindings.
type bound map[boundKey]bool

type boundKey struct {
	subject         int64
	role, namespace string
}

func boundKeyOf(b *Binding) boundKey { return boundKey{b.Subject, b.Role, b.Namespace} }

// left returns the bindings that remain if a change removes some.
func (r *Rights) left(c *RightsChange) bound {
	keys := bound{}
	for i := range r.Bindings {
		keys[boundKeyOf(&r.Bindings[i])] = true
	}
	for i := range c.Unbind {
		delete(keys, boundKeyOf(&c.Unbind[i]))
	}
	return keys
}

// fits returns an error if a principal to which a change adds bindings would have more than BindingsOfOneMax.
func (keys bound) fits(c *RightsChange) error {
	of := map[int64]int{}
	for k := range keys {
		of[k.subject]++
	}
	for i := range c.Bind {
		b := &c.Bind[i]
		k := boundKeyOf(b)
		if keys[k] {
			continue
		}
		keys[k] = true
		if of[b.Subject]++; of[b.Subject] > BindingsOfOneMax {
			return fmt.Errorf("a principal would have %d bindings; the bound is %d, give roles for all namespaces instead: %w", of[b.Subject], BindingsOfOneMax, ErrRefused)
		}
	}
	return nil
}

// Access is the part of a store that keeps principals, roles and bindings. Like tokens, they belong to no
// shard and are not part of Export.
type Access interface {
	// RightsRevision reads the revision of the rights. Every change raises it by 1.
	RightsRevision(ctx context.Context) (int64, error)
	// Rights reads all rights in one snapshot.
	Rights(ctx context.Context) (Rights, error)
	// ChangeRights makes a change in one transaction and returns the new revision. expect is the revision of
	// the rights on which the caller has decided the change. ChangeRights returns ErrFenced if the rights
	// have another revision, or if an object to be set or dropped does not exist. It returns ErrRefused if a
	// name is taken. After an error nothing is written.
	ChangeRights(ctx context.Context, expect int64, c RightsChange) (revision int64, err error)
	// PasswordOf reads the password of a principal. It returns ErrNotFound if the principal has none. Hashes are
	// not part of Rights, so only a sign-in reads one.
	PasswordOf(ctx context.Context, principal int64) (Password, error)
}
