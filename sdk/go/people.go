package skein

import (
	"context"
	"net/http"

	api "skein.dev/skein/sdk/api/v1"
)

// People makes the calls about users, roles and bindings.
type People struct{ c *Client }

// NewPeople returns the People of a client's server.
func NewPeople(c *Client) People { return People{c} }

// Me returns the caller as the server identifies it, with its verbs by namespace.
func (p People) Me(ctx context.Context) (me api.Me, err error) {
	_, err = p.c.do(ctx, newCall(http.MethodGet, nil, "me"), &me)
	return me, err
}

// Users lists a page of users and services, by name.
func (p People) Users(ctx context.Context, cursor string, limit int) (page api.List[api.User], err error) {
	k := newCall(http.MethodGet, nil, "users")
	k.query = pageQuery(cursor, limit)
	_, err = p.c.do(ctx, k, &page)
	return page, err
}

// User reads a user or a service.
func (p People) User(ctx context.Context, name string) (u api.User, err error) {
	_, err = p.c.do(ctx, newCall(http.MethodGet, nil, "users", name), &u)
	return u, err
}

// CreateUser makes a user or a service.
func (p People) CreateUser(ctx context.Context, req api.UserRequest) (u api.User, err error) {
	err = p.post(ctx, req, &u, "", "users")
	return u, err
}

// SetPassword changes a password. A change of the caller's own password needs the old one.
func (p People) SetPassword(ctx context.Context, name string, req api.PasswordRequest) error {
	return p.post(ctx, req, nil, "password", "users", name)
}

// DisableUser removes every right of a user until EnableUser is called.
func (p People) DisableUser(ctx context.Context, name string) (u api.User, err error) {
	err = p.post(ctx, nil, &u, "disable", "users", name)
	return u, err
}

// EnableUser restores the rights of a disabled user.
func (p People) EnableUser(ctx context.Context, name string) (u api.User, err error) {
	err = p.post(ctx, nil, &u, "enable", "users", name)
	return u, err
}

// DeleteUser deletes a user or a service. Its tokens have no right afterwards.
func (p People) DeleteUser(ctx context.Context, name string) error {
	_, err := p.c.do(ctx, newCall(http.MethodDelete, nil, "users", name), nil)
	return err
}

// Roles lists the roles: built-in ones first, then custom ones by name.
func (p People) Roles(ctx context.Context) (page api.List[api.Role], err error) {
	_, err = p.c.do(ctx, newCall(http.MethodGet, nil, "roles"), &page)
	return page, err
}

// CreateRole creates a role from verbs.
func (p People) CreateRole(ctx context.Context, req api.RoleRequest) (r api.Role, err error) {
	err = p.post(ctx, req, &r, "", "roles")
	return r, err
}

// DeleteRole removes a custom role that no user has.
func (p People) DeleteRole(ctx context.Context, name string) error {
	_, err := p.c.do(ctx, newCall(http.MethodDelete, nil, "roles", name), nil)
	return err
}

// BindingFilter selects bindings. An empty field selects all.
type BindingFilter struct{ Namespace, User string }

// Bindings lists a page of bindings: principal, role and namespace.
func (p People) Bindings(ctx context.Context, f BindingFilter, cursor string, limit int) (page api.List[api.Binding], err error) {
	k := newCall(http.MethodGet, nil, "bindings")
	k.query = pageQuery(cursor, limit)
	for name, value := range map[string]string{"namespace": f.Namespace, "user": f.User} {
		if value != "" {
			k.query.Set(name, value)
		}
	}
	_, err = p.c.do(ctx, k, &page)
	return page, err
}

// Grant gives a role to a user or service.
func (p People) Grant(ctx context.Context, req api.BindingRequest) (b api.Binding, err error) {
	err = p.post(ctx, req, &b, "", "bindings")
	return b, err
}

// Revoke removes a role in a namespace, or in all namespaces ("*"), from a user or service.
func (p People) Revoke(ctx context.Context, user, role, namespace string) error {
	_, err := p.c.do(ctx, newCall(http.MethodDelete, nil, "bindings", user, role, namespace), nil)
	return err
}

func (p People) post(ctx context.Context, body, answer any, verb string, path ...string) error {
	k := newCall(http.MethodPost, nil, path...)
	k.verb = verb
	if body != nil {
		k.body = body
	}
	_, err := p.c.do(ctx, k, answer)
	return err
}
