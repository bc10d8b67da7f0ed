package sqlite

import (
	"cmp"
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/store"
)

var _ store.Access = (*DB)(nil)

// rights implements store.Access for the database that embeds it.
type rights struct{ d *DB }

// RightsRevision implements store.Access.
func (e rights) RightsRevision(ctx context.Context) (int64, error) {
	return first(e.d, ctx, "rightsRevision", nil, scanRevision)
}

// Rights implements store.Access.
func (e rights) Rights(ctx context.Context) (all store.Rights, err error) {
	conn, err := e.d.take(ctx)
	if err != nil {
		return all, err
	}
	defer e.d.give(ctx, conn, &err)
	end := sqlitex.Transaction(conn) // one snapshot for all following reads
	defer end(&err)
	revisions, err := listOn(e.d, conn, "rightsRevision", nil, scanRevision)
	if err != nil {
		return all, err
	}
	for _, is := range revisions {
		all.Revision = is
	}
	if all.Principals, err = listOn(e.d, conn, "principals", nil, scanPrincipal); err != nil {
		return all, err
	}
	if all.Roles, err = listOn(e.d, conn, "roles", nil, scanRole); err != nil {
		return all, err
	}
	if all.Bindings, err = listOn(e.d, conn, "bindings", nil, scanBinding); err != nil {
		return all, err
	}
	all.Identities, err = listOn(e.d, conn, "identities", nil, scanIdentity)
	return all, err
}

// ChangeRights implements store.Access.
func (e rights) ChangeRights(ctx context.Context, expect int64, c store.RightsChange) (int64, error) {
	d := e.d
	err := changeNoted(ctx, d, "change of rights", func() error {
		if err := d.stmts.moveRights.row().int(expect).one(d.conn); err != nil {
			return err
		}
		if err := changePrincipals(d, expect+1, &c); err != nil {
			return err
		}
		if err := changeBindings(d, expect+1, &c); err != nil {
			return err
		}
		return changePassword(d, expect+1, &c)
	})
	if err != nil {
		return 0, fmt.Errorf("change the rights: %w", err)
	}
	return expect + 1, nil
}

func changePrincipals(d *DB, is int64, c *store.RightsChange) error {
	if p := c.Add; p != nil {
		if err := d.stmts.insertPrincipal.row().int(is).text(p.Kind).text(p.Name).text(p.State).int(int64(wall())).text(p.By).one(d.conn); err != nil {
			return err
		}
	}
	if p := c.Set; p != nil {
		if err := d.stmts.setPrincipal.row().int(p.ID).text(p.Name).text(p.State).one(d.conn); err != nil {
			return err
		}
		if p.State != store.PrincipalActive {
			if _, err := d.stmts.dropAllSessionsOf.row().int(p.ID).exec(d.conn); err != nil {
				return err
			}
		}
	}
	if c.Drop == 0 {
		return nil
	}
	if err := d.stmts.dropPrincipal.row().int(c.Drop).one(d.conn); err != nil {
		return err
	}
	if _, err := d.stmts.dropPassword.row().int(c.Drop).exec(d.conn); err != nil {
		return err
	}
	if _, err := d.stmts.dropIdentities.row().int(c.Drop).exec(d.conn); err != nil {
		return err
	}
	if _, err := d.stmts.dropAllSessionsOf.row().int(c.Drop).exec(d.conn); err != nil {
		return err
	}
	_, err := d.stmts.unbindPrincipal.row().int(c.Drop).exec(d.conn)
	return err
}

func changePassword(d *DB, is int64, c *store.RightsChange) error {
	if c.Password == nil {
		return nil
	}
	of := cmp.Or(c.Password.Principal, is)
	if !c.SamePassword {
		if _, err := d.stmts.dropSessionsOf.row().int(of).exec(d.conn); err != nil {
			return err
		}
	}
	if c.Password.Hash == "" {
		_, err := d.stmts.dropPassword.row().int(of).exec(d.conn)
		return err
	}
	return d.stmts.putPassword.row().int(of).text(c.Password.Hash).int(int64(wall())).one(d.conn)
}

// PasswordOf implements store.Access.
func (e rights) PasswordOf(ctx context.Context, principal int64) (store.Password, error) {
	return first(e.d, ctx, "passwordOf", []any{principal}, scanPassword)
}

func changeBindings(d *DB, is int64, c *store.RightsChange) error {
	for _, r := range c.PutRoles {
		if err := d.stmts.putRole.row().text(r.Name).text(r.Verbs).int(int64(wall())).text(r.By).one(d.conn); err != nil {
			return err
		}
	}
	for _, name := range c.DropRoles {
		if err := d.stmts.dropRole.row().text(name).one(d.conn); err != nil {
			return err
		}
		if _, err := d.stmts.unbindRole.row().text(name).exec(d.conn); err != nil {
			return err
		}
	}
	if one := c.Identify; one != nil {
		err := d.stmts.identify.row().int(cmp.Or(one.Principal, is)).text(one.Issuer).text(one.Subject).text(one.Source).one(d.conn)
		if err != nil {
			return err
		}
	}
	for _, b := range c.Unbind {
		if err := d.stmts.unbind.row().int(b.Subject).text(b.Role).text(b.Namespace).one(d.conn); err != nil {
			return err
		}
	}
	for _, b := range c.Bind {
		if b.Subject == 0 {
			b.Subject = is
		}
		err := d.stmts.bind.row().int(b.Subject).text(b.Role).text(b.Namespace).int(int64(b.Expires)).int(int64(wall())).text(b.By).text(b.Source).one(d.conn)
		if err != nil {
			return err
		}
	}
	return nil
}

func scanRevision(s *sqlite.Stmt, is *int64) error {
	*is = s.ColumnInt64(0)
	return nil
}

func scanPrincipal(s *sqlite.Stmt, p *store.Principal) error {
	c := row{s: s}
	p.ID, p.Kind, p.Name, p.State, p.Created, p.By = c.int(), c.text(), c.text(), c.text(), c.micros(), c.text()
	return nil
}

func scanRole(s *sqlite.Stmt, r *store.Role) error {
	c := row{s: s}
	r.Name, r.Verbs, r.Created, r.By = c.text(), c.text(), c.micros(), c.text()
	return nil
}

func scanBinding(s *sqlite.Stmt, b *store.Binding) error {
	c := row{s: s}
	b.Subject, b.Role, b.Namespace, b.Expires, b.Created, b.By, b.Source = c.int(), c.text(), c.text(), c.micros(), c.micros(), c.text(), c.text()
	return nil
}

func scanIdentity(s *sqlite.Stmt, i *store.Identity) error {
	c := row{s: s}
	i.Principal, i.Issuer, i.Subject, i.Source = c.int(), c.text(), c.text(), c.text()
	return nil
}

func scanPassword(s *sqlite.Stmt, p *store.Password) error {
	c := row{s: s}
	p.Principal, p.Hash, p.Changed = c.int(), c.text(), c.micros()
	return nil
}
