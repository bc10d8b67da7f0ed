package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"sort"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/people"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// humans are the routes of users, roles and bindings.
type humans struct {
	s         *Server
	store     store.Access
	passwords *people.Passwords
	registry  *people.Registry
}

// registryStore is the part of the store that a people.Registry needs.
type registryStore struct {
	store.Access
	store.Tokens
	clock func(context.Context) (dag.Micros, error)
}

func (r registryStore) Clock(ctx context.Context) (dag.Micros, error) { return r.clock(ctx) }

func registryOf(s *Server) *people.Registry {
	clock := func(ctx context.Context) (dag.Micros, error) { return s.engine.Clock(ctx) }
	return people.NewRegistry(registryStore{s.cfg.Access, s.cfg.Tokens, clock}, s.cfg.Passwords)
}

func peopleRoutes(s *Server, users, roles tag) {
	h := humans{s, s.cfg.Access, s.cfg.Passwords, registryOf(s)}
	made := func(op huma.Operation) huma.Operation {
		op.DefaultStatus = http.StatusCreated
		return op
	}
	route(s, users.get("/users", "list-users", "List users and services by name"), h.listUsers)
	route(s, made(users.verb("/users", "create-user", "Make a user or a service")), h.createUser)
	route(s, users.get("/users/{name}", "get-user", "Read a user or a service"), h.getUser)
	route(s, users.verb("/users/{name}:password", "change-password", "Change your own password, or that of another user"), h.setPassword)
	route(s, users.verb("/users/{name}:disable", "disable-user", "Disable a user: it has no rights until it is enabled"), h.sets(store.PrincipalDisabled))
	route(s, users.verb("/users/{name}:enable", "enable-user", "Enable a disabled user"), h.sets(store.PrincipalActive))
	route(s, users.delete("/users/{name}", "delete-user", "Remove a user or a service with its roles; its tokens lose all rights"), h.deleteUser)
	route(s, roles.get("/roles", "list-roles", "List the roles: first the built-in ones, then custom ones by name"), h.listRoles)
	route(s, made(roles.verb("/roles", "create-role", "Make a custom role from a set of verbs")), h.createRole)
	route(s, roles.delete("/roles/{name}", "delete-role", "Remove a custom role that no user or service has"), h.deleteRole)
	route(s, roles.get("/bindings", "list-bindings", "List the roles that users and services have, by namespace"), h.listBindings)
	route(s, made(roles.verb("/bindings", "grant-role", "Grant a role to a user or service; you need each verb of the role in that namespace")), h.grant)
	route(s, roles.delete("/bindings/{user}/{role}/{ns}", "revoke-role", "Revoke a role of a user or service; every node applies it within seconds"), h.revoke)
}

// refusedChange translates the errors of package people.
func refusedChange(err error) error {
	var often *people.Often
	switch {
	case err == nil:
		return nil
	case errors.As(err, &often):
		f := fail(http.StatusTooManyRequests, api.ProblemBusy, "%s", err)
		f.header.Set("Retry-After", strconv.Itoa(int(math.Ceil(often.After.Seconds()))))
		return f
	case errors.Is(err, people.ErrBusy):
		f := fail(http.StatusTooManyRequests, api.ProblemBusy, "%s", err)
		f.header.Set("Retry-After", "5")
		return f
	case errors.Is(err, people.ErrWrong):
		return fail(http.StatusForbidden, api.ProblemForbidden, "old: this is not your current password")
	case errors.Is(err, people.ErrWeak), errors.Is(err, people.ErrInvalid):
		return invalid("%s", err)
	case errors.Is(err, people.ErrNotFound):
		return notFound("%s", err)
	case errors.Is(err, people.ErrConflict):
		return fail(http.StatusConflict, api.ProblemConflict, "%s", err)
	case errors.Is(err, people.ErrForbidden):
		return fail(http.StatusForbidden, api.ProblemForbidden, "%s", err)
	}
	return unread(err)
}

// changer returns the caller of a change of rights.
func changer(ctx context.Context) people.Caller {
	p, now := auth.Rights(ctx)
	by, _ := auth.Holder(ctx) // a program on the machine of the node has no principal
	return people.Caller{Name: userOf(ctx), Rights: p, Now: now, Principal: by.Principal, Maker: by.Maker, Behind: auth.Behind(ctx)}
}

func (h humans) rights(ctx context.Context) (store.Rights, error) {
	all, err := h.store.Rights(ctx)
	return all, unread(err)
}

func (h humans) listUsers(ctx context.Context, in *Page) (*jsonOut[api.List[api.User]], error) {
	after, err := in.after()
	if err != nil {
		return nil, err
	}
	all, err := h.rights(ctx)
	if err != nil {
		return nil, err
	}
	sort.Slice(all.Principals, func(i, j int) bool { return all.Principals[i].Name < all.Principals[j].Name })
	items, next := []api.User{}, ""
	for i := range all.Principals {
		p := &all.Principals[i]
		switch {
		case p.Name <= after || !isHuman(p):
			continue
		case len(items) == in.Limit:
			next = items[len(items)-1].Name
		default:
			items = append(items, userShown(&all, p))
			continue
		}
		break
	}
	return list(items, next), nil
}

// isHuman reports whether these routes manage a principal.
func isHuman(p *store.Principal) bool {
	return p.Kind == store.PrincipalUser || p.Kind == store.PrincipalService
}

func userShown(all *store.Rights, p *store.Principal) api.User {
	u := api.User{Name: p.Name, Kind: p.Kind, State: p.State, Roles: []api.RoleRef{}, CreatedAt: api.Time{Time: p.Created.Time()}, CreatedBy: p.By,
		Source: cmp.Or(people.SourceOf(all, p.ID), "local")}
	for _, b := range all.Bindings {
		if b.Subject == p.ID {
			u.Roles = append(u.Roles, api.RoleRef{Role: b.Role, Namespace: b.Namespace, ExpiresAt: instantOrNull(b.Expires)})
		}
	}
	return u
}

type UserPath struct {
	Name string `path:"name" maxLength:"100"`
}

func (h humans) getUser(ctx context.Context, in *UserPath) (*jsonOut[api.User], error) {
	return h.user(ctx, in.Name)
}

func (h humans) user(ctx context.Context, name string) (*jsonOut[api.User], error) {
	all, err := h.rights(ctx)
	if err != nil {
		return nil, err
	}
	p, err := people.Find(&all, name)
	if err != nil {
		return nil, refusedChange(err)
	}
	u := userShown(&all, &p)
	_, err = h.store.PasswordOf(ctx, p.ID)
	has := err == nil
	if u.HasPassword = &has; err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, unread(err)
	}
	return &jsonOut[api.User]{Body: u}, nil
}

type createUserIn struct{ Body api.UserRequest }

func (h humans) createUser(ctx context.Context, in *createUserIn) (*jsonOut[api.User], error) {
	u := people.NewUser{Name: in.Body.Name, Service: in.Body.Kind == store.PrincipalService, Password: in.Body.Password}
	for i := range in.Body.Roles {
		g, err := h.granted(ctx, &in.Body.Roles[i])
		if err != nil {
			return nil, err
		}
		u.Grants = append(u.Grants, g)
	}
	noteAudit(ctx, "", "user "+in.Body.Name+rolesText(in.Body.Roles))
	if err := h.registry.Create(ctx, changer(ctx), u); err != nil {
		return nil, refusedChange(err)
	}
	return h.user(ctx, in.Body.Name)
}

// rolesText names roles in an audit row.
func rolesText(roles []api.RoleRef) string {
	text := ""
	for i := range roles {
		text += ", role " + roles[i].Role + " in " + cmp.Or(roles[i].Namespace, access.Everywhere)
	}
	return text
}

// granted parses a role to grant.
func (h humans) granted(ctx context.Context, r *api.RoleRef) (people.Grant, error) {
	g := people.Grant{Role: r.Role, Namespace: r.Namespace}
	if r.ExpiresAt == nil {
		return g, nil
	}
	now, err := h.s.engine.Clock(ctx)
	if err != nil {
		return g, err
	}
	if g.Expires = dag.Micros(r.ExpiresAt.UnixMicro()); g.Expires <= now {
		return g, invalid("expires_at is in the past: the role would never count")
	}
	return g, nil
}

// setPasswordIn contains the address of its caller, because wrong passwords are counted by address.
type setPasswordIn struct {
	UserPath
	Body api.PasswordRequest
	from netip.Addr
}

// Resolve implements huma.Resolver.
func (in *setPasswordIn) Resolve(ctx huma.Context) []error {
	in.from = addressOf(ctx.RemoteAddr())
	return nil
}

// addressOf returns the address of a caller. The zero address is a caller in this process.
func addressOf(remote string) netip.Addr {
	a, _ := netip.ParseAddrPort(remote)
	return a.Addr()
}

func (h humans) setPassword(ctx context.Context, in *setPasswordIn) (*struct{}, error) {
	all, err := h.rights(ctx)
	if err != nil {
		return nil, err
	}
	p, err := people.Find(&all, in.Name)
	if t, held := auth.Holder(ctx); err == nil && held && t.Principal == p.ID && p.Kind == store.PrincipalUser {
		if source := people.SourceOf(&all, p.ID); source != "" { // this user has no password here
			return nil, fail(http.StatusConflict, api.ProblemConflict, "%s signs in by %s and has no password here", p.Name, source)
		}
		if _, err := h.passwords.Verify(ctx, p.Name, in.Body.Old, in.from); err != nil {
			return nil, refusedChange(err)
		}
		_, now := auth.Rights(ctx)
		c := people.Caller{Name: userOf(ctx), Rights: everyRight(), Now: now} // the old password is the proof, so no right is needed
		return nil, refusedChange(h.registry.SetPassword(ctx, c, in.Name, in.Body.Password))
	}
	if refused := may(ctx, access.UserWrite, access.Everywhere); refused != nil {
		return nil, refused // a caller without the right must not learn which names exist
	}
	if err != nil {
		return nil, refusedChange(err)
	}
	return nil, refusedChange(h.registry.SetPassword(ctx, changer(ctx), in.Name, in.Body.Password))
}

func (h humans) sets(state string) func(context.Context, *UserPath) (*jsonOut[api.User], error) {
	return func(ctx context.Context, in *UserPath) (*jsonOut[api.User], error) {
		if err := h.registry.SetState(ctx, changer(ctx), in.Name, state); err != nil {
			return nil, refusedChange(err)
		}
		return h.user(ctx, in.Name)
	}
}

func (h humans) deleteUser(ctx context.Context, in *UserPath) (*struct{}, error) {
	return nil, refusedChange(h.registry.Delete(ctx, changer(ctx), in.Name))
}

func (h humans) listRoles(ctx context.Context, _ *struct{}) (*jsonOut[api.List[api.Role]], error) {
	all, err := h.rights(ctx)
	if err != nil {
		return nil, err
	}
	items := []api.Role{}
	for _, r := range access.Builtin() {
		items = append(items, api.Role{Name: r.Name, Verbs: r.Verbs.Names(), Builtin: true})
	}
	for i := range all.Roles {
		items = append(items, roleShown(&all.Roles[i]))
	}
	return list(items, ""), nil
}

func roleShown(r *store.Role) api.Role {
	return api.Role{Name: r.Name, Verbs: people.VerbsOf(*r).Names(), CreatedAt: instantOrNull(r.Created), CreatedBy: textOrNull(r.By)}
}

type createRoleIn struct{ Body api.RoleRequest }

func (h humans) createRole(ctx context.Context, in *createRoleIn) (*jsonOut[api.Role], error) {
	noteAudit(ctx, "", "role "+in.Body.Name+": "+strings.Join(in.Body.Verbs, " "))
	if err := h.registry.CreateRole(ctx, changer(ctx), in.Body.Name, in.Body.Verbs); err != nil {
		return nil, refusedChange(err)
	}
	all, err := h.rights(ctx)
	if err != nil {
		return nil, err
	}
	name, err := access.Name(in.Body.Name)
	for i := range all.Roles {
		if err == nil && all.Roles[i].Name == name {
			return &jsonOut[api.Role]{Body: roleShown(&all.Roles[i])}, nil
		}
	}
	return nil, notFound("the role %s is already gone", in.Body.Name)
}

type rolePath struct {
	Name string `path:"name" maxLength:"100"`
}

func (h humans) deleteRole(ctx context.Context, in *rolePath) (*struct{}, error) {
	return nil, refusedChange(h.registry.DeleteRole(ctx, changer(ctx), in.Name))
}

type listBindingsIn struct {
	Page
	Namespace string `query:"namespace" maxLength:"63" doc:"Only roles in this namespace; * for those in all namespaces."`
	User      string `query:"user" maxLength:"100" doc:"Only the roles of this user or service."`
}

func (h humans) listBindings(ctx context.Context, in *listBindingsIn) (*jsonOut[api.List[api.Binding]], error) {
	text, err := in.after()
	if err != nil {
		return nil, err
	}
	after, err := bindingCursor(text)
	if err != nil {
		return nil, err
	}
	all, err := h.rights(ctx)
	if err != nil {
		return nil, err
	}
	names := map[int64]string{}
	for i := range all.Principals {
		names[all.Principals[i].ID] = all.Principals[i].Name
	}
	only, _ := access.Name(in.User) // an invalid name matches nothing
	items, next := []api.Binding{}, ""
	var last store.Binding
	for _, b := range all.Bindings {
		if compareBindings(b, after) <= 0 || in.Namespace != "" && b.Namespace != in.Namespace || in.User != "" && names[b.Subject] != only {
			continue
		}
		if len(items) == in.Limit {
			next = fmt.Sprintf("%d/%s/%s", last.Subject, last.Role, last.Namespace)
			break
		}
		items, last = append(items, bindingShown(names[b.Subject], &b)), b
	}
	return list(items, next), nil
}

// bindingCursor reads the cursor of a page: the binding after which the page begins.
func bindingCursor(text string) (b store.Binding, err error) {
	if text == "" {
		return b, nil
	}
	parts := strings.SplitN(text, "/", 3)
	if len(parts) == 3 {
		b.Subject, err = strconv.ParseInt(parts[0], 10, 64)
	}
	if len(parts) != 3 || err != nil {
		return b, invalid("cursor is not a next value of this list; send the next of an earlier answer")
	}
	b.Role, b.Namespace = parts[1], parts[2]
	return b, nil
}

func compareBindings(a, b store.Binding) int {
	return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Namespace, b.Namespace))
}

func bindingShown(user string, b *store.Binding) api.Binding {
	return api.Binding{User: user, Role: b.Role, Namespace: b.Namespace, ExpiresAt: instantOrNull(b.Expires),
		CreatedAt: api.Time{Time: b.Created.Time()}, CreatedBy: b.By}
}

type grantIn struct{ Body api.BindingRequest }

func (h humans) grant(ctx context.Context, in *grantIn) (*jsonOut[api.Binding], error) {
	g, err := h.granted(ctx, &in.Body.RoleRef)
	if err != nil {
		return nil, err
	}
	ns := cmp.Or(g.Namespace, access.Everywhere)
	if err := may(ctx, access.MemberWrite, ns); err != nil {
		return nil, err
	}
	noteAudit(ctx, g.Namespace, "user "+in.Body.User+rolesText([]api.RoleRef{in.Body.RoleRef}))
	if err := h.registry.Grant(ctx, changer(ctx), in.Body.User, g); err != nil {
		return nil, refusedChange(err)
	}
	all, err := h.rights(ctx)
	if err != nil {
		return nil, err
	}
	p, err := people.Find(&all, in.Body.User)
	if err != nil {
		return nil, refusedChange(err)
	}
	role, _ := access.Name(g.Role) // the role was just granted, so its name is valid
	for i := range all.Bindings {
		if b := &all.Bindings[i]; b.Subject == p.ID && b.Role == role && b.Namespace == ns {
			return &jsonOut[api.Binding]{Body: bindingShown(p.Name, b)}, nil
		}
	}
	return nil, notFound("the role was taken from %s again meanwhile", p.Name)
}

type bindingPath struct {
	User      string `path:"user" maxLength:"100"`
	Role      string `path:"role" maxLength:"100"`
	Namespace string `path:"ns" maxLength:"63" doc:"* for a role in all namespaces."`
}

func (h humans) revoke(ctx context.Context, in *bindingPath) (*struct{}, error) {
	return nil, refusedChange(h.registry.Revoke(ctx, changer(ctx), in.User, people.Grant{Role: in.Role, Namespace: in.Namespace}))
}

// everyRight returns a principal with all rights in all namespaces.
func everyRight() *access.Principal {
	role, _ := access.BuiltinRole("cluster")
	p, err := access.NewPrincipal(access.User, "", []access.Binding{{Role: role, Namespace: access.Everywhere}}, access.Whole())
	if err != nil { // one binding cannot exceed a bound
		panic(err)
	}
	return p
}
