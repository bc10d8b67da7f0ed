package people

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/suggest"
)

// The kinds of refusals of a Registry. The text of each error names the refused thing, the reason and the
// remedy.
var (
	ErrNotFound  = errors.New("not found")
	ErrInvalid   = errors.New("not valid")
	ErrConflict  = errors.New("conflict")
	ErrForbidden = errors.New("forbidden")
)

// refusal is an error of a kind, whose text does not repeat the kind.
type refusal struct {
	kind error
	text string
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.kind }

func refuse(kind error, format string, args ...any) error {
	return &refusal{kind, fmt.Sprintf(format, args...)}
}

// Caller is the user or service in whose name a change is made.
type Caller struct {
	Name   string // the name in the audit log
	Rights *access.Principal
	Now    dag.Micros // the time at which its rights are valid
	// Principal and Maker are the IDs of the token's principal and maker. Rights may be some seconds old, so
	// each change also requires the present rights of both. 0 means that there is none.
	Principal, Maker int64
	// Behind contains the principals of the ancestors of the token.
	Behind []int64
}

// under returns the caller with only those rights that its principal and its maker still have.
func (c *Caller) under(all *store.Rights) *Caller {
	is := *c
	for _, id := range append([]int64{c.Maker, c.Principal}, c.Behind...) {
		if id != 0 {
			is.Rights = principalOf(all, id).Under(is.Rights)
		}
	}
	return &is
}

// principalOf returns an active principal with the rights of its bindings. A principal that is not active has
// no rights.
func principalOf(all *store.Rights, id int64) *access.Principal {
	none := &access.Principal{}
	i := slices.IndexFunc(all.Principals, func(p store.Principal) bool { return p.ID == id })
	if i < 0 || all.Principals[i].State != store.PrincipalActive {
		return none
	}
	var bindings []access.Binding
	for _, b := range all.Bindings {
		if role, err := RoleOf(all, b.Role); err == nil && b.Subject == id {
			bindings = append(bindings, access.Binding{Role: role, Namespace: b.Namespace, Expires: b.Expires})
		}
	}
	p, err := access.NewPrincipal(access.ParseKind(all.Principals[i].Kind), all.Principals[i].Name, bindings, access.Whole())
	if err != nil { // the principal has more bindings than the limit
		return none
	}
	return p
}

// RegistryStore is a Store that also has the tokens. The tokens determine whether some principal can still
// administer everything.
type RegistryStore interface {
	Store
	TokenList(ctx context.Context) ([]store.Token, error)
	Clock(ctx context.Context) (dag.Micros, error)
}

// Registry changes users, roles and bindings. Each change is decided on the rights of one revision, and is
// written only if that revision is still the present one. A caller cannot give a right that it does not have.
// It also cannot change the account of a principal with such a right.
type Registry struct {
	store     RegistryStore
	passwords *Passwords
}

// NewRegistry returns a registry. It shares p with all other users of passwords on its node.
func NewRegistry(s RegistryStore, p *Passwords) *Registry { return &Registry{s, p} }

// decidesMax bounds how often a change is decided again because other rights changed in the meantime.
const decidesMax = 10

// change decides on the present rights, and writes the result of decide. The caller needs a verb, and has
// only the rights that it still has. So a caller that has just lost a right cannot restore it for itself.
func (r *Registry) change(ctx context.Context, by Caller, need access.Need, decide func(by *Caller, now *store.Rights) (store.RightsChange, error)) error {
	for range decidesMax {
		now, err := r.store.Rights(ctx)
		if err != nil {
			return err
		}
		is := by.under(&now)
		if err := access.Check(is.Rights, need, is.Now); err != nil {
			return refuse(ErrForbidden, "%s", err)
		}
		c, err := decide(is, &now)
		if err != nil {
			return err
		}
		if err := now.Fits(&c); err != nil {
			return refuse(ErrConflict, "%s", err)
		}
		if err := r.stays(ctx, &now, &c); err != nil {
			return err
		}
		_, err = r.store.ChangeRights(ctx, now.Revision, c)
		switch {
		case errors.Is(err, store.ErrFenced):
			continue
		case errors.Is(err, store.ErrRefused):
			return refuse(ErrConflict, "the database refuses the change: %s", err)
		}
		return err
	}
	return refuse(ErrConflict, "other callers keep changing the rights; try again")
}

// anywhere returns the need for a verb in the whole cluster.
func anywhere(v access.Verb) access.Need { return access.Need{Verb: v, Namespace: access.Everywhere} }

// membersOf returns the need for the verb that gives and takes roles in the namespace of a grant.
func membersOf(g Grant) access.Need {
	return access.Need{Verb: access.MemberWrite, Namespace: cmp.Or(g.Namespace, access.Everywhere)}
}

// Find returns a user or service by its name.
func Find(all *store.Rights, name string) (store.Principal, error) {
	folded, err := access.Name(name)
	if err == nil {
		for _, p := range all.Principals {
			if p.Name == folded {
				return p, nil
			}
		}
	}
	return store.Principal{}, refuse(ErrNotFound, "there is no user or service %.60q; skein user list shows their names", name)
}

// RoleOf finds a built-in or custom role by its name.
func RoleOf(all *store.Rights, name string) (access.Role, error) {
	folded, err := access.Name(name)
	if role, ok := access.BuiltinRole(folded); ok && err == nil {
		return role, nil
	}
	names := []string{}
	for _, role := range all.Roles {
		if role.Name == folded && err == nil {
			return access.Role{Name: role.Name, Verbs: VerbsOf(role)}, nil
		}
		names = append(names, role.Name)
	}
	for _, role := range access.Builtin() {
		names = append(names, role.Name)
	}
	hint := "; roles of the program: viewer, operator, editor, admin, cluster, auditor"
	if like := suggest.Nearest(folded, slices.Values(names)); like != "" {
		hint = "; did you mean " + like + "?"
	}
	return access.Role{}, refuse(ErrNotFound, "there is no role %.60q%s", name, hint)
}

// VerbsOf returns the verbs of a custom role that this program knows.
func VerbsOf(r store.Role) (set access.Verbs) {
	for name := range strings.FieldsSeq(r.Verbs) {
		if v, err := access.ParseVerb(name); err == nil {
			set |= access.VerbsOf(v)
		}
	}
	return set
}

// Grant is a role in a namespace, or in all namespaces.
type Grant struct {
	Role, Namespace string
	Expires         dag.Micros // 0 means never
}

// bind returns the binding of a grant, if the caller may give it.
func (c *Caller) bind(all *store.Rights, subject int64, g Grant) (store.Binding, error) {
	role, err := RoleOf(all, g.Role)
	if err != nil {
		return store.Binding{}, err
	}
	ns := cmp.Or(g.Namespace, access.Everywhere)
	if err := access.CheckNamespace(ns); err != nil {
		return store.Binding{}, refuse(ErrInvalid, "%s", err)
	}
	if err := access.MayGive(c.Rights, role.Verbs, ns, c.Now); err != nil {
		return store.Binding{}, refuse(ErrForbidden, "the role %s: %s", role.Name, err)
	}
	return store.Binding{Subject: subject, Role: role.Name, Namespace: ns, Expires: g.Expires, By: c.Name}, nil
}

// Covers refuses a change of a principal that has a right that the caller does not have. Without this check,
// a caller could set a new password and get the rights of the principal.
func (c *Caller) Covers(all *store.Rights, p *store.Principal) error {
	for _, b := range all.Bindings {
		if b.Subject != p.ID {
			continue
		}
		role, err := RoleOf(all, b.Role)
		if err == nil && role.Verbs != 0 {
			if err := access.MayGive(c.Rights, role.Verbs, b.Namespace, c.Now); err != nil {
				return refuse(ErrForbidden, "%s has the role %s: %s", p.Name, role.Name, err)
			}
		}
	}
	return nil
}

// NewUser holds the first properties of a new user or service.
type NewUser struct {
	Name     string
	Service  bool   // the user is a program, which has tokens and no password
	Password string // empty if there is none
	Grants   []Grant
}

// Create adds a user or a service.
func (r *Registry) Create(ctx context.Context, c Caller, u NewUser) error {
	name, err := access.Name(u.Name)
	if err != nil {
		return refuse(ErrInvalid, "%s", err)
	}
	if reserved(name) {
		return refuse(ErrInvalid, "the name %s is reserved; choose another one", name)
	}
	p := store.Principal{Kind: store.PrincipalUser, Name: name, State: store.PrincipalActive, By: c.Name}
	if u.Service {
		p.Kind = store.PrincipalService
	}
	var password *store.Password
	if u.Password != "" {
		if u.Service {
			return refuse(ErrInvalid, "a service has no password; make a token for it: skein token create --for %s", name)
		}
		kept, err := r.passwords.Hash(ctx, name, u.Password)
		if err != nil {
			return err
		}
		password = &store.Password{Hash: kept}
	}
	if err := r.free(ctx, name); err != nil {
		return err
	}
	return r.change(ctx, c, anywhere(access.UserWrite), func(c *Caller, all *store.Rights) (store.RightsChange, error) {
		change := store.RightsChange{Add: &p, Password: password}
		if _, err := Find(all, name); err == nil {
			return change, refuse(ErrConflict, "there is a user or service %s already; choose another name", name)
		}
		for _, g := range u.Grants {
			b, err := c.bind(all, 0, g)
			if err != nil {
				return change, err
			}
			change.Bind = append(change.Bind, b)
		}
		return change, nil
	})
}

// free refuses a name that the audit log uses for calls with a token, because the log must distinguish a user
// from a token.
func (r *Registry) free(ctx context.Context, name string) error {
	tokens, err := r.store.TokenList(ctx)
	if err != nil {
		return err
	}
	for _, t := range tokens {
		if folded, err := access.Name(t.Name); err == nil && folded == name && t.Kind == store.TokenAPI && t.Revoked == 0 && t.Principal == store.FirstService {
			return refuse(ErrConflict, "there is a token %s, whose calls are recorded under that name; revoke it first, or choose another name: skein token revoke %s", t.Name, t.Name)
		}
	}
	return nil
}

// reserved reports whether a name belongs to callers that are no principals of the store.
func reserved(name string) bool {
	return slices.Contains([]string{"local", "skein", "nobody", "system", "node", "worker"}, name)
}

// of finds a principal by its name, and makes the change that decide returns.
func (r *Registry) of(ctx context.Context, c Caller, name string, decide func(p store.Principal) (store.RightsChange, error)) error {
	return r.change(ctx, c, anywhere(access.UserWrite), func(c *Caller, all *store.Rights) (store.RightsChange, error) {
		p, err := Find(all, name)
		if err == nil {
			err = c.Covers(all, &p)
		}
		if err != nil {
			return store.RightsChange{}, err
		}
		return decide(p)
	})
}

// SetPassword gives a user another password.
func (r *Registry) SetPassword(ctx context.Context, c Caller, name, password string) error {
	kept, err := r.passwords.Hash(ctx, name, password)
	if err != nil {
		return err
	}
	all, err := r.store.Rights(ctx)
	if err != nil {
		return err
	}
	return r.of(ctx, c, name, func(p store.Principal) (store.RightsChange, error) {
		if source := SourceOf(&all, p.ID); source != "" {
			return store.RightsChange{}, refuse(ErrConflict, "%s signs in by %s and has no password here", p.Name, source)
		}
		if p.Kind != store.PrincipalUser {
			return store.RightsChange{}, refuse(ErrConflict, "%s is a service, which has no password; make a token for it: skein token create --for %s", p.Name, p.Name)
		}
		return store.RightsChange{Password: &store.Password{Principal: p.ID, Hash: kept}}, nil
	})
}

// SetState makes a principal active or disabled.
func (r *Registry) SetState(ctx context.Context, c Caller, name, state string) error {
	return r.of(ctx, c, name, func(p store.Principal) (store.RightsChange, error) {
		p.State = state
		return store.RightsChange{Set: &p}, nil
	})
}

// Delete removes a user or a service with its bindings. Its tokens keep no right.
func (r *Registry) Delete(ctx context.Context, c Caller, name string) error {
	return r.of(ctx, c, name, func(p store.Principal) (store.RightsChange, error) {
		if p.ID == store.FirstService {
			return store.RightsChange{}, refuse(ErrConflict, "the service %s cannot be deleted, because tokens without another owner belong to it; disable it instead", p.Name)
		}
		return store.RightsChange{Drop: p.ID}, nil
	})
}

// Grant gives a role to a principal.
func (r *Registry) Grant(ctx context.Context, c Caller, name string, g Grant) error {
	return r.change(ctx, c, membersOf(g), func(c *Caller, all *store.Rights) (store.RightsChange, error) {
		p, err := Find(all, name)
		if err != nil {
			return store.RightsChange{}, err
		}
		b, err := c.bind(all, p.ID, g)
		if err != nil {
			return store.RightsChange{}, err
		}
		return store.RightsChange{Bind: []store.Binding{b}}, nil
	})
}

// Revoke takes a role from a principal.
func (r *Registry) Revoke(ctx context.Context, c Caller, name string, g Grant) error {
	return r.change(ctx, c, membersOf(g), func(c *Caller, all *store.Rights) (store.RightsChange, error) {
		p, err := Find(all, name)
		if err != nil {
			return store.RightsChange{}, err
		}
		b, err := c.bind(all, p.ID, g)
		if err != nil {
			return store.RightsChange{}, err
		}
		if !slices.ContainsFunc(all.Bindings, func(o store.Binding) bool { return key(o) == key(b) }) {
			return store.RightsChange{}, refuse(ErrNotFound, "%s does not have the role %s in %s", p.Name, b.Role, b.Namespace)
		}
		return store.RightsChange{Unbind: []store.Binding{b}}, nil
	})
}

type bindingKey struct {
	subject         int64
	role, namespace string
}

func key(b store.Binding) bindingKey { return bindingKey{b.Subject, b.Role, b.Namespace} }

// CreateRole adds a custom role. It gives no right.
func (r *Registry) CreateRole(ctx context.Context, c Caller, name string, verbs []string) error {
	set, err := access.ParseVerbs(verbs)
	if err != nil {
		return refuse(ErrInvalid, "%s; skein role list shows the verbs of each role", err)
	}
	role, err := access.NewRole(name, set)
	if err != nil {
		return refuse(ErrInvalid, "%s", err)
	}
	return r.change(ctx, c, anywhere(access.RoleWrite), func(c *Caller, all *store.Rights) (store.RightsChange, error) {
		if slices.ContainsFunc(all.Roles, func(o store.Role) bool { return o.Name == role.Name }) {
			return store.RightsChange{}, refuse(ErrConflict, "there is a role %s already; give the new role another name, so that no existing right changes", role.Name)
		}
		return store.RightsChange{PutRoles: []store.Role{{Name: role.Name, Verbs: role.Verbs.String(), By: c.Name}}}, nil
	})
}

// DeleteRole removes a custom role that no principal has.
func (r *Registry) DeleteRole(ctx context.Context, c Caller, name string) error {
	return r.change(ctx, c, anywhere(access.RoleWrite), func(_ *Caller, all *store.Rights) (store.RightsChange, error) {
		role, err := RoleOf(all, name)
		if err != nil {
			return store.RightsChange{}, err
		}
		if _, builtin := access.BuiltinRole(role.Name); builtin {
			return store.RightsChange{}, refuse(ErrConflict, "the role %s is built in and cannot be deleted", role.Name)
		}
		n := 0
		for _, b := range all.Bindings {
			if b.Role == role.Name {
				n++
			}
		}
		if n > 0 {
			return store.RightsChange{}, refuse(ErrConflict, "the role %s is granted %d times; revoke it first: skein role revoke %s NAME", role.Name, n, role.Name)
		}
		return store.RightsChange{DropRoles: []string{role.Name}}, nil
	})
}

// stays refuses a change that removes the last principal that can administer everything.
func (r *Registry) stays(ctx context.Context, now *store.Rights, c *store.RightsChange) error {
	ends := map[int64]bool{}
	if c.Drop != 0 {
		ends[c.Drop] = true
	}
	if c.Set != nil && c.Set.State != store.PrincipalActive {
		ends[c.Set.ID] = true
	}
	gone := map[bindingKey]bool{}
	for _, b := range c.Unbind {
		gone[key(b)] = true
	}
	for _, b := range c.Bind { // a permanent binding that gets an end no longer counts as permanent
		gone[key(b)] = b.Expires != 0
	}
	before := administrators(now, nil, nil)
	after := administrators(now, ends, gone)
	if len(before) == len(after) {
		return nil
	}
	tokens, err := r.store.TokenList(ctx)
	if err != nil {
		return err
	}
	at, err := r.store.Clock(ctx)
	if err != nil {
		return err
	}
	had, err := r.reachable(ctx, before, tokens, at)
	if err != nil || !had {
		return err
	}
	has, err := r.reachable(ctx, after, tokens, at)
	if err != nil || has {
		return err
	}
	return refuse(ErrConflict, "no other user can administer everything: first give the role cluster to a user who can sign in or has a token: "+
		"skein role grant cluster NAME")
}

// StaysWithout refuses to end a token if all principals that can administer everything depend on this token.
// It does not notice two tokens that end at the same instant. In this case, a program on the machine of a
// node still has every right.
func (r *Registry) StaysWithout(ctx context.Context, token int64) error {
	return staysAfter(ctx, r, func(tokens []store.Token, _ dag.Micros) []store.Token {
		return slices.DeleteFunc(tokens, func(t store.Token) bool { return t.ID == token })
	})
}

// StaysRotated refuses a rotation after which no principal could administer everything. The successor may
// have fewer rights than the old token, and tokens that were made with the old token end with it.
func StaysRotated(ctx context.Context, r *Registry, c *store.Rotation) error {
	return staysAfter(ctx, r, func(tokens []store.Token, now dag.Micros) []store.Token {
		i := slices.IndexFunc(tokens, func(t store.Token) bool { return t.ID == c.Token })
		if i < 0 {
			return tokens
		}
		next := tokens[i]
		tokens[i].Replaced = now
		next.ID, next.Expires, next.Maker, next.Parent, next.Replaces = -1, c.Expires, c.Maker, c.Parent, c.Token // the new token has no number yet
		return append(tokens, next)
	})
}

// staysAfter refuses a change of the tokens after which no principal that can administer everything could
// sign in or call.
func staysAfter(ctx context.Context, r *Registry, change func(tokens []store.Token, now dag.Micros) []store.Token) error {
	all, err := r.store.Rights(ctx)
	if err != nil {
		return err
	}
	tokens, err := r.store.TokenList(ctx)
	if err != nil {
		return err
	}
	at, err := r.store.Clock(ctx)
	if err != nil {
		return err
	}
	ids := administrators(&all, nil, nil)
	had, err := r.reachable(ctx, ids, tokens, at)
	if err != nil || !had {
		return err
	}
	has, err := r.reachable(ctx, ids, change(tokens, at), at)
	if err != nil || has {
		return err
	}
	return refuse(ErrConflict, "without this token no user could administer everything, because the tokens that it made end with it. Make another one (skein token create) in a session "+
		"of a user, or on the database; or give a user with the role cluster a password (skein user passwd NAME)")
}

// administrators returns the active principals that have every verb everywhere, by a binding that does not
// expire. It leaves out the principals in ends, and the bindings in gone.
func administrators(all *store.Rights, ends map[int64]bool, gone map[bindingKey]bool) (ids []int64) {
	verbs := map[int64]access.Verbs{}
	for _, b := range all.Bindings {
		if role, err := RoleOf(all, b.Role); err == nil && b.Namespace == access.Everywhere && b.Expires == 0 && !gone[key(b)] {
			verbs[b.Subject] |= role.Verbs
		}
	}
	for _, p := range all.Principals {
		if p.State == store.PrincipalActive && !ends[p.ID] && verbs[p.ID].Covers(access.Whole().Verbs) {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// reachable reports whether one of the given principals has a password or a token without restrictions. A
// token that is being replaced, or that such a token made, does not count, because it ends soon.
func (r *Registry) reachable(ctx context.Context, ids []int64, tokens []store.Token, now dag.Micros) (bool, error) {
	narrow := func(t *store.Token) bool {
		return t.Replaced != 0 || t.Kind != store.TokenAPI || t.Verbs != store.All || t.Namespaces != store.All || !slices.Contains(ids, t.Principal) ||
			t.Maker != 0 && !slices.Contains(ids, t.Maker)
	}
	family := store.FamilyOf(tokens)
	for i := range tokens {
		t := &tokens[i]
		if line, _ := family.Line(t); family.Valid(t, now) && !slices.ContainsFunc(line, narrow) {
			return true, nil
		}
	}
	for _, id := range ids {
		_, err := r.store.PasswordOf(ctx, id)
		if err == nil || !errors.Is(err, store.ErrNotFound) {
			return err == nil, err
		}
	}
	return false, nil
}
