package server

import (
	"context"
	"errors"
	"net/netip"
	"strings"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/identity"
	"skein.dev/skein/internal/people"
	"skein.dev/skein/internal/store"
)

// byDirectory handles sign-ins with a name and a password that a directory checks.
type byDirectory struct {
	s        *Server
	of       *identity.Directory
	registry *people.Registry
	places   places
	refusals *refusals
}

// newByDirectory returns nil if there is no directory.
func newByDirectory(s *Server) *byDirectory {
	if s.cfg.Directory == nil {
		return nil
	}
	return &byDirectory{s, s.cfg.Directory, registryOf(s), make(places, arrivesMax), &refusals{log: s.log}}
}

// verify returns the user with a name and a password, according to the directory or to the passwords of this
// server.
func (v sessionVerbs) verify(ctx context.Context, name, password string, p *auth.Place) (store.Principal, error) {
	from, _ := netip.ParseAddrPort(p.Remote) // if the address cannot be parsed, the zero address is counted instead
	if d := v.directory; d != nil {
		there, asked, err := v.s.cfg.Passwords.Elsewhere(ctx, name, d.of.Source())
		if err != nil {
			return store.Principal{}, err
		}
		if asked {
			return d.signIn(ctx, there, password, from)
		}
	}
	return v.s.cfg.Passwords.Verify(ctx, name, password, from.Addr())
}

// signIn asks the directory. Its attempts are counted like those with local accounts.
func (d *byDirectory) signIn(ctx context.Context, name, password string, from netip.AddrPort) (who store.Principal, err error) {
	if err := d.places.enter("people are signing in by " + d.of.Name()); err != nil {
		return who, err
	}
	defer d.places.leave()
	var found identity.Person
	err = d.s.cfg.Passwords.Try(name, from.Addr(), func() (err error) {
		found, err = d.of.SignIn(ctx, name, password)
		if errors.Is(err, identity.ErrNobody) {
			return people.ErrWrong
		}
		return err
	})
	if err == nil {
		who, err = arrive(ctx, d.s, d.registry, &found)
	}
	var refused *identity.Refusal
	if errors.As(err, &refused) && !refused.Told || errors.Is(err, people.ErrName) || errors.Is(err, people.ErrDisabled) {
		d.refusals.tell(d.of.Name(), from.String(), err)
	}
	switch {
	case err == nil:
		d.s.log.Info("a person has signed in by a directory", "code", "signed_in_directory", "directory", d.of.Name(), "user", who.Name, "address", from.String())
		return who, nil
	case errors.As(err, &refused), errors.Is(err, people.ErrName), errors.Is(err, people.ErrDisabled):
		return who, arrivalFailed(err)
	}
	return who, err
}

// arrive returns the user for a person whom a provider or a directory has authenticated, and makes the user
// if there is none.
func arrive(ctx context.Context, s *Server, registry *people.Registry, found *identity.Person) (store.Principal, error) {
	arrival := people.Arrival{Issuer: found.Issuer, Subject: found.Subject, Source: found.Source, Names: found.Names}
	for _, g := range found.Grants {
		arrival.Grants = append(arrival.Grants, people.Grant{Role: g.Role, Namespace: g.Namespace})
	}
	who, unknown, err := registry.SignIn(ctx, arrival)
	if err == nil && len(unknown) > 0 {
		_, name, _ := strings.Cut(found.Source, ":")
		s.log.Warn("the setting auth grants roles that do not exist; the user does not get them", "code", "sign_in_roles_unknown",
			"provider", name, "roles", strings.Join(unknown, ", "))
	}
	return who, err
}
